"""What every small script needs: settings, a store that answers, and errors as one sentence."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Coroutine

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.keys import Keys
from core.runtime import logs
from core.runtime.terminal import echo
from core.settings import Settings, load
from core.store import connect, redis_health


@contextlib.asynccontextmanager
async def open_session() -> AsyncIterator[tuple[Settings, Keys, connect.Client]]:
    """Settings, keys and a client on a server that answered."""
    settings = load()
    logs.configure(settings)
    client = connect.open_store(settings)
    try:
        await redis_health.require_server(client, settings)
        yield settings, Keys.of(settings), client
    finally:
        await client.aclose()


def parser(command: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows a module's docstring as it is written."""
    return argparse.ArgumentParser(
        prog=command, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run(work: Coroutine[object, object, int]) -> int:
    """Run a script; what goes wrong is a sentence on stderr and exit code 2."""
    try:
        return asyncio.run(work)
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return 2
    except RedisError as error:
        echo(redis_health.explain(error, connect.url_of(load())), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # `… | head` has seen enough. Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
