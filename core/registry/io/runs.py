"""Runs: one pass over a source each, with its progress in Redis for everybody to see."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import iso
from core.store.commit import Command
from core.store.connect import Client, HashFields, texts

KEPT = 100
LIFE_SECONDS = 30 * 86_400
COUNTERS = ("discovered", "visited", "changed", "unchanged", "gone", "failed", "excluded")
SILENT_SECONDS = 90.0
"""A run that says nothing for so long was interrupted."""
_NOTHING_KNOWN = {"source": "", "domain": "", "mode": "", "status": "", **dict.fromkeys(COUNTERS, "0")}
"""A run that was damaged is told with what is left of it."""


class RunStore:
    """Writes and reads `run:<id>`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def start(self, source: str, domain: str, mode: str, now: float) -> str:
        """A new run; its id sorts by time."""
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
            pipe.expire(self._keys.run(run_id), LIFE_SECONDS)
            pipe.zadd(self._keys.runs, {run_id: now})
            pipe.zremrangebyrank(self._keys.runs, 0, -KEPT - 1)
            await pipe.execute()
        return run_id

    def counted(self, run_id: str, counts: Mapping[str, int], now: float) -> list[Command]:
        """Commands that add to a run's counters, for a commit."""
        key = self._keys.run(run_id)
        beat: Command = ("HSET", key, "heartbeat_ts", f"{now:.3f}")
        return [beat, *(("HINCRBY", key, name, count) for name, count in counts.items() if count)]

    async def tell(self, run_id: str, fields: Mapping[str, str]) -> None:
        """Set fields of a run, its heartbeat among them."""
        await self._client.hset(self._keys.run(run_id), mapping=HashFields(fields))

    async def finish(self, run_id: str, status: str, now: float, sentence: str = "") -> Mapping[str, str]:
        """The run's end; its fields."""
        key = self._keys.run(run_id)
        ended: HashFields = {"status": status, "ended": iso(now), "heartbeat_ts": f"{now:.3f}", "message": sentence}
        await self._client.hset(key, mapping=ended)
        return cast(dict[str, str], await self._client.hgetall(key))

    async def newest(self, count: int, now: float) -> list[dict[str, str]]:
        """The last runs, newest first; one that went silent is `interrupted`."""
        run_ids = texts(await self._client.zrange(self._keys.runs, 0, count - 1, desc=True))
        pipe = self._client.pipeline(transaction=False)
        for run_id in run_ids:
            pipe.hgetall(self._keys.run(run_id))
        found = [_NOTHING_KNOWN | run for run in (await pipe.execute() if run_ids else []) if run]
        for run in found:
            if (
                run.get("status") == "running"
                and now - field_parsing.timestamp(run.get("heartbeat_ts")) > SILENT_SECONDS
            ):
                run["status"] = "interrupted"
        return found
