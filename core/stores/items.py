"""Registry records in Redis: an item's hash and its place in partition, status, source and schedule."""

from __future__ import annotations

from collections.abc import Mapping

from core.keys import Keys
from core.registry import ARTICLES_SOURCE, BASE_INTERVAL_SECONDS, Status
from core.stores.commit import Command
from core.stores.connect import Client


class ItemStore:
    """As far as articles need it: they are the items of the source `rss`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def save(self, record: Mapping[str, str], now: float) -> list[Command]:
        """Commands that write a record and put it everywhere it is looked for."""
        item_id = record["id"]
        return [
            ("HSET", self._keys.item(item_id), *(word for pair in record.items() for word in pair)),
            ("SADD", self._keys.partition(record["PartitionKey"]), item_id),
            ("SADD", self._keys.status(record["status"]), item_id),
            ("ZADD", self._keys.refs(ARTICLES_SOURCE), 0, item_id),
            ("ZADD", self._keys.due(ARTICLES_SOURCE), now + BASE_INTERVAL_SECONDS, item_id),
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
