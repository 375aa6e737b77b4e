"""Forget what has been gone for long: records of gone items, a bounded piece at a time."""

from __future__ import annotations

from core.keys import Keys
from core.registry import Status
from core.stores.connect import Client, texts
from core.stores.items import ItemStore

BATCH = 500
CURSOR_FIELD = "gone"


class Purging:
    """Called with every tick."""

    def __init__(self, client: Client, keys: Keys, gone_ttl_seconds: int) -> None:
        self._client = client
        self._keys = keys
        self._life = gone_ttl_seconds
        self._items = ItemStore(client, keys)

    async def run(self, now: float) -> int:
        """One piece of the round; how many were purged."""
        gone = self._keys.status(str(Status.GONE))
        cursor = int(await self._client.hget(self._keys.prune_cursors, CURSOR_FIELD) or 0)
        cursor, members = await self._client.sscan(gone, cursor=cursor, count=BATCH)
        await self._client.hset(self._keys.prune_cursors, CURSOR_FIELD, str(cursor))
        item_ids = texts(members)
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), ["goneTs", "checkedTs"])
        purged = 0
        for item_id, (gone_ts, checked_ts) in zip(item_ids, await pipe.execute() if item_ids else [], strict=True):
            if now - float(gone_ts or checked_ts or 0) > self._life:
                await self._items.forget(item_id)
                purged += 1
        return purged
