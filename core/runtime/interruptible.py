"""Waits that are given up as soon as the run of the current task is asked to pause or to stop.

`listen` binds an event to the current task and to the tasks that it starts. Whoever waits long (at a gate, between two
tries) sleeps here instead of in asyncio; without an event it is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_stop: ContextVar[asyncio.Event | None] = ContextVar("stop", default=None)


@contextlib.contextmanager
def listen(stop: asyncio.Event) -> Iterator[None]:
    """Let this task, and those that it starts meanwhile, give up their waits when the event is set."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def is_stopping() -> bool:
    """Return whether the run of this task was asked to pause or to stop."""
    stop = _stop.get()
    return stop is not None and stop.is_set()


async def sleep(seconds: float) -> bool:
    """Sleep; return False if the run was asked to stop before the time was over."""
    stop = _stop.get()
    if stop is None:
        await asyncio.sleep(seconds)
        return True
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await stop.wait()
    except TimeoutError:
        return True
    return False
