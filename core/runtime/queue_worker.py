"""RQ workers: one that runs each job in a forked child, and one that runs them in its own process.

RQ does the bookkeeping of a job. The loop around it is ours, because RQ's own ends when the server goes away at the
wrong moment, starts a process for retries that outlives a killed worker for ever, and loses a job that it has just
taken when it is told to stop (docs/architecture.md#queues).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections.abc import Callable, Sequence
from types import FrameType

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import worker_registration
from rq.exceptions import DequeueTimeout
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.worker.base import DequeueStrategy, WorkerStatus

from core.errors import FreshetError, StoreUnreachable
from core.runtime import garbage, queue_cleanup, signals
from core.runtime.forking_worker import ForkingWorker, WorkerTiming, log_abandoned
from core.runtime.job_specs import ALLOWED_JOBS, AllowedJob, AllowedJobs, job_class
from core.runtime.queue_names import QueueName, rq_queue_name
from core.settings import Settings
from core.store import connect, redis_health
from core.urls import redis_url

log = logging.getLogger("queue")

PAUSE_SECONDS = 1.0
"""After the server did not answer, or a pass ended in an error."""
MOST_ERRORS = 10
"""Passes in a row that ended in an unexpected error, before a burst ends; a worker without an end goes on."""
INLINE_GRACE_SECONDS = 30
"""Beyond its time limit an inline job is given up, and another worker takes it."""


class QueueUnusable(FreshetError):
    """Every pass over the queue ends in an error, and not because the server is away."""


class PreloadFailed(FreshetError):
    """A module that jobs need cannot be imported."""


class QueueWorker(ForkingWorker):
    """Runs allowed jobs from some queues, until it is told to stop or, in a burst, until none waits."""

    def __init__(
        self,
        settings: Settings,
        queues: Sequence[QueueName],
        allowed: AllowedJobs = ALLOWED_JOBS,
        timing: WorkerTiming | None = None,
        enqueue_more: Callable[[], bool] | None = None,
        on_every_pass: Callable[[], object] = lambda: None,
    ) -> None:
        """`enqueue_more` is called when no job waits: True if it sent some. `on_every_pass` runs every few seconds."""
        self.timing = timing or WorkerTiming()
        self._enqueue_more = enqueue_more
        self._on_every_pass = on_every_pass
        secret = settings.queue_redis_url
        self._url = secret.get_secret_value() if secret else connect.url_of(settings)
        self._modules = sorted({name.rpartition(".")[0] for name, spec in allowed.items() if spec.queue in queues})
        self._prefix = settings.key_prefix
        self._warned_of: set[str] = set()
        self._cut_off_since: float | None = None
        self._is_registered = False
        self._is_burst = False
        self._errors = 0
        self.jobs_taken = 0
        client = self._client = connect.open_queue(settings)
        super().__init__(
            [rq_queue_name(settings, name) for name in queues],
            connection=client,
            job_class=job_class(allowed),
            queue_class=type("TolerantQueue", (queue_cleanup.TolerantQueue,), {"lock_seconds": self.timing.lock}),
            serializer=JSONSerializer,
            maintenance_interval=self.timing.maintenance,
            job_monitoring_interval=self.timing.beat,
            worker_ttl=self.timing.ttl,
            exception_handlers=[log_abandoned],
        )
        # A queue that is always full must not keep the others waiting for ever.
        self._dequeue_strategy = DequeueStrategy.ROUND_ROBIN
        self._enqueue_due = client.register_script(queue_cleanup.ENQUEUE_DUE)

    # ── the loop ──

    def serve(self, burst: bool = False) -> int:
        """Work; return how many jobs were taken."""
        self._is_burst = burst
        garbage.expect_imports()
        for name in self._modules:  # once here, so that a job costs no imports
            try:
                importlib.import_module(name)
            except ImportError as error:
                raise PreloadFailed(f"Cannot start. Jobs need {name}, which cannot be imported ({error}).") from error
        garbage.settle()
        self._install_signal_handlers()  # type: ignore[no-untyped-call]
        try:
            while not self._stop_requested and self._pass(burst):
                pass
        finally:
            with contextlib.suppress(RedisError):
                self.teardown()  # type: ignore[no-untyped-call]
        log.info("🏁 %s after %d jobs", "Stopped" if self._stop_requested else "Nothing waits", self.jobs_taken)
        return self.jobs_taken

    def _pass(self, burst: bool) -> bool:
        """Look after the queues, take one job, run it; False: a burst is over."""
        try:
            if not self._is_registered:
                with contextlib.suppress(ValueError):  # registered already: only the reply was lost
                    self.register_birth()  # type: ignore[no-untyped-call]
                self._is_registered = True
                log.info("👂 Waiting for jobs → %s", ", ".join(self.queue_names()))
            self._on_every_pass()
            self._maintain()
            taken = self._next(burst)
            if taken is not None:
                self._run(*taken)
            self._note_connected()
            self._errors = 0
            return taken is not None or not burst
        except RedisError as error:
            self._note_cut_off(error)
        except Exception as error:
            # Whatever is in Redis, by whomever: one bad entry does not end the worker.
            self._errors += 1
            if burst and self._errors > MOST_ERRORS:
                raise QueueUnusable(
                    f"The queue cannot be worked on ({error!r}). Run python -m scripts.doctor --fix."
                ) from error
            log.exception("⚠️ Something unexpected in the queue; the worker goes on.")
        time.sleep(PAUSE_SECONDS)
        return True

    def _next(self, burst: bool) -> tuple[Job, Queue] | None:
        """Return a job that waits, else one of those that are enqueued now, else one that comes within seconds."""
        if self._enqueue_more is None:
            return self._take(wait=not burst)
        taken = self._take(wait=False)
        if taken is None and self._enqueue_more():
            taken = self._take(wait=False)
        return taken if taken or burst else self._take(wait=True)

    def _take(self, wait: bool) -> tuple[Job, Queue] | None:
        if self.get_state() != WorkerStatus.IDLE:
            self.set_state(WorkerStatus.IDLE)
        self.heartbeat()
        try:
            taken = self.queue_class.dequeue_any(
                self._ordered_queues,
                self.dequeue_timeout if wait else None,
                connection=self.connection,
                job_class=self.job_class,
                serializer=self.serializer,
                death_penalty_class=self.death_penalty_class,
            )
        except DequeueTimeout:
            return None
        if taken:
            self.reorder_queues(reference_queue=taken[1])
        return taken

    def _run(self, job: Job, queue: Queue) -> None:
        job.redis_server_version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
        problem = job.problem if isinstance(job, AllowedJob) else None
        if self._stop_requested and not problem:
            self._put_back(job, queue)
            return
        self.jobs_taken += 1
        if problem:
            # Failed, with a sentence, without a child: nothing of it is imported or called.
            log.error("🚫 Refused job %s: %s.", job.id, problem)
            job.origin = queue.name
            queue.intermediate_queue.remove(job.id)
            self.handle_job_failure(job, queue, exc_string=f"Refused: {problem}.")
        else:
            self.execute_job(job, queue)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run it in a child and see it to its end, also if the server goes away meanwhile."""
        try:
            self.prepare_execution(job)
        except RedisError:
            self._put_back_when_possible(job, queue)
            self.jobs_taken -= 1
            raise
        self.fork_work_horse(job, queue)
        self.monitor_work_horse(job, queue)
        self.set_state(WorkerStatus.IDLE)

    def _put_back(self, job: Job, queue: Queue) -> None:
        queue.push_job_id(job.id, at_front=True)
        queue.intermediate_queue.remove(job.id)

    def _put_back_when_possible(self, job: Job, queue: Queue) -> None:
        """Wait for the server with a job that was taken and counts as running nowhere."""
        while True:
            try:
                return self._put_back(job, queue)
            except RedisError as error:
                self._note_cut_off(error)
            if self._stop_requested:
                log.warning("⚠️ Job %s could not be put back; the timer will bring its work again.", job.id)
                return None
            time.sleep(PAUSE_SECONDS)

    # ── maintenance ──

    def _maintain(self) -> None:
        """Queue the retries that came due; every so often find the jobs of workers that died."""
        for queue in self.queues:
            self._enqueue_due(
                keys=[queue.scheduled_job_registry.key, queue.key],
                args=[int(time.time()), self.job_class.redis_job_namespace_prefix, JobStatus.QUEUED.value],
            )
        if self.should_run_maintenance_tasks:
            for queue in self.queues:
                self._client.put_aside(queue_cleanup.queue_keys(queue))
                queue_cleanup.drop_unreadable(self.connection, queue)
            self.clean_registries()  # type: ignore[no-untyped-call]
            self._warn_of_jobs_without_prefix()

    def _warn_of_jobs_without_prefix(self) -> None:
        """Name the queue's real name to whoever enqueued a job under the bare one, where nobody takes it."""
        for queue in self.queues:
            bare = queue.name.removeprefix(self._prefix)
            if not self._prefix or bare in self._warned_of:
                continue
            waiting = self._client.llen(f"{Queue.redis_queue_namespace_prefix}{bare}")
            if waiting and not self._client.exists(f"{worker_registration.WORKERS_BY_QUEUE_KEY % bare}"):
                self._warned_of.add(bare)
                log.warning(
                    "⚠️ %s jobs wait in the queue %s, which has no worker. With KEY_PREFIX=%s its name is %s.",
                    waiting, bare, self._prefix, queue.name,
                )  # fmt: skip

    def maintain_heartbeats(self, job: Job) -> None:
        """Do every beat what a running job needs: renew it, look after the queues, end it if a stop takes too long."""
        self._kill_horse_if_late()
        if not self._stop_requested:
            self._on_every_pass()
        try:
            super().maintain_heartbeats(job)
            # RQ would take what it cleans up for the job that runs here, and end that one's record.
            running, self.execution = self.execution, None
            try:
                self._maintain()
            finally:
                self.execution = running
            self._note_connected()
        except RedisError as error:
            self._note_cut_off(error)

    @property
    def dequeue_timeout(self) -> int:
        """How long it waits for a job at a time."""
        return self.timing.wait

    def get_heartbeat_ttl(self, job: Job) -> int:
        """How long the job counts as running after this beat."""
        return self.timing.ttl

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Report that this worker is alive. For people; a server that is away hears it later."""
        with contextlib.nullcontext() if pipeline is not None else contextlib.suppress(RedisError):
            super().heartbeat(timeout, pipeline)

    def set_current_job_working_time(self, current_job_working_time: float, pipeline: Pipeline | None = None) -> None:
        """Report how long the job has been running. As above."""
        with contextlib.nullcontext() if pipeline is not None else contextlib.suppress(RedisError):
            super().set_current_job_working_time(current_job_working_time, pipeline)

    # ── the server goes and comes ──

    def _set_ip_address(self, connection: Redis) -> None:
        """Find out the address of this worker, for people; a server that is away does not end the start."""
        self.ip_address = "unknown"
        with contextlib.suppress(RedisError):
            super()._set_ip_address(connection)

    def _note_cut_off(self, error: RedisError) -> None:
        """Log it once; a burst does not wait for ever."""
        if self._cut_off_since is None:
            self._cut_off_since = time.monotonic()
            log.error("⚠️ %s The worker goes on when it is back.", redis_health.explain(error, self._url))
        elif self._is_burst and time.monotonic() - self._cut_off_since > redis_health.ONCE_WAIT_SECONDS:
            raise StoreUnreachable(redis_health.explain(error, self._url)) from error

    def _note_connected(self) -> None:
        if self._cut_off_since is not None:
            self._cut_off_since = None
            log.info("✅ Redis is back → %s", redis_url.masked(self._url))
            self.connection.hset(self.key, mapping=self.serialize())
            worker_registration.register(self)


class InlineWorker(QueueWorker):
    """Runs jobs one by one in this process: for embedding, so that the model is loaded once.

    It sends no heartbeat while a job runs, so its jobs are short, and a stop waits for the end of the current one.
    """

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run it now. What it raises is RQ's to record; the loop goes on."""
        self.prepare_execution(job)
        self.perform_job(job, queue)
        self.set_state(WorkerStatus.IDLE)

    def get_heartbeat_ttl(self, job: Job) -> int:
        """How long the job counts as running: as long as it may take, and a little."""
        return int(job.timeout or 0) + INLINE_GRACE_SECONDS

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Ask the job, which looks at this between its items, to end."""
        signals.request_stop()
        super().request_stop(signum, frame)

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """Do nothing more: Ctrl-C comes from the terminal and again from whoever started us.

        RQ would raise SystemExit in the middle of the job, which ends as a traceback.
        """


def quiet_rq_logging(settings: Settings) -> None:
    """Let RQ log errors only: what a person needs is logged by us."""
    log.setLevel(settings.log_level)
    logging.getLogger("rq").setLevel(logging.ERROR)
    logging.getLogger("rq.worker").setLevel(logging.NOTSET)  # importing it set INFO
