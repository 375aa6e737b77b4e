"""Forget what is over, a bounded piece in each run: links, memory, failures, indexes, registry records.

Expiry fires no event here: an article that expired leaves its uid in indexes, and this takes it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from core.keys import Keys
from core.registry import ARTICLES_SOURCE
from core.stores.chunk_removal import ChunkRemoval
from core.stores.commit import Command, Leases
from core.stores.connect import Client, texts
from core.stores.events import event
from core.stores.items import ItemStore
from core.stores.links import LinkStore, Lives

BATCH = 1_000
SAMPLE = 200
CURSOR_FIELD = "articles"
ITEM_CURSOR_FIELD = "items"


class Pruning:
    """Called once per run."""

    def __init__(self, client: Client, keys: Keys, lives: Lives) -> None:
        self._client = client
        self._keys = keys
        self._lives = lives
        self._links = LinkStore(client, keys, lives)
        self._items = ItemStore(client, keys)

    async def run(self, categories: Sequence[str], now: float) -> None:
        """One round over everything; each part is bounded and goes on where it stopped."""
        for category in categories:
            await self._links.prune(category, now)
            await self._prune_category(category)
        await self._prune_index(categories)
        await self._prune_items(now)

    async def forget_old_attempts(self, now: float) -> None:
        """Before a run looks what is new: what failed 30 days ago is new again."""
        await self._links.prune_attempted(now)
        await self._client.zremrangebyscore(self._keys.failures, "-inf", now - self._lives.attempted)

    async def drop_stale_stamps(self, category: str) -> None:
        """A stamp whose link somebody removed by hand; a sample at a time. With it a link added by hand would hide."""
        stamps = self._keys.category_links_seen(category)
        sample = texts(await self._client.zrandmember(stamps, SAMPLE) or [])
        if not sample:
            return
        members = await self._client.smismember(self._keys.category_links(category), sample)
        stale = [url for url, is_member in zip(sample, members, strict=True) if not is_member]
        if stale:
            await self._client.zrem(stamps, *stale)

    async def _prune_category(self, category: str) -> None:
        """Uids without a live article, whoever put them there; a sample at a time."""
        key = self._keys.articles_by_category(category)
        uids = texts(await self._client.srandmember(key, SAMPLE) or [])
        gone = await self._gone(uids)
        if gone:
            await self._client.srem(key, *gone)

    async def _gone(self, uids: Sequence[str]) -> list[str]:
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.exists(self._keys.article(uid))
        return [uid for uid, lives in zip(uids, await pipe.execute() if uids else [], strict=True) if not lives]

    async def _prune_index(self, categories: Sequence[str]) -> None:
        """Uids without a live article leave the global index and the categories."""
        uids = await self._next_batch(self._keys.article_index, CURSOR_FIELD)
        gone = await self._gone(uids)
        if not gone:
            return
        pipe = self._client.pipeline(transaction=False)
        pipe.zrem(self._keys.article_index, *gone)
        for category in categories:
            pipe.srem(self._keys.articles_by_category(category), *gone)
        await pipe.execute()

    async def _prune_items(self, now: float) -> None:
        """Records listed only by feeds go when their article has been gone for the memory's life."""
        item_ids = await self._next_batch(self._keys.refs(ARTICLES_SOURCE), ITEM_CURSOR_FIELD)
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), ["articleUid", "lastChecked"])
        records = await pipe.execute() if item_ids else []
        for item_id, (uid, checked) in zip(item_ids, records, strict=True):
            if uid and await self._client.exists(self._keys.article(uid)):
                continue
            is_old = checked is None or now - _epoch(checked) > self._lives.article + self._lives.attempted
            if is_old:
                await self._items.forget(item_id)
            else:
                await self._take_from_search(item_id)

    async def _take_from_search(self, item_id: str) -> None:
        """An article ended by itself, which fires no event: its chunks go now (trap T67)."""
        live, own_text = await self._client.hmget(self._keys.document(item_id), ["live", "content_hash"])
        if live is None or own_text is not None:
            return
        commands = await ChunkRemoval(self._client, self._keys).of(item_id)
        told = event(self._keys, "item.gone", id=item_id, deleted="true", reason="expired")
        gone: list[Command] = [("DEL", self._keys.document(item_id)), told]
        unknown: Command = ("HSET", self._keys.item(item_id), "indexedHash", "")
        await Leases(self._client, self._keys).run([*commands, *gone, unknown])

    async def _next_batch(self, key: str, cursor_field: str) -> list[str]:
        """The next piece of a sorted set; where we are is kept in the store, so that runs share the round."""
        cursor = int(await self._client.hget(self._keys.prune_cursors, cursor_field) or 0)
        cursor, pairs = await self._client.zscan(key, cursor=cursor, count=BATCH)
        await self._client.hset(self._keys.prune_cursors, cursor_field, str(cursor))
        return texts(member for member, _ in pairs)


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
