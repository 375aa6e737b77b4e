"""The ingestor's counters: the last cycle, and all cycles together."""

from __future__ import annotations

from collections.abc import Mapping

from core.keys import Keys
from core.stores.commit import Command, Leases, Word, new_token
from core.stores.connect import Client


async def record(client: Client, keys: Keys, counts: Mapping[str, int], now: float, seconds: float) -> None:
    """Write a cycle's counters once, even if the reply is lost and the command sent again."""
    leases = Leases(client, keys)
    acquired = await leases.acquire(f"cycle_{new_token()}")
    last: Command = ("HSET", keys.ingest_last_run, *_words(counts), "ts", int(now), "seconds", f"{seconds:.1f}")
    totals: list[Command] = [("HINCRBY", keys.ingest_stats, name, count) for name, count in counts.items()]
    if acquired:
        await leases.commit(acquired[0], [("DEL", keys.ingest_last_run), last, *totals])


def _words(counts: Mapping[str, int]) -> list[Word]:
    return [word for pair in counts.items() for word in pair]
