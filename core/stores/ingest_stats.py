"""The ingestor's counters: the last cycle, and all cycles together."""

from __future__ import annotations

from collections.abc import Mapping

from core.keys import Keys
from core.stores import commit
from core.stores.commit import Command
from core.stores.connect import Client

LEASE_SECONDS = 60.0


async def record(client: Client, keys: Keys, counts: Mapping[str, int], now: float, seconds: float) -> None:
    """Write a cycle's counters once, even if the reply is lost and the command sent again."""
    token = commit.new_token()
    lease_key = keys.lease(f"cycle_{token}")
    last: Command = ("HSET", keys.ingest_last_run, *_words(counts), "ts", int(now), "seconds", f"{seconds:.1f}")
    totals: list[Command] = [("HINCRBY", keys.ingest_stats, name, count) for name, count in counts.items()]
    await commit.acquire(client, lease_key, token, LEASE_SECONDS)
    await commit.commit(client, lease_key, token, [("DEL", keys.ingest_last_run), last, *totals])


def _words(counts: Mapping[str, int]) -> list[commit.Word]:
    return [word for pair in counts.items() for word in pair]
