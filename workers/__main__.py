"""An RQ worker: takes jobs of the queues it is given and runs each in a child process.

python -m workers refresh reindex embed            until Ctrl-C
python -m workers refresh reindex embed --burst    until nothing waits
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.runtime import logs, sidecar, signals
from core.runtime.forking_worker import WorkerTiming
from core.runtime.job_specs import ALLOWED_JOBS, AllowedJobs
from core.runtime.queue_names import QueueName
from core.runtime.queue_worker import InlineWorker, QueueWorker, quiet_rq_logging
from core.runtime.sidecar import Sidecar
from core.runtime.terminal import echo
from core.settings import Settings, load
from core.store import connect, redis_health


def main(
    arguments: Sequence[str] | None = None, allowed: AllowedJobs = ALLOWED_JOBS, timing: WorkerTiming | None = None
) -> int:
    """The command line."""
    options = _parse(arguments)
    if options.parent is not None:
        sidecar.stop_with_parent(options.parent)
    ready: list[Settings] = []

    async def get_ready() -> None:
        settings = load()
        logs.configure(settings)
        async with redis_health.open_when_ready(settings, once=options.burst):
            pass
        ready.append(settings)  # last: a signal until here ends the process

    code = signals.run_until_stopped(get_ready)
    return _serve(ready[0], options, allowed, timing) if ready else code


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers", description=(__doc__ or "").splitlines()[0])
    known = ", ".join(QueueName)
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help=f"any of {known}")
    parser.add_argument("--burst", action="store_true", help="end when nothing waits")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.queues if name not in list(QueueName)]
    if unknown:
        parser.error(f"There is no queue {unknown[0]!r}; the queues are {known}.")
    if not options.queues:
        parser.error(f"Say which queues to work on: any of {known}.")
    options.queues = [QueueName(name) for name in dict.fromkeys(options.queues)]
    return options


def _serve(settings: Settings, options: argparse.Namespace, allowed: AllowedJobs, timing: WorkerTiming | None) -> int:
    """Work on the queues. Embedding has a process of its own, which keeps the model; in a burst it comes last."""
    quiet_rq_logging(settings)
    others = [name for name in options.queues if name is not QueueName.EMBED]
    is_embedding = len(others) < len(options.queues)
    try:
        if others and is_embedding and not options.burst:
            command = [sys.executable, "-m", "workers", "--parent", str(os.getpid()), str(QueueName.EMBED)]
            with Sidecar(command) as embedder:
                QueueWorker(settings, others, allowed, timing, on_every_pass=embedder.check).serve()
            return signals.EXIT_OK
        if others:
            QueueWorker(settings, others, allowed, timing).serve(options.burst)
        if is_embedding:
            _embed(settings, options, allowed, timing)
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return signals.EXIT_FAILED
    except RedisError as error:
        echo(redis_health.explain(error, connect.url_of(settings)), file=sys.stderr)
        return signals.EXIT_FAILED
    return signals.EXIT_OK


def _embed(settings: Settings, options: argparse.Namespace, allowed: AllowedJobs, timing: WorkerTiming | None) -> None:
    from workers.embed_dispatch import EmbedDispatcher  # here: only the process that embeds needs it

    dispatcher, parent = EmbedDispatcher(settings), options.parent
    check = (lambda: None) if parent is None else partial(sidecar.stop_if_orphaned, parent)
    InlineWorker(settings, [QueueName.EMBED], allowed, timing, dispatcher.send, check).serve(options.burst)
    if options.burst:
        dispatcher.warn_if_waiting()


if __name__ == "__main__":
    sys.exit(main())
