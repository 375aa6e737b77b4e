"""Jobs for the tests of the queues, and a worker that runs them: `python -m tests.queue_jobs refresh [--burst]`.

They leave lines in files, because the processes that run them may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from core.runtime.forking_worker import WorkerTiming
from core.runtime.job_specs import JobSpec
from core.runtime.queue_names import QueueName
from workers.__main__ import main

QUICK = WorkerTiming(beat=1, grace=1, maintenance=1, lock=2, wait=1)


def back_within(timing: WorkerTiming, retry_seconds: int) -> int:
    """Return how long after a kill the job is in its queue again at the latest, if a worker is there."""
    pass_seconds = max(timing.wait, timing.beat) + 1
    return timing.ttl + timing.lock + timing.maintenance + pass_seconds + retry_seconds + pass_seconds


RETRIES = (1, 1)
PATIENCE_SECONDS = 60.0

ALLOWED = {
    "tests.queue_jobs.note": JobSpec(QueueName.REFRESH, 60, RETRIES),
    "tests.queue_jobs.note_reindex": JobSpec(QueueName.REINDEX, 60, RETRIES),
    "tests.queue_jobs.note_embed": JobSpec(QueueName.EMBED, 60, RETRIES),
    "tests.queue_jobs.fail": JobSpec(QueueName.REFRESH, 60, RETRIES),
    "tests.queue_jobs.die": JobSpec(QueueName.REFRESH, 60, RETRIES),
    "tests.queue_jobs.hold": JobSpec(QueueName.REFRESH, 60, RETRIES),
    "tests.queue_jobs.hold_politely": JobSpec(QueueName.REFRESH, 60, RETRIES),
    "tests.queue_jobs.hold_on": JobSpec(QueueName.REFRESH, 60, RETRIES),
}


def note(path: str, *words: str) -> None:
    """A line: the words and who ran it."""
    with Path(path).open("a") as file:
        file.write(" ".join((*words, f"pid={os.getpid()}")) + "\n")


note_reindex = note_embed = note


def fail(path: str) -> None:
    note(path, "failing")
    raise ValueError("on purpose")


def die(path: str) -> None:
    """As the kernel does it when memory runs out."""
    note(path, "dying")
    os.kill(os.getpid(), signal.SIGKILL)


def hold(path: str, go: str) -> None:
    """Run until the file `go` is there; SIGTERM ends it wherever it is."""
    note(path, "started")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not Path(go).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    note(path, "ended")


def hold_on(path: str, go: str) -> None:
    """The same, deaf to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hold(path, go)


def hold_politely(path: str, go: str) -> None:
    """The same as our jobs will be: on SIGTERM it ends early by itself."""

    async def work() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        note(path, "started")
        await asyncio.wait_for(stop.wait(), PATIENCE_SECONDS)
        note(path, "stopped")

    asyncio.run(work())


if __name__ == "__main__":
    sys.exit(main(allowed=ALLOWED, timing=QUICK))
