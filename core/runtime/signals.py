"""Begin and end cleanly: what cannot start says one sentence; SIGTERM and Ctrl-C give back what is held."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.runtime.terminal import say
from core.store import redis_health as presence
from core.store.cancelling import Canceller

T = TypeVar("T")

STOPPED = 0
FAILED = 2


def run(start: Callable[[], Coroutine[object, object, None]]) -> int:
    """Run to the end or to a signal; the exit code of the process."""
    try:
        return asyncio.run(_until_signal(start))
    except FreshetError as error:
        return _say(str(error))
    except RedisError as error:
        return _say(presence.explain(error, ""))


async def _until_signal(start: Callable[[], Coroutine[object, object, None]]) -> int:
    task = asyncio.ensure_future(start())
    loop, canceller = asyncio.get_running_loop(), Canceller(task)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, canceller.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return STOPPED
    except BaseExceptionGroup as group:
        raise first(group) from group
    return 0


async def finish(work: Coroutine[object, object, T]) -> T:
    """Run to its end, whatever cancellations come meanwhile: for the last writes of something that is being stopped.

    The caller is on its way out already and raises on; so no cancellation is lost.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


def first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first real exception of a group: many lanes meet the same trouble."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _say(sentence: str) -> int:
    say(sentence, file=sys.stderr)
    return FAILED
