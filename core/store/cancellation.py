"""Cancel a task, again if necessary, until it has really ended.

On Python 3.11 redis-py loses a cancellation that arrives together with an answer (`asyncio.wait_for` returns the
answer instead), so that a task cancelled once may go on for ever. asyncio still counts it: `Task.cancelling()`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

REPEAT_SECONDS = 0.5


def is_cancelled() -> bool:
    """Return whether the current task was cancelled, even if nothing raised it.

    For loops that would otherwise go on.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks until all are done, however they end; a cancellation of the caller is raised only after that."""
    cancelled: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending, timeout=REPEAT_SECONDS)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved: asyncio does not complain that nobody asked for it
    if cancelled:
        raise cancelled


async def finish(work: Coroutine[object, object, T]) -> T:
    """Run to the end whatever cancellations arrive: for the last writes of something that is being stopped.

    No cancellation is lost, because the caller is already on its way out and raises again.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


class Canceller:
    """Cancels a task from a signal handler, where nothing can be awaited, until it is done or `disarm` is called."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self._is_disarmed = False

    def cancel(self) -> None:
        """Cancel now, and again every half second."""
        if self._is_disarmed or self._task.done():
            return
        self._task.cancel()
        asyncio.get_running_loop().call_later(REPEAT_SECONDS, self.cancel)

    def disarm(self) -> None:
        """Stop cancelling: the task has come to its end by itself and is cleaning up."""
        self._is_disarmed = True
