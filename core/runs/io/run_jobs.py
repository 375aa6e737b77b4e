"""The RQ jobs that continue runs which no process holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from core.runs.run import Run, RunKind, RunStatus
from core.settings import Settings
from core.value_class import value_class

if TYPE_CHECKING:  # RQ is loaded when a job is sent
    from core.runtime.job_queues import Argument, JobQueues

log = logging.getLogger("queue")


@value_class
class RunJob:
    """A job: its function, its arguments, and the words of its id."""

    function: str
    arguments: list[Argument]
    id_words: tuple[str, ...]


def job_of(run: Run) -> RunJob | None:
    """Return the job that continues a run; None: the timer sends what is due, or the process itself goes on."""
    if run.kind is RunKind.CRAWL:
        return RunJob("workers.jobs.crawl", [run.source, run.id, run.mode], ("crawl", run.source))
    if run.kind is RunKind.DOMAIN:
        return RunJob("workers.jobs.crawl_domain", [run.domain, run.id, run.mode], ("domain", run.domain))
    if run.kind is RunKind.REINDEX:
        return RunJob("workers.jobs.reindex", [[], None, False, run.id], ("reindex", run.id))
    if run.kind is RunKind.EMBED:
        return RunJob("workers.embed_jobs.embed_run", [run.id], ("embed", run.id))
    if run.kind is RunKind.REBUILD:
        return RunJob("workers.jobs.rebuild", [run.id], ("rebuild",))
    return None


def is_continued_by_job(run: Run, open_ids: Collection[str]) -> bool:
    """Return whether an open run without a worker waits for a job. The part of an open run waits for that one's."""
    is_idle = run.status in (RunStatus.QUEUED, RunStatus.INTERRUPTED)
    return is_idle and job_of(run) is not None and run.parent not in open_ids


def enqueue_next(queues: JobQueues, run: Run) -> bool:
    """Enqueue the job that continues a run; return False if there is none, or if it waits already.

    While a job runs, waits for a run that was superseded, or is not known to be lost, its id is taken: then the same
    job is enqueued under another.
    """
    job = job_of(run)
    if job is None:
        return False
    second = RunJob(job.function, job.arguments, (*job.id_words, run.id))
    return _enqueue(queues, job) or _enqueue(queues, second)


async def continue_run(settings: Settings, run: Run) -> None:
    """Send the next job of a run whose time was over."""
    if run.status is RunStatus.QUEUED:
        await send_next(settings, run)


async def send_next(settings: Settings, run: Run) -> None:
    """Send the job that continues a run. Without the queue's server the timer sends it when it is back."""
    await _with_queues(settings, lambda queues: enqueue_next(queues, run))


async def send_jobs(settings: Settings, jobs: Sequence[RunJob]) -> int:
    """Enqueue jobs; return how many. Without the queue's server the timer sends them when it is back."""
    return await _with_queues(settings, lambda queues: sum(_enqueue(queues, job) for job in jobs))


async def _with_queues(settings: Settings, send: Callable[[JobQueues], int]) -> int:
    try:
        return await asyncio.to_thread(_send, settings, send)
    except (RedisError, OSError) as error:
        name = type(error).__name__
        log.warning("⚠️ The queue's server does not answer (%s); the timer goes on when it is back", name)
        return 0


def _send(settings: Settings, send: Callable[[JobQueues], int]) -> int:
    from core.runtime.job_queues import JobQueues

    queues = JobQueues(settings)
    try:
        return send(queues)
    finally:
        queues.close()


def _enqueue(queues: JobQueues, job: RunJob) -> bool:
    return queues.enqueue(job.function, *job.arguments, id_words=job.id_words)
