"""End cleanly: SIGTERM and Ctrl-C cancel the work, which gives back what it holds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine

STOPPED = 0


def run(work: Coroutine[object, object, None]) -> int:
    """Run to the end or to a signal; the exit code of the process."""

    async def guarded() -> int:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return STOPPED
        return 0

    return asyncio.run(guarded())
