"""Cancel a task until it has really ended.

On Python 3.11 redis-py loses a cancellation that arrives together with an answer (`asyncio.wait_for` returns the
answer instead), so that a task cancelled once may go on for ever. asyncio still counts it: `Task.cancelling()`.
"""

from __future__ import annotations

import asyncio
from typing import Any

AGAIN_SECONDS = 0.5


def is_cancelled() -> bool:
    """Was the current task cancelled, though perhaps nobody raised it? For loops that would otherwise go on."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks until all are done, however they end. Our own cancellation is raised after that, not before."""
    cancelled: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending, timeout=AGAIN_SECONDS)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: asyncio does not complain that nobody asked for it
    if cancelled:
        raise cancelled


class Canceller:
    """Cancels a task from a signal handler, where nothing can be awaited, until it is done or called off."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._is_off = False

    def cancel(self) -> None:
        """Now, and again every half second."""
        if self._is_off or self._task.done():
            return
        self._task.cancel()
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.cancel)

    def call_off(self) -> None:
        """It has come to its end by itself; what it does now is not to be cancelled."""
        self._is_off = True
