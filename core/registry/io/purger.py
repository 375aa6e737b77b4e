"""Forget what has been gone for long: records that nothing will revive, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.remover import RemovableItem, Remover
from core.registry.record import Status
from core.store import scanning
from core.store.connect import Client

BATCH = 500
PURGED = {Status.GONE: "gone", Status.OUT_OF_SCOPE: "out_of_scope"}
"""What is forgotten in the end, and the field of the cursor that remembers how far the round is."""


class Purger:
    """Called with every tick."""

    def __init__(self, client: Client, keys: Keys, gone_ttl_seconds: int) -> None:
        self._client = client
        self._keys = keys
        self._ttl = gone_ttl_seconds
        self._remover = Remover(client, keys)

    async def run(self, now: float) -> int:
        """One piece of the round; how many were purged."""
        return sum([await self._purge(status, now) for status in PURGED])

    async def _purge(self, status: Status, now: float) -> int:
        members, cursors = self._keys.status(str(status)), self._keys.prune_cursors
        item_ids = await scanning.next_set_members(self._client, members, cursors, PURGED[status], BATCH)
        old = await self._old(item_ids, status, now)
        known = {record.id: record for record in await self._remover.read(old)}
        # Revived in this very moment: then its status is another, and it stays.
        expected = {item_id: ("status", str(status) if item_id in known else "0") for item_id in old}
        return await self._remover.remove([known.get(item_id, RemovableItem(item_id)) for item_id in old], expected)

    async def _old(self, item_ids: Sequence[str], status: Status, now: float) -> list[str]:
        """Those that have been so for long; of what is out of scope only what no source lists any more."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), ["goneTs", "checkedTs", "sources"])
        rows = zip(item_ids, await pipe.execute() if item_ids else [], strict=True)
        return [
            item_id
            for item_id, (gone_ts, checked, sources) in rows
            if self._is_over(gone_ts or checked or "0", now) and (status is Status.GONE or not sources)
        ]

    def _is_over(self, gone_ts: str, now: float) -> bool:
        return now - field_parsing.timestamp(gone_ts, now) > self._ttl  # what is damaged is not old
