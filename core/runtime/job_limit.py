"""Decide when a job should end: its time is over, or a SIGTERM came."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from core.store.cancellation import Canceller

STOP_SECONDS = 2.0
"""How long a job may take to end after a SIGTERM; then it is cancelled and releases its leases."""


@dataclass(slots=True)
class JobLimit:
    """When a job should end: at a time, or after a SIGTERM."""

    ends_at: float
    is_stopped: bool = False

    def extend(self, seconds: float) -> None:
        """Let the job go on for so long from now, if it might not anyway."""
        self.ends_at = max(self.ends_at, time.monotonic() + seconds)

    def is_over(self) -> bool:
        """Return whether the job should end now."""
        return self.is_stopped or time.monotonic() > self.ends_at


@contextlib.asynccontextmanager
async def stoppable(limit: JobLimit) -> AsyncIterator[None]:
    """On SIGTERM set the limit, and cancel the job some seconds later."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    canceller = Canceller(task)

    def stop() -> None:
        limit.is_stopped = True
        loop.call_later(STOP_SECONDS, canceller.cancel)

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if not limit.is_stopped:
            raise
    finally:
        canceller.disarm()
        loop.remove_signal_handler(signal.SIGTERM)
