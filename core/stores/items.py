"""Registry records in Redis: an item's hash and its place in partition, status, source and schedule."""

from __future__ import annotations

from collections.abc import Mapping

from core.keys import Keys
from core.registry import ARTICLES_SOURCE, Status, first_check_at
from core.stores.commit import Command
from core.stores.connect import Client

KEPT = ("firstSeen", "reindexGeneration", "processedGeneration")
"""What a record keeps when its page is stored anew."""


class ItemStore:
    """As far as articles need it: they are the items of the source `rss`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def save(self, record: Mapping[str, str], now: float) -> list[Command]:
        """Commands that write a record and put it everywhere it is looked for."""
        item_id = record["id"]
        key = self._keys.item(item_id)
        others = [status for status in Status if status != record["status"]]
        return [
            ("HSET", key, *(word for pair in record.items() if pair[0] not in KEPT for word in pair)),
            *(("HSETNX", key, name, record[name]) for name in KEPT),
            *(("SREM", self._keys.status(str(status)), item_id) for status in others),
            ("SADD", self._keys.partition(record["PartitionKey"]), item_id),
            ("SADD", self._keys.status(record["status"]), item_id),
            ("ZADD", self._keys.refs(ARTICLES_SOURCE), 0, item_id),
            ("ZADD", self._keys.due(ARTICLES_SOURCE), first_check_at(item_id, now), item_id),
        ]

    async def forget(self, item_id: str) -> None:
        """Remove a record from everywhere."""
        partition = await self._client.hget(self._keys.item(item_id), "PartitionKey")
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(self._keys.item(item_id))
            pipe.srem(self._keys.partition(str(partition or "")), item_id)
            for status in Status:
                pipe.srem(self._keys.status(str(status)), item_id)
            pipe.zrem(self._keys.refs(ARTICLES_SOURCE), item_id)
            pipe.zrem(self._keys.due(ARTICLES_SOURCE), item_id)
            await pipe.execute()
