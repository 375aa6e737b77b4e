"""Start and stop a process cleanly: SIGTERM and Ctrl-C cancel the work, errors become one sentence and an exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.runtime import garbage
from core.runtime.terminal import echo
from core.store import redis_health
from core.store.cancellation import Canceller

EXIT_OK = 0
EXIT_FAILED = 2

_stop_requested = threading.Event()


def request_stop() -> None:
    """Ask jobs that run in this process to come to their end; they cannot handle its signals themselves."""
    _stop_requested.set()


def is_stop_requested() -> bool:
    """Return whether a job in this process should come to its end."""
    return _stop_requested.is_set()


def run_until_stopped(start: Callable[[], Coroutine[object, object, None]]) -> int:
    """Run to the end or to a signal; return the exit code of the process."""
    try:
        return asyncio.run(until_signal(start))
    except FreshetError as error:
        echo(error, file=sys.stderr)
    except RedisError as error:
        echo(redis_health.explain(error, ""), file=sys.stderr)
    return EXIT_FAILED


async def until_signal(start: Callable[[], Coroutine[object, object, None]]) -> int:
    """Run to the end or to a signal, in a loop that runs already; return the exit code of the process."""
    garbage.settle()
    task = asyncio.ensure_future(start())
    loop, canceller = asyncio.get_running_loop(), Canceller(task)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, canceller.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return EXIT_OK
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    return EXIT_OK


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first real exception of a group: concurrent tasks usually fail for the same reason."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
