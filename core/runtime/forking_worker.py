"""The child that runs a job (RQ's "work-horse"): how it is forked, asked to end, and what is logged when it ends.

A stop is one signal to the worker. The child gets its own, because it is in a process group of its own; a job that
ends early by itself is done, one that does not is ended and goes back to its queue.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from types import FrameType
from typing import Any

from rq.exceptions import AbandonedJobError
from rq.job import Job
from rq.queue import Queue
from rq.utils import now
from rq.worker import Worker as RqWorker

from core.runtime.job_specs import AllowedJob, JobRefused
from core.value_class import value_class

log = logging.getLogger("queue")

STOPS = (signal.SIGTERM, signal.SIGINT)


@value_class
class WorkerTiming:
    """Whole seconds, as RQ's alarms know no others; a killed worker's job is back within two minutes."""

    beat: int = 2
    """A running job is renewed this often."""
    grace: int = 40
    """A job that was not renewed this long after its beat was due is taken from its worker."""
    maintenance: int = 15
    """Such jobs are looked for this often, also while a job runs."""
    lock: int = 15
    """How long a worker that died during maintenance keeps others from it. RQ's own 15 minutes are too long."""
    wait: int = 2
    """How long a worker waits for a job at a time; in between it looks after the queues, or stops."""
    patience: float = 3.5
    """How long a job may take to end when we are told to stop. honcho kills after 5 s."""

    @property
    def ttl(self) -> int:
        """How long a job counts as running after its last beat."""
        return self.beat + self.grace


class ForkingWorker(RqWorker):
    """RQ's worker with a stop that loses nothing."""

    timing = WorkerTiming()
    _stop_requested_at: float | None = None
    _is_waiting_for_horse = False

    # ── stopping ──

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Take no more jobs after the first signal, and ask the running one to end."""
        self._stop_requested = True
        self._stop_requested_at = time.monotonic()
        self._shutdown_requested_date = now()
        for number in STOPS:
            signal.signal(number, self.request_force_stop)
        if self.horse_pid:
            self._ask_horse_to_end()

    def _ask_horse_to_end(self) -> None:
        # Only itself, not its group: it may need its own children to end well. It is in a group of its own, so neither
        # Ctrl-C nor honcho reach it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.horse_pid, signal.SIGTERM)
        self.job_monitoring_interval = 1
        if self._is_waiting_for_horse:
            signal.alarm(1)  # the wait under way began with a longer one

    def _kill_horse_if_late(self) -> None:
        if self._stop_requested_at is not None and time.monotonic() - self._stop_requested_at > self.timing.patience:
            log.warning("⚠️ The job did not end in %.1f s; it is ended.", self.timing.patience)
            self.kill_horse()

    def wait_for_horse(self) -> tuple[int | None, int | None, Any]:
        """Wait until it ends or RQ's alarm rings."""
        self._is_waiting_for_horse = True
        try:
            return super().wait_for_horse()
        finally:
            self._is_waiting_for_horse = False

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Fork, with signals held back: none is lost between the fork and the moment when both know what to do."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            super().fork_work_horse(job, queue)
            # The child does this too. Before it has, RQ's `kill_horse` would kill our own group.
            with contextlib.suppress(OSError):
                os.setpgid(self.horse_pid, self.horse_pid)
            if self._stop_requested:
                self._ask_horse_to_end()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    # ── how jobs end ──

    def setup_work_horse_signals(self) -> None:
        """Let SIGTERM end the child, until the job installs a handler of its own."""
        super().setup_work_horse_signals()  # type: ignore[no-untyped-call]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def handle_work_horse_killed(self, job: Job, retpid: int, ret_val: int, rusage: object) -> None:
        """Handle the death of a child. If it was our doing, the job comes back at once and no attempt is counted."""
        if self._stop_requested:
            job.retries_left = (job.retries_left or 0) + 1
            job.retry_intervals = None
            job.enqueue_at_front_on_retry = True
            log.info("↩️ %s did not come to its end; it goes back to its queue", _shown(job))
        else:
            cause = f"signal {os.WTERMSIG(ret_val)}" if os.WIFSIGNALED(ret_val) else f"exit {os.WEXITSTATUS(ret_val)}"
            log.warning("💥 %s: its process died (%s); %s", _shown(job), cause, _what_next(job))

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Log in the child that the job raised."""
        if isinstance(exc_info[1], JobRefused):
            log.error("🚫 %s", exc_info[1])
        else:
            log.error("❌ %s failed; %s", _shown(job), _what_next(job), exc_info=exc_info)


def _shown(job: Job) -> str:
    return f"{job.func_name} ({job.id})"


def _what_next(job: Job) -> str:
    if not job.should_retry:
        return "given up"
    return f"tried again in {job.get_retry_interval()} s, attempts left: {job.retries_left}"


def log_abandoned(job: Job, kind: type[BaseException], *_: object) -> None:
    """Log that the worker of this job died; RQ retries it."""
    if kind is AbandonedJobError and not (isinstance(job, AllowedJob) and job.problem):
        log.warning("💥 %s lost its worker; %s", _shown(job), _what_next(job))
