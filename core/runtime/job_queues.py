"""Enqueue jobs: their arguments are small (ids), and a job is enqueued once while it waits or runs."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from rq.exceptions import NoSuchJobError
from rq.job import JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.utils import now

from core.runtime.job_specs import (
    ALLOWED_JOBS,
    FAILURE_SECONDS,
    RESULT_SECONDS,
    AllowedJobs,
    JobRefused,
    job_class,
    not_listed,
)
from core.runtime.queue_names import QueueName, job_id, rq_queue_name
from core.settings import Settings
from core.store import connect

Argument = str | int | float | bool | None | Sequence["Argument"]


ENQUEUE = """
-- One step instead of RQ's several, so that a resend after a lost reply changes nothing. RQ does not run on Redis
-- Cluster, so keys may be put together here.
-- KEYS: job, its dependents, queue, intermediate queue, started, scheduled, deferred, failed, finished, all queues
-- ARGV: job id, then the fields and values of the job
-- The places decide, not the status in the hash: a worker that was killed between taking a job and starting it leaves
-- a job that is `queued` in no queue, and its id would be blocked for ever.
-- What is of another type is an error (WRONGTYPE) before anything is written; the client puts it aside.
local id = ARGV[1]
redis.call('HLEN', KEYS[1])
redis.call('SCARD', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('LPOS', KEYS[3], id) or redis.call('LPOS', KEYS[4], id) then return 0 end
  if redis.call('ZSCORE', KEYS[6], id) or redis.call('ZSCORE', KEYS[7], id) then return 0 end
  for _, execution in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    if string.sub(execution, 1, #id + 1) == id .. ':' then return 0 end
  end
end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[8], id)
redis.call('ZREM', KEYS[9], id)
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('SADD', KEYS[10], KEYS[3])
redis.call('RPUSH', KEYS[3], id)
return 1
"""


class JobQueues:
    """Puts jobs into queues. Synchronous, and fit for several threads at once (`asyncio.to_thread`)."""

    def __init__(self, settings: Settings, allowed: AllowedJobs = ALLOWED_JOBS) -> None:
        self._settings = settings
        self._allowed = allowed
        self._client: Redis = connect.open_queue(settings)
        self._enqueue = self._client.register_script(ENQUEUE)
        self._queues = {
            name: Queue(
                rq_queue_name(settings, name),
                connection=self._client,
                job_class=job_class(allowed),
                serializer=JSONSerializer,
            )
            for name in QueueName
        }

    def enqueue(self, function: str, *args: Argument, id_words: Sequence[str]) -> bool:
        """Enqueue a call; return False if a job of that id waits, runs or will be retried.

        A finished or failed one is replaced. Raises `JobRefused` if the function is not on the list, or if the
        arguments are not JSON.
        """
        if function not in self._allowed:
            raise JobRefused(f"{not_listed(function, self._allowed)}.")
        spec = self._allowed[function]
        queue = self._queues[spec.queue]
        job = queue.create_job(
            function,
            args=args,
            timeout=spec.timeout_seconds,
            result_ttl=RESULT_SECONDS,
            failure_ttl=FAILURE_SECONDS,
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
        return bool(self._enqueue(keys=keys, args=[job.id, *fields]))

    def take_back(self, function: str, id_words: Sequence[str]) -> bool:
        """Take a job out of its queue and forget it; False if it does not wait there any more."""
        queue, name = self._queue_of(function), job_id(self._settings, *id_words)
        if not self._client.lrem(queue.key, 1, name):
            return False
        self._client.delete(queue.job_class.key_for(name))
        return True

    def is_open(self, function: str, id_words: Sequence[str]) -> bool:
        """Return whether a job waits, runs, or waits to be tried again."""
        try:
            job = self._queue_of(function).job_class.fetch(job_id(self._settings, *id_words), self._client)
        except NoSuchJobError:
            return False
        return job.get_status(refresh=False) in (JobStatus.QUEUED, JobStatus.STARTED, JobStatus.SCHEDULED)

    def _queue_of(self, function: str) -> Queue:
        return self._queues[self._allowed[function].queue]

    def count_waiting(self, queue: QueueName) -> int:
        """Return how many jobs wait in a queue."""
        return self._queues[queue].count

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
