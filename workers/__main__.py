"""An RQ worker: takes jobs of the queues it is given and runs each in a child process.

python -m workers refresh reindex embed            until Ctrl-C
python -m workers refresh reindex embed --burst    until nothing waits
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.keys import Keys
from core.runtime import logs, sidecar, signals
from core.runtime.allowed_jobs import ALLOWED_JOBS, AllowedJobs
from core.runtime.inline_worker import InlineWorker
from core.runtime.queue_names import QueueName
from core.runtime.queue_worker import Worker, quiet_rq_logging
from core.runtime.sidecar import Sidecar
from core.runtime.terminal import echo
from core.runtime.worker_timing import WorkerTiming
from core.settings import Settings, load
from core.store import connect, redis_health, version
from workers.embed_dispatch import EmbedDispatcher

PRELOAD: tuple[str, ...] = ()
"""Beyond the modules of the listed functions: what those import only when they need it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    queues: Sequence[QueueName]
    burst: bool
    parent: int | None
    """The process that started this one beside itself."""


def main(
    arguments: Sequence[str] | None = None, allowed: AllowedJobs = ALLOWED_JOBS, timing: WorkerTiming | None = None
) -> int:
    """The command line."""
    asked = _parse(arguments)
    if asked.parent is not None:
        sidecar.stop_with_parent(asked.parent)
    ready: list[Settings] = []

    async def get_ready() -> None:
        settings = load()
        logs.configure(settings)
        await _wait_for_store(settings, asked.burst)
        ready.append(settings)

    code = signals.run_until_stopped(get_ready)
    return _serve(ready[0], asked, allowed, timing) if ready else code


def _parse(arguments: Sequence[str] | None) -> Asked:
    parser = argparse.ArgumentParser(prog="python -m workers", description=(__doc__ or "").splitlines()[0])
    known = ", ".join(QueueName)
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help=f"any of {known}")
    parser.add_argument("--burst", action="store_true", help="end when nothing waits")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    unknown = [name for name in given.queues if name not in list(QueueName)]
    if unknown:
        parser.error(f"There is no queue {unknown[0]!r}; the queues are {known}.")
    if not given.queues:
        parser.error(f"Say which queues to work on: any of {known}.")
    return Asked([QueueName(name) for name in dict.fromkeys(given.queues)], given.burst, given.parent)


async def _wait_for_store(settings: Settings, burst: bool) -> None:
    client = connect.open_store(settings)
    try:
        await redis_health.wait_for_server(
            client, settings, give_up_seconds=redis_health.ONCE_WAIT_SECONDS if burst else None
        )
        await version.check(client, Keys.of(settings))
    finally:
        await client.aclose()


def _serve(settings: Settings, asked: Asked, allowed: AllowedJobs, timing: WorkerTiming | None) -> int:
    """Embedding has a process of its own, in which the model stays; in a burst it comes last."""
    quiet_rq_logging(settings)
    others = [name for name in asked.queues if name is not QueueName.EMBED]
    is_embedding = len(others) < len(asked.queues)
    try:
        if others and is_embedding and not asked.burst:
            with Sidecar(_embedding()) as second:
                Worker(settings, others, allowed, PRELOAD, timing, beside=second.look).serve()
            return signals.EXIT_OK
        if others:
            Worker(settings, others, allowed, PRELOAD, timing).serve(asked.burst)
        if is_embedding:
            _embed(settings, asked, allowed, timing)
    except (FreshetError, RedisError) as error:
        sentence = (
            str(error) if isinstance(error, FreshetError) else redis_health.explain(error, connect.url_of(settings))
        )
        echo(sentence, file=sys.stderr)
        return signals.EXIT_FAILED
    return signals.EXIT_OK


def _embed(settings: Settings, asked: Asked, allowed: AllowedJobs, timing: WorkerTiming | None) -> None:
    waiting, parent = EmbedDispatcher(settings), asked.parent
    look = partial(sidecar.stop_if_orphaned, parent) if parent is not None else None
    InlineWorker(settings, [QueueName.EMBED], allowed, (), timing, find=waiting.send, beside=look).serve(asked.burst)
    if asked.burst:
        waiting.tell()


def _embedding() -> list[str]:
    """The words of another worker, for the queue `embed` and as long as this one lives."""
    return [sys.executable, "-m", "workers", "--parent", str(os.getpid()), str(QueueName.EMBED)]


if __name__ == "__main__":
    sys.exit(main())
