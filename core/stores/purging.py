"""Forget what has been gone for long: records of gone items, a bounded piece at a time."""

from __future__ import annotations

from core.keys import Keys
from core.registry import Status
from core.stores import scanning
from core.stores.connect import Client
from core.stores.removing import Record, Removing

BATCH = 500
CURSOR_FIELD = "gone"


class Purging:
    """Called with every tick."""

    def __init__(self, client: Client, keys: Keys, gone_ttl_seconds: int) -> None:
        self._client = client
        self._keys = keys
        self._ttl = gone_ttl_seconds
        self._removing = Removing(client, keys)

    async def run(self, now: float) -> int:
        """One piece of the round; how many were purged."""
        gone, cursors = self._keys.status(str(Status.GONE)), self._keys.prune_cursors
        item_ids = await scanning.next_members(self._client, gone, cursors, CURSOR_FIELD, BATCH)
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), ["goneTs", "checkedTs"])
        rows = zip(item_ids, await pipe.execute() if item_ids else [], strict=True)
        old = [item_id for item_id, (gone_ts, checked) in rows if self._is_over(gone_ts or checked or "0", now)]
        known = {record.id: record for record in await self._removing.read(old)}
        # Revived in this very moment: then it is not Gone any more, and stays.
        expected = {item_id: ("status", str(Status.GONE) if item_id in known else "0") for item_id in old}
        return await self._removing.remove([known.get(item_id, Record(item_id)) for item_id in old], expected)

    def _is_over(self, gone_ts: str, now: float) -> bool:
        try:
            return now - float(gone_ts) > self._ttl
        except ValueError:  # damaged, not old: the doctor's to find
            return False
