"""A worker that runs its jobs in its own process: for embedding, so that the model is loaded once.

It sends no heartbeat while a job runs, so its jobs are short, and a stop waits for the end of the current one.
"""

from __future__ import annotations

import logging
from types import FrameType

from rq.job import Job
from rq.queue import Queue
from rq.worker.base import WorkerStatus

from core.runtime import signals
from core.runtime.queue_worker import Worker

log = logging.getLogger("queue")

GRACE_SECONDS = 30
"""Beyond its time limit a job is given up, and another worker takes it."""


class InlineWorker(Worker):
    """Takes jobs one by one and runs them here."""

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run it now. What it raises is RQ's to record; the loop goes on."""
        self.prepare_execution(job)
        self.perform_job(job, queue)
        self.set_state(WorkerStatus.IDLE)

    def get_heartbeat_ttl(self, job: Job) -> int:
        """How long the job counts as running: as long as it may take, and a little."""
        return int(job.timeout or 0) + GRACE_SECONDS

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """The job looks at this between its items."""
        signals.request_stop()
        super().request_stop(signum, frame)

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """Do nothing more: Ctrl-C comes from the terminal and again from whoever started us.

        RQ would raise SystemExit in the middle of the job, which ends as a traceback.
        """
