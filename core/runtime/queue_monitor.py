"""Count the waiting jobs of each queue and the live workers, by RQ's own registry and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rq.utils import utcparse
from rq.worker_registration import WORKERS_BY_QUEUE_KEY

from core.runtime.queue_names import QueueName, rq_queue_name
from core.settings import Settings
from core.store.connect import Client
from core.store.pipeline import read_many
from core.store.rq_keys import QUEUE_HEAD
from core.value_class import value_class

IDLE_SECONDS = 30.0
"""A worker that waits for jobs beats every few seconds."""
BUSY_SECONDS = 120.0
"""One that runs a job in its own process, as embedding does, beats before and after it."""


@value_class
class QueueState:
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Jobs by queue."""
    workers: Mapping[str, int] = field(default_factory=dict)
    """Live workers by queue; one worker may serve several."""
    live: frozenset[str] = frozenset()
    """Names of the live workers."""
    is_reachable: bool = True


class QueueMonitor:
    """Reads the state of the queues; `client` is one on the queues' own server."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._client = client
        self._names = {str(name): rq_queue_name(settings, name) for name in QueueName}

    async def read(self, now: float) -> QueueState:
        """Return what waits and who is alive, in two round trips."""
        lengths = [("LLEN", f"{QUEUE_HEAD}{name}") for name in self._names.values()]
        members = [("SMEMBERS", WORKERS_BY_QUEUE_KEY % name) for name in self._names.values()]
        replies = await read_many(self._client, [*lengths, *members])
        waiting, by_queue = replies[: len(lengths)], replies[len(lengths) :]
        worker_keys = sorted({key for keys in by_queue for key in keys})
        rows = await read_many(self._client, [("HMGET", key, "last_heartbeat", "state") for key in worker_keys])
        live = {key for key, row in zip(worker_keys, rows, strict=True) if _is_alive(row, now)}
        workers = {queue: len(live & set(keys)) for queue, keys in zip(self._names, by_queue, strict=True)}
        return QueueState(dict(zip(self._names, waiting, strict=True)), workers, frozenset(live))


def _is_alive(row: list[Any], now: float) -> bool:
    beat, state = row
    try:
        silent_seconds = now - utcparse(str(beat)).timestamp()
    except ValueError:
        return False
    return silent_seconds < (BUSY_SECONDS if state == "busy" else IDLE_SECONDS)
