"""The ingestor's counters: all polls together, counted in the commit of each, and the last cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.keys import Keys
from core.store.commit import Command
from core.store.connect import Client


def counted(keys: Keys, counts: Mapping[str, int]) -> list[Command]:
    """Commands for a commit: what it adds to the totals."""
    return [("HINCRBY", keys.ingest_stats, name, count) for name, count in counts.items() if count]


async def record(client: Client, keys: Keys, counts: Mapping[str, int], now: float, seconds: float) -> None:
    """The last cycle, as a whole."""
    fields: dict[Any, Any] = {**counts, "ts": int(now), "seconds": f"{seconds:.1f}"}
    async with client.pipeline(transaction=True) as pipe:
        pipe.delete(keys.ingest_last_run)
        pipe.hset(keys.ingest_last_run, mapping=fields)
        if counts.get("left"):  # no commit has counted these
            pipe.hincrby(keys.ingest_stats, "left", counts["left"])
        await pipe.execute()
