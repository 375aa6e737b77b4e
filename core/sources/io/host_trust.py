"""Find hosts that answer 304 for pages that have changed. Reads only; `SourceStore.distrust` writes."""

from __future__ import annotations

from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class


@value_class
class UntrustedHost:
    host: str
    false_304: int
    """How often."""
    until_ts: float
    """Until when it is asked for whole pages; in the past: it is believed again."""


async def untrusted_hosts(client: Client, keys: Keys, most: int) -> list[UntrustedHost]:
    found = await client.zrange(keys.untrusted, 0, most - 1, desc=True, withscores=True)
    hosts = cast(list[tuple[str, float]], found)
    counts = await read_many(client, [("HGET", keys.trust(host), "false_304") for host, _ in hosts])
    rows = zip(hosts, counts, strict=True)
    return [UntrustedHost(host, field_parsing.integer(count), until) for (host, until), count in rows]
