"""Shared by all commands: settings, a store that answers, and errors as one sentence.

What only a running command needs is imported when it runs: `--help` and a wrong option answer without it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import TYPE_CHECKING

from core.errors import FreshetError
from core.registry.time_parsing import parse_moment
from core.runtime.terminal import echo
from scripts.command_names import as_typed, columns_as_typed

if TYPE_CHECKING:
    from core.keys import Keys
    from core.runtime.context import Context
    from core.settings import Settings
    from core.store import connect


@contextlib.asynccontextmanager
async def open_session() -> AsyncIterator[tuple[Settings, Keys, connect.Client]]:
    """Settings, keys and a client on a server that answered."""
    from core.keys import Keys
    from core.runtime import logs
    from core.settings import load
    from core.store import connect, redis_health

    settings = load()
    logs.configure(settings)
    client = connect.open_store(settings)
    try:
        await redis_health.require_server(client, settings)
        yield settings, Keys.of(settings), client
    finally:
        await client.aclose()


@contextlib.asynccontextmanager
async def open_context() -> AsyncIterator[Context]:
    """What a worker has, on a server that answered."""
    from core.runtime.context import build_context

    async with open_session() as (settings, keys, client), build_context(settings, client, keys) as context:
        yield context


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows a module's docstring as it is written, but its commands as this person types them."""
    prog = as_typed(module)
    other = f"The same as {module}." if prog != module else None
    return argparse.ArgumentParser(
        prog=prog,
        description=columns_as_typed(description or ""),
        epilog=other,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def answer(told: object, text: str, *, as_json: bool) -> int:
    """Print the answer of a command, for programs or for people; return exit code 0."""
    if as_json:
        print_json(told)
    else:
        echo(text)
    return 0


def print_json(value: object) -> None:
    """Print a value for programs: JSON in the letters it has, indented; infinity, which JSON lacks, is null."""
    echo(json.dumps(_finite(value), indent=2, ensure_ascii=False))


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
    return value


def moment(text: str | None, *, is_end: bool = False) -> float | None:
    """Return the time that an option names: `2h`, `3d`, a date; None if it was not given."""
    return None if text is None else parse_moment(text, time.time(), is_end=is_end)


def run(work: Coroutine[object, object, int]) -> int:
    """Run a script; what goes wrong is a sentence on stderr and exit code 2."""
    import asyncio

    from redis.exceptions import RedisError

    try:
        code = asyncio.run(work)
        sys.stdout.flush()  # here, where a closed pipe is noticed
        return code
    except FreshetError as error:
        echo(as_typed(str(error)), file=sys.stderr)
        return 2
    except RedisError as error:
        from core.settings import load
        from core.store import connect, redis_health

        echo(redis_health.explain(error, connect.url_of(load())), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `… | head` has seen enough. Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
