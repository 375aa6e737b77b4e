"""Send a job: what is sent is small (ids), and sent once while it waits or runs."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from rq.job import JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.utils import now

from core.runtime import allowed_jobs
from core.runtime import queue_scripts as scripts
from core.runtime.queue_names import QueueName, job_id, rq_queue_name
from core.settings import Settings
from core.store import connect

Argument = str | int | float | bool | None | Sequence["Argument"]


class JobQueues:
    """Puts jobs into queues. Synchronous, and fit for several threads at once (`asyncio.to_thread`)."""

    def __init__(self, settings: Settings, allowed: allowed_jobs.AllowedJobs = allowed_jobs.ALLOWED_JOBS) -> None:
        self._settings = settings
        self._allowed = allowed
        self._client: Redis = connect.open_queue(settings)
        self._send = self._client.register_script(scripts.SEND)
        job_class = allowed_jobs.job_class(allowed)
        self._queues = {
            name: Queue(
                rq_queue_name(settings, name), connection=self._client, job_class=job_class, serializer=JSONSerializer
            )
            for name in QueueName
        }

    def enqueue(self, function: str, *args: Argument, id_words: Sequence[str]) -> bool:
        """Queue the call; False if a job of that id waits, runs or is to be tried again. A finished or failed one goes.

        `JobRefused` if the function is not on the list or the arguments are not JSON.
        """
        if function not in self._allowed:
            raise allowed_jobs.JobRefused(f"{function!r} is not on the list of functions that may run.")
        spec = self._allowed[function]
        queue = self._queues[spec.queue]
        job = queue.create_job(
            function,
            args=args,
            timeout=spec.timeout_seconds,
            result_ttl=allowed_jobs.RESULT_SECONDS,
            failure_ttl=allowed_jobs.FAILURE_SECONDS,
            retry=spec.retry,
            job_id=job_id(self._settings, *id_words),
            status=JobStatus.QUEUED,
        )
        job.enqueued_at = now()
        keys = [
            *(job.key, job.dependents_key, queue.key, queue.intermediate_queue_key, queue.started_job_registry.key),
            *(queue.scheduled_job_registry.key, queue.deferred_job_registry.key, queue.failed_job_registry.key),
            *(queue.finished_job_registry.key, queue.redis_queues_keys),
        ]
        fields = [part for pair in job.to_dict().items() for part in pair]
        return bool(self._send(keys=keys, args=[job.id, *fields]))

    def count_waiting(self, queue: QueueName) -> int:
        """How many jobs wait there."""
        return self._queues[queue].count

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
