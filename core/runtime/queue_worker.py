"""Take jobs and run each in a child of its own (RQ's "work-horse"), loaded once and forked.

RQ does the bookkeeping of a job. The loop around it is ours, because RQ's own ends when the server goes away at the
wrong moment, starts a process for retries that outlives a killed worker for ever, and loses a job that it has just
taken when it is told to stop.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import worker_registration
from rq.exceptions import DequeueTimeout
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.worker.base import DequeueStrategy, WorkerStatus

from core.errors import FreshetError, StoreUnreachable
from core.runtime import allowed_jobs, forking_worker, queue_cleanup
from core.runtime import queue_scripts as scripts
from core.runtime.forking_worker import ForkingWorker
from core.runtime.queue_names import QueueName, rq_queue_name
from core.runtime.worker_timing import WorkerTiming
from core.settings import Settings
from core.store import connect, redis_health
from core.urls import redis_url

log = logging.getLogger("queue")

TROUBLE_SECONDS = 1.0
"""Pause after the server did not answer."""


MOST_UNEXPECTED = 10
"""Passes in a row that ended in an error of another kind, before a burst ends; a worker without an end goes on."""


class QueueUnusable(FreshetError):
    """Every pass over the queue ends in an error, and not because the server is away."""


class PreloadFailed(FreshetError):
    """A module that jobs need cannot be imported."""


class PromptQueue(Queue):
    """A queue whose maintenance is not blocked for 15 minutes by a worker that died during it."""

    lock_seconds = WorkerTiming().lock

    def acquire_maintenance_lock(self) -> bool:
        """True: look after it now, nobody else does."""
        if self.connection.set(self.registry_cleaning_key, 1, nx=True, ex=self.lock_seconds):
            return True
        if self.connection.ttl(self.registry_cleaning_key) == -1:  # by another hand, whatever it is: nobody ends it
            self.connection.expire(self.registry_cleaning_key, self.lock_seconds)
        return False

    @classmethod
    def lpop(
        cls, queue_keys: Sequence[str], timeout: int | None, connection: Redis | None = None
    ) -> tuple[str | bytes, bytes] | None:
        """The next id from any of the queues; what is no text is dropped and named."""
        while True:
            taken = super().lpop(queue_keys, timeout, connection=connection)
            if taken is None or queue_cleanup.is_job_id(*taken):
                return cast(tuple[str | bytes, bytes] | None, taken)

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> tuple[str, bytes] | None:
        """The next id from one queue, noted as taken; what is no text is dropped and named."""
        while True:
            taken = super().lmove(connection, queue_key, timeout)
            if taken is None or queue_cleanup.is_job_id(*taken):
                return cast(tuple[str, bytes] | None, taken)
            connection.lrem(IntermediateQueue.get_intermediate_queue_key(queue_key), 1, taken[1])


class Worker(ForkingWorker):
    """Runs jobs of the list from some queues, until it is told to stop or, in a burst, until none waits."""

    def __init__(
        self,
        settings: Settings,
        queues: Sequence[QueueName],
        allowed: allowed_jobs.AllowedJobs = allowed_jobs.ALLOWED_JOBS,
        preload: Sequence[str] = (),
        timing: WorkerTiming | None = None,
        find: Callable[[], bool] | None = None,
        beside: Callable[[], object] | None = None,
    ) -> None:
        """`find` is asked for jobs when none waits: True if it sent some. `beside` is called every few seconds."""
        self.timing = timing or WorkerTiming()
        self._find = find
        self._beside = beside
        self._where = _url(settings)
        ours = {name.rpartition(".")[0] for name, spec in allowed.items() if spec.queue in queues}
        self._preload = (*sorted(ours), *preload)
        self._is_cut_off_since: float | None = None
        self._is_burst = False
        self._unexpected = 0
        self.jobs_taken = 0
        client = self._client = connect.open_queue(settings)
        super().__init__(
            [rq_queue_name(settings, name) for name in queues],
            connection=client,
            job_class=allowed_jobs.job_class(allowed),
            queue_class=type("PromptQueue", (PromptQueue,), {"lock_seconds": self.timing.lock}),
            serializer=JSONSerializer,
            maintenance_interval=self.timing.maintenance,
            job_monitoring_interval=self.timing.beat,
            worker_ttl=self.timing.life,
            exception_handlers=[forking_worker.say_abandoned],
        )
        # A queue that is always full must not keep the others waiting for ever.
        self._dequeue_strategy = DequeueStrategy.ROUND_ROBIN
        self._wake = client.register_script(scripts.WAKE)

    # ── the loop ──

    def serve(self, burst: bool = False) -> int:
        """Work; how many jobs were taken."""
        self._is_burst = burst
        self.preload()
        self.bootstrap(logging_level=None)
        self._install_signal_handlers()  # type: ignore[no-untyped-call]
        log.info("👂 Waiting for jobs → %s", ", ".join(self.queue_names()))
        try:
            while not self._stop_requested and self._pass(burst):
                pass
        finally:
            with contextlib.suppress(RedisError):
                self.teardown()  # type: ignore[no-untyped-call]
        log.info("🏁 %s after %d jobs", "Stopped" if self._stop_requested else "Nothing waits", self.jobs_taken)
        return self.jobs_taken

    def _pass(self, burst: bool) -> bool:
        """Look after the queues, take one job, run it. False: a burst is over."""
        try:
            self._look_beside()
            self.keep_house()
            taken = self._next(burst)
            if taken is not None:
                self._run(*taken)
            self._is_back()
            self._unexpected = 0
            return taken is not None or not burst
        except RedisError as error:
            self._say_cut_off(error)
            self._give_up(error)
            time.sleep(TROUBLE_SECONDS)
        except Exception as error:
            # Whatever is in Redis, by whomever: one bad entry does not end the worker.
            self._unexpected += 1
            if burst and self._unexpected > MOST_UNEXPECTED:
                raise QueueUnusable(
                    f"The queue cannot be worked on ({error!r}). Run python -m scripts.doctor --fix."
                ) from error
            log.exception("⚠️ Something unexpected in the queue; the worker goes on.")
            time.sleep(TROUBLE_SECONDS)
        return True

    def _next(self, burst: bool) -> tuple[Job, Queue] | None:
        """A job that waits, else one that is found, else one that comes within some seconds."""
        if self._find is None:
            return self._take(wait=not burst)
        taken = self._take(wait=False)
        if taken is None and self._find():
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
        self.jobs_taken += 1
        job.redis_server_version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
        if isinstance(job, allowed_jobs.AllowedJob) and job.problem:
            self.refuse(job, queue)
        elif self._stop_requested:
            self._put_back(job, queue)
        else:
            self.execute_job(job, queue)

    def refuse(self, job: allowed_jobs.AllowedJob, queue: Queue) -> None:
        """Failed, with a sentence, without a child: nothing of it is imported or called."""
        log.error("🚫 Refused job %s: %s.", job.id, job.problem)
        job.origin = queue.name
        queue.intermediate_queue.remove(job.id)
        self.handle_job_failure(job, queue, exc_string=f"Refused: {job.problem}.")

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run it in a child and see it to its end, also if the server goes away meanwhile."""
        try:
            self.prepare_execution(job)
        except RedisError:
            # Taken, and nobody knows: it is in no queue and counts as running nowhere.
            self._put_back_when_possible(job, queue)
            raise
        self.fork_work_horse(job, queue)
        self.monitor_work_horse(job, queue)
        self.set_state(WorkerStatus.IDLE)

    def _put_back(self, job: Job, queue: Queue) -> None:
        queue.push_job_id(job.id, at_front=True)
        queue.intermediate_queue.remove(job.id)
        self.jobs_taken -= 1

    def _put_back_when_possible(self, job: Job, queue: Queue) -> None:
        while True:
            try:
                return self._put_back(job, queue)
            except RedisError as error:
                self._say_cut_off(error)
                if self._stop_requested:
                    log.warning("⚠️ Job %s could not be put back; the timer will bring its work again.", job.id)
                    return None
                self._give_up(error)
                time.sleep(TROUBLE_SECONDS)

    # ── what is loaded once ──

    def preload(self) -> None:
        """Import what jobs need, so that a job costs no imports."""
        for name in self._preload:
            try:
                importlib.import_module(name)
            except ImportError as error:
                raise PreloadFailed(f"Cannot start. Jobs need {name}, which cannot be imported ({error}).") from error

    def subscribe(self) -> None:
        """Not at all: it is a thread beside the forks, for commands that we do not take from a channel."""

    # ── looking after the queues ──

    def keep_house(self) -> None:
        """Queue the retries that came due; every so often find the jobs of workers that died."""
        for queue in self.queues:
            self._wake(
                keys=[queue.scheduled_job_registry.key, queue.key],
                args=[int(time.time()), self.job_class.redis_job_namespace_prefix, JobStatus.QUEUED.value],
            )
        if self.should_run_maintenance_tasks:
            for queue in self.queues:
                self._client.put_aside(queue_cleanup.queue_keys(queue))
                queue_cleanup.drop_unreadable(self.connection, queue)
            self.clean_registries()  # type: ignore[no-untyped-call]

    def maintain_heartbeats(self, job: Job) -> None:
        """Every beat while a job runs: vouch for it, look after the queues, lose patience."""
        self._end_patience()
        self._look_beside()
        try:
            super().maintain_heartbeats(job)
            self._keep_house_beside_a_job()
            self._is_back()
        except RedisError as error:
            self._say_cut_off(error)

    def _look_beside(self) -> None:
        if self._beside and not self._stop_requested:
            self._beside()

    def _keep_house_beside_a_job(self) -> None:
        # RQ would take what it cleans up for the job that runs here, and end that one's record.
        running, self.execution = self.execution, None
        try:
            self.keep_house()
        finally:
            self.execution = running

    @property
    def dequeue_timeout(self) -> int:
        """How long it waits for a job at a time."""
        return self.timing.wait

    def get_heartbeat_ttl(self, job: Job) -> int:
        """How long the job counts as running after this beat."""
        return self.timing.life

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Say that this worker lives. For people; a server that is away hears it later."""
        with contextlib.nullcontext() if pipeline is not None else contextlib.suppress(RedisError):
            super().heartbeat(timeout, pipeline)

    def set_current_job_working_time(self, current_job_working_time: float, pipeline: Pipeline | None = None) -> None:
        """Say how long the job has been running. As above."""
        with contextlib.nullcontext() if pipeline is not None else contextlib.suppress(RedisError):
            super().set_current_job_working_time(current_job_working_time, pipeline)

    # ── the server goes and comes ──

    def _say_cut_off(self, error: RedisError) -> None:
        if self._is_cut_off_since is None:
            self._is_cut_off_since = time.monotonic()
            log.error("⚠️ %s The worker goes on when it is back.", redis_health.explain(error, self._where))

    def _is_back(self) -> None:
        if self._is_cut_off_since is not None:
            self._is_cut_off_since = None
            log.info("✅ Redis is back → %s", redis_url.masked(self._where))
            self.connection.hset(self.key, mapping=self.serialize())
            worker_registration.register(self)

    def _give_up(self, error: RedisError) -> None:
        """What runs once does not wait for ever."""
        since = self._is_cut_off_since
        if self._is_burst and since is not None and time.monotonic() - since > redis_health.ONCE_WAIT_SECONDS:
            raise StoreUnreachable(redis_health.explain(error, self._where)) from error


def quiet_rq_logging(settings: Settings) -> None:
    """RQ says little: what a person needs is said by us."""
    log.setLevel(settings.log_level)
    logging.getLogger("rq").setLevel(logging.ERROR)
    logging.getLogger("rq.worker").setLevel(logging.NOTSET)  # importing it set INFO


def _url(settings: Settings) -> str:
    secret = settings.queue_redis_url
    return secret.get_secret_value() if secret else connect.url_of(settings)
