"""An RQ worker: takes jobs of the queues it is given and runs each in a child process.

python -m workers refresh reindex embed            until Ctrl-C
python -m workers refresh reindex embed --burst    until nothing waits
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence

from redis.exceptions import RedisError

from core.console import log as console
from core.errors import FreshetError
from core.keys import Keys
from core.queues.inline import InlineWorker
from core.queues.jobs import JOBS, Allowed
from core.queues.names import QueueName
from core.queues.pace import Pace
from core.queues.worker import Worker, hush_rq
from core.settings import Settings, load
from core.stores import connect, presence, version
from workers import stopping

STOP_SECONDS = 4.0
PRELOAD: tuple[str, ...] = ()
"""Beyond the modules of the listed functions: what those import only when they need it."""


def main(arguments: Sequence[str] | None = None, allowed: Allowed = JOBS, pace: Pace | None = None) -> int:
    """The command line."""
    names, burst = _parse(arguments)
    ready: list[Settings] = []

    async def get_ready() -> None:
        settings = load()
        console.set_up(settings)
        await _wait_for_store(settings, burst)
        ready.append(settings)

    code = stopping.run(get_ready)
    return _serve(ready[0], names, burst, allowed, pace) if ready else code


def _parse(arguments: Sequence[str] | None) -> tuple[list[QueueName], bool]:
    parser = argparse.ArgumentParser(prog="python -m workers", description=(__doc__ or "").splitlines()[0])
    known = ", ".join(QueueName)
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help=f"any of {known}")
    parser.add_argument("--burst", action="store_true", help="end when nothing waits")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.queues if name not in list(QueueName)]
    if unknown:
        parser.error(f"There is no queue {unknown[0]!r}; the queues are {known}.")
    if not given.queues:
        parser.error(f"Say which queues to work on: any of {known}.")
    return [QueueName(name) for name in dict.fromkeys(given.queues)], given.burst


async def _wait_for_store(settings: Settings, burst: bool) -> None:
    client = connect.open_store(settings)
    try:
        await presence.wait(client, settings, give_up_seconds=presence.ONCE_WAIT_SECONDS if burst else None)
        await version.check(client, Keys.of(settings))
    finally:
        await client.aclose()


def _serve(settings: Settings, names: Sequence[QueueName], burst: bool, allowed: Allowed, pace: Pace | None) -> int:
    """Embedding has a process of its own, in which the model stays; in a burst it comes last."""
    hush_rq(settings)
    others = [name for name in names if name is not QueueName.EMBED]
    is_embedding = len(others) < len(names)
    try:
        with _beside() if is_embedding and others and not burst else contextlib.nullcontext():
            if others:
                Worker(settings, others, allowed, PRELOAD, pace).serve(burst)
            if is_embedding and (burst or not others):
                InlineWorker(settings, [QueueName.EMBED], allowed, (), pace).serve(burst)
    except (FreshetError, RedisError) as error:
        sentence = str(error) if isinstance(error, FreshetError) else presence.explain(error, connect.url_of(settings))
        print(sentence, file=sys.stderr)  # noqa: T201 - for a person
        return stopping.FAILED
    return stopping.STOPPED


@contextlib.contextmanager
def _beside() -> Iterator[None]:
    """Another worker for the queue `embed`, as long as this one works."""
    embedding = subprocess.Popen([sys.executable, "-m", "workers", str(QueueName.EMBED)])  # noqa: S603 - ourselves
    try:
        yield
    finally:
        embedding.terminate()
        try:
            embedding.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            embedding.kill()


if __name__ == "__main__":
    sys.exit(main())
