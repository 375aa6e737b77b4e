"""Take out of RQ's registries what RQ cannot read.

Anybody who can write to Redis can put a byte there that is no text, or the id of a key that is no job. RQ's own
maintenance ends at the first of them, every time, and the jobs of dead workers would never come back.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import cast

from redis import Redis
from rq.job import Job
from rq.queue import Queue
from rq.worker_registration import REDIS_WORKER_KEYS, WORKERS_BY_QUEUE_KEY

log = logging.getLogger("queue")

_JOB_ID = re.compile(rb"[A-Za-z0-9_-]+")
_EXECUTION = re.compile(rb"([A-Za-z0-9_-]+):[A-Za-z0-9_-]+")
_READABLE_KINDS = {b"hash", b"none"}


def queue_keys(queue: Queue) -> list[str]:
    """The keys that a queue has besides its jobs'."""
    registries = (queue.scheduled_job_registry, queue.deferred_job_registry, queue.failed_job_registry)
    more = (*registries, queue.finished_job_registry, queue.canceled_job_registry)
    named = [queue.key, queue.intermediate_queue_key, queue.started_job_registry.key, *(one.key for one in more)]
    return [*named, WORKERS_BY_QUEUE_KEY % queue.name, REDIS_WORKER_KEYS, queue.redis_queues_keys]


def drop_unreadable(connection: Redis, queue: Queue) -> None:
    """Drop and name every such member of what is running, what was just taken, and who works on this queue."""
    running = queue.started_job_registry.key
    members = cast(list[bytes], connection.zrange(running, 0, -1))
    _drop(running, _unreadable(connection, members, _EXECUTION), lambda one: connection.zrem(running, one))
    taken = queue.intermediate_queue_key
    members = cast(list[bytes], connection.lrange(taken, 0, -1))
    _drop(taken, _unreadable(connection, members, _JOB_ID), lambda one: connection.lrem(taken, 0, cast(str, one)))
    workers = WORKERS_BY_QUEUE_KEY % queue.name
    names = cast(set[bytes], connection.smembers(workers))
    _drop(workers, [name for name in names if not _is_text(name)], lambda one: connection.srem(workers, one))


def _unreadable(connection: Redis, members: list[bytes], form: re.Pattern[bytes]) -> list[bytes]:
    """Those that have another form, or that name a key which is no job's."""
    found = {member: form.fullmatch(member) for member in members}
    bad = [member for member, match in found.items() if not match]
    good = {member: match[form.groups] for member, match in found.items() if match}
    pipe = connection.pipeline(transaction=False)
    for job_id in good.values():
        pipe.type(Job.key_for(job_id.decode()))
    kinds = pipe.execute() if good else []
    return bad + [member for member, kind in zip(good, kinds, strict=True) if kind not in _READABLE_KINDS]


def _drop(key: str, members: list[bytes], remove: Callable[[bytes], object]) -> None:
    for member in members:
        remove(member)
        _say_dropped(key, member)


def is_job_id(key: str | bytes, member: bytes) -> bool:
    """Whether what was taken from a queue can be a job's id; what cannot is named as dropped."""
    if _is_text(member):
        return True
    _say_dropped(key.decode("utf-8", "replace") if isinstance(key, bytes) else key, member)
    return False


def _say_dropped(key: str, member: bytes) -> None:
    log.warning("🚫 Dropped %s from %s: it is no job of ours.", repr(member)[:80], key)


def _is_text(member: bytes) -> bool:
    try:
        member.decode()
    except UnicodeDecodeError:
        return False
    return True
