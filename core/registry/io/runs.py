"""Runs: one pass over a source each, with its progress in Redis."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import iso
from core.store.commit import Command
from core.store.connect import Client, HashFields, texts
from core.store.pipeline import read_many

KEPT = 100
TTL_SECONDS = 30 * 86_400
COUNTERS = ("discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded")
SILENT_SECONDS = 90.0
"""A run without a heartbeat for so long was interrupted."""
_DEFAULTS = {"source": "", "domain": "", "mode": "", "status": "", **dict.fromkeys(COUNTERS, "0")}
"""For a run whose hash is damaged."""


class RunStore:
    """Writes and reads `run:<id>`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def start(self, source: str, domain: str, mode: str, now: float) -> str:
        """Start a run and return its id, which sorts by time."""
        run_id = f"{int(now)}-{secrets.token_hex(4)}"
        fields: HashFields = {
            "id": run_id,
            "source": source,
            "domain": domain,
            "mode": mode,
            "status": "running",
            "started": iso(now),
            "started_ts": f"{now:.3f}",
            "heartbeat_ts": f"{now:.3f}",
            **dict.fromkeys(COUNTERS, "0"),
        }
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.run(run_id), mapping=fields)
            pipe.expire(self._keys.run(run_id), TTL_SECONDS)
            pipe.zadd(self._keys.runs, {run_id: now})
            pipe.zremrangebyrank(self._keys.runs, 0, -KEPT - 1)
            await pipe.execute()
        return run_id

    def counted(self, run_id: str, counts: Mapping[str, int], now: float) -> list[Command]:
        """Commands that add to a run's counters, for a commit."""
        key = self._keys.run(run_id)
        beat: Command = ("HSET", key, "heartbeat_ts", f"{now:.3f}")
        return [beat, *(("HINCRBY", key, name, count) for name, count in counts.items() if count)]

    async def update(self, run_id: str, fields: Mapping[str, str]) -> None:
        """Set fields of a run, its heartbeat among them."""
        await self._client.hset(self._keys.run(run_id), mapping=HashFields(fields))

    async def finish(self, run_id: str, status: str, now: float, sentence: str = "") -> Mapping[str, str]:
        """End a run and return its fields."""
        key = self._keys.run(run_id)
        ended: HashFields = {"status": status, "ended": iso(now), "heartbeat_ts": f"{now:.3f}", "message": sentence}
        await self._client.hset(key, mapping=ended)
        return cast(dict[str, str], await self._client.hgetall(key))

    async def newest(self, count: int, now: float) -> list[dict[str, str]]:
        """Return the last runs, newest first; one without a heartbeat is `interrupted`."""
        run_ids = texts(await self._client.zrange(self._keys.runs, 0, count - 1, desc=True))
        hashes = await read_many(self._client, [("HGETALL", self._keys.run(run_id)) for run_id in run_ids])
        runs = [_DEFAULTS | run for run in hashes if run]
        for run in runs:
            silent_seconds = now - field_parsing.timestamp(run.get("heartbeat_ts"))
            if run["status"] == "running" and silent_seconds > SILENT_SECONDS:
                run["status"] = "interrupted"
        return runs
