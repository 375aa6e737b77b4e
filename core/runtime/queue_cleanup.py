"""Keep RQ's queues working whatever is in them: drop what RQ cannot read, and queue the retries that came due.

Anybody who can write to Redis can put a byte there that is no text, or the id of a key that is no job. RQ's own
maintenance ends at the first of them, every time, and the jobs of dead workers would never come back.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from redis import Redis
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.queue import Queue
from rq.worker_registration import REDIS_WORKER_KEYS, WORKERS_BY_QUEUE_KEY

log = logging.getLogger("queue")

_JOB_ID = re.compile(rb"[A-Za-z0-9_-]+")
_EXECUTION = re.compile(rb"([A-Za-z0-9_-]+):[A-Za-z0-9_-]+")

ENQUEUE_DUE = """
-- KEYS: scheduled, queue
-- ARGV: now, how job keys begin, the status of a queued job
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1000)
for _, id in ipairs(due) do
  if redis.call('EXISTS', ARGV[2] .. id) == 1 then
    redis.call('HSET', ARGV[2] .. id, 'status', ARGV[3])
    redis.call('RPUSH', KEYS[2], id)
  end
  redis.call('ZREM', KEYS[1], id)  -- last: a key of another type ends this before, and nothing is lost
end
return #due
"""


class TolerantQueue(Queue):
    """A queue that drops ids which are no text, and whose maintenance no dead worker blocks for 15 minutes."""

    lock_seconds = 15

    def acquire_maintenance_lock(self) -> bool:
        """Return True if nobody else looks after the queue now."""
        if self.connection.set(self.registry_cleaning_key, 1, nx=True, ex=self.lock_seconds):
            return True
        if self.connection.ttl(self.registry_cleaning_key) == -1:  # written by someone else: it would never expire
            self.connection.expire(self.registry_cleaning_key, self.lock_seconds)
        return False

    @classmethod
    def lpop(
        cls, queue_keys: Sequence[str], timeout: int | None, connection: Redis | None = None
    ) -> tuple[str | bytes, bytes] | None:
        """Take the next id from any of the queues."""
        while True:
            taken = super().lpop(queue_keys, timeout, connection=connection)
            if taken is None or _is_job_id(*taken):
                return cast(tuple[str | bytes, bytes] | None, taken)

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> tuple[str, bytes] | None:
        """Take the next id from one queue, and note it as taken."""
        while True:
            taken = super().lmove(connection, queue_key, timeout)
            if taken is None or _is_job_id(*taken):
                return cast(tuple[str, bytes] | None, taken)
            connection.lrem(IntermediateQueue.get_intermediate_queue_key(queue_key), 1, taken[1])


def queue_keys(queue: Queue) -> list[str]:
    """Return the keys that a queue has besides those of its jobs."""
    registries = (queue.scheduled_job_registry, queue.deferred_job_registry, queue.failed_job_registry)
    more = (*registries, queue.finished_job_registry, queue.canceled_job_registry)
    named = [queue.key, queue.intermediate_queue_key, queue.started_job_registry.key, *(one.key for one in more)]
    return [*named, WORKERS_BY_QUEUE_KEY % queue.name, REDIS_WORKER_KEYS, queue.redis_queues_keys]


def drop_unreadable(connection: Redis, queue: Queue) -> None:
    """Drop and log what RQ cannot read of the jobs that run, those just taken, and the workers of a queue."""
    running, taken = queue.started_job_registry.key, queue.intermediate_queue_key
    workers = WORKERS_BY_QUEUE_KEY % queue.name
    executions = cast(list[bytes], connection.zrange(running, 0, -1))
    _drop(running, _unreadable(connection, executions, _EXECUTION), lambda one: connection.zrem(running, one))
    ids = cast(list[bytes], connection.lrange(taken, 0, -1))
    _drop(taken, _unreadable(connection, ids, _JOB_ID), lambda one: connection.lrem(taken, 0, cast(str, one)))
    names = cast(set[bytes], connection.smembers(workers))
    _drop(workers, (name for name in names if not _is_text(name)), lambda one: connection.srem(workers, one))


def _unreadable(connection: Redis, members: list[bytes], form: re.Pattern[bytes]) -> list[bytes]:
    """Return those that have another form, or that name a key which is no job's."""
    matches = {member: form.fullmatch(member) for member in members}
    job_ids = {member: match[form.groups].decode() for member, match in matches.items() if match}
    pipe = connection.pipeline(transaction=False)
    for job_id in job_ids.values():
        pipe.type(Job.key_for(job_id))
    types = pipe.execute() if job_ids else []
    of_another_type = [member for member, kind in zip(job_ids, types, strict=True) if kind not in (b"hash", b"none")]
    return [member for member in members if member not in job_ids] + of_another_type


def _drop(key: str, members: Iterable[bytes], remove: Callable[[bytes], object]) -> None:
    for member in members:
        remove(member)
        _log_dropped(key, member)


def _is_job_id(key: str | bytes, member: bytes) -> bool:
    """Can what was taken from a queue be a job's id? What cannot is logged as dropped."""
    if not _is_text(member):
        _log_dropped(key.decode("utf-8", "replace") if isinstance(key, bytes) else key, member)
    return _is_text(member)


def _log_dropped(key: str, member: bytes) -> None:
    log.warning("🚫 Dropped %s from %s: it is no job of ours.", repr(member)[:80], key)


def _is_text(member: bytes) -> bool:
    try:
        member.decode()
    except UnicodeDecodeError:
        return False
    return True
