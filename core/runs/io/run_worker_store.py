"""Store the workers of runs in Redis: which work, which wait, and whose process has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from core.keys import Keys
from core.registry import field_parsing
from core.runs.run import SILENT_SECONDS
from core.runtime import process_identity
from core.store.connect import Client
from core.value_class import value_class

FRESH_SECONDS = 15.0
"""A worker whose last heartbeat is younger than this is at work."""


@value_class
class WorkerEntry:
    token: str
    beat_ts: float
    in_flight: int
    is_waiting: bool
    process: str
    lease_prefix: str

    @property
    def is_dead(self) -> bool:
        """Whether it is known to have ended, which only workers of this machine can be."""
        return process_identity.is_dead(self.process)


class RunWorkerStore:
    """Reads `run:<id>:workers`, which the workers themselves write."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def of(self, run_id: str) -> list[WorkerEntry]:
        """Return who works on a run, or waits for the end of its pause."""
        stored = cast(dict[str, str], await self._client.hgetall(self._keys.run_workers(run_id)))
        return [_worker_entry(token, field_parsing.mapping(text)) for token, text in stored.items()]

    async def count_others(self, run_id: str, token: str, now: float) -> int:
        workers = await self.of(run_id)
        others = [one for one in workers if one.token != token and not one.is_waiting and not one.is_dead]
        return sum(now - one.beat_ts <= SILENT_SECONDS for one in others)

    async def is_at_work(self, scope: str, now: float) -> bool:
        """Return whether someone works on the open run of this scope, by a heartbeat of the last seconds."""
        run_id = await self._client.hget(self._keys.runs_open, scope)
        workers = await self.of(str(run_id)) if run_id else []
        return any(now - one.beat_ts <= FRESH_SECONDS and not one.is_dead for one in workers)

    async def dead(self, run_id: str) -> list[WorkerEntry]:
        """Return workers of this machine whose process has ended without leaving."""
        return [one for one in await self.of(run_id) if one.is_dead]

    async def drop(self, run_id: str, token: str) -> None:
        await self._client.hdel(self._keys.run_workers(run_id), token)


def _worker_entry(token: str, fields: Mapping[str, Any]) -> WorkerEntry:
    return WorkerEntry(
        token,
        field_parsing.timestamp(fields.get("ts")),
        field_parsing.integer(fields.get("in_flight")),
        bool(fields.get("waiting")),
        str(fields.get("process", "")),
        str(fields.get("leases", "")),
    )
