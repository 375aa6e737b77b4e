"""Periodic cleanup, a bounded batch per run: expired articles, old tombstones, stale links and index entries.

Expiry in Redis fires no event, so the items and indexes of expired articles are looked for. Cursors in Redis remember
how far each round has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.feeds.io.link_store import LinkStore, Ttls
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.article_end import ArticleEnd
from core.registry.io.item_store import ItemStore
from core.registry.io.removal_commands import RemovableItem, Remover
from core.registry.record import ARTICLES_SOURCE, Status
from core.store import scanning
from core.store.connect import Client, texts
from core.store.leases import Leases
from core.store.pipeline import read_many

BATCH = 1_000
EXPIRY_BATCHES = 10
"""Batches of items per run; a store with more articles needs several runs."""
AT_ONCE = 100
"""Items that are leased together."""
PURGE_BATCH = 500
PURGED = {Status.GONE: "gone", Status.OUT_OF_SCOPE: "out_of_scope"}
"""Statuses whose items are removed in the end, with the field of their cursor."""
SAMPLE = 200

# KEYS[1] items that feeds list · ARGV[1] and [2] beginnings of the keys of records and of articles, then item ids.
# Returns, for each item without a live article, its id and five fields of its record, empty where there is none. Keys
# of another type are left to the doctor. One script: nearly all articles are alive and need not travel.
_WITHOUT_ARTICLE = """
local expired = {}
for i = 3, #ARGV do
  local record = redis.pcall('HMGET', ARGV[1] .. ARGV[i], 'status', 'articleUid', 'sources', 'goneTs', 'checkedTs')
  local uid = not record.err and record[2] or ''
  if not record.err and (uid == '' or redis.call('EXISTS', ARGV[2] .. uid) == 0) then
    local row = {ARGV[i]}
    for n = 1, 5 do row[n + 1] = record[n] or '' end
    expired[#expired + 1] = row
  end
end
return expired
"""


class ArticleExpiry:
    """Ends the items of expired articles; runs with every tick of the timer and every run of the canonical fetcher."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._items = ItemStore(client, keys)
        self._remover = Remover(client, keys)
        self._article_end = ArticleEnd(client, keys)
        self._leases = Leases(client, keys)

    async def run(self, now: float) -> int:
        """Check the next items that feeds list; return how many ended or were removed."""
        count = 0
        refs, cursors = self._keys.refs(ARTICLES_SOURCE), self._keys.prune_cursors
        for _ in range(EXPIRY_BATCHES):
            item_ids = await scanning.next_zset_members(self._client, refs, cursors, "items", BATCH)
            # Every id is ASCII; anything else is the doctor's to find.
            count += await self._check([name for name in dict.fromkeys(item_ids) if name.isascii()], now)
            if str(await self._client.hget(cursors, "items") or "0") == "0":  # once around
                break
        return count

    async def _check(self, item_ids: Sequence[str], now: float) -> int:
        if not item_ids:
            return 0
        words = (self._keys.item(""), self._keys.article(""), *item_ids)
        rows = await self._client.eval(_WITHOUT_ARTICLE, 1, self._keys.refs(ARTICLES_SOURCE), *words)
        expired = {item_id: fields for item_id, *fields in cast(list[list[str]], rows)}
        old = {item_id: fields[0] or "0" for item_id, fields in expired.items() if self._is_old(fields, now)}
        count = await _remove(self._remover, old)
        # Those whose end is not noted yet. The status of what a 404 or 410 took away says so itself.
        ending = [
            item_id
            for item_id, (status, uid, sources, *_) in expired.items()
            if item_id not in old and uid and status in set(Status) and (status != Status.GONE or _others(sources))
        ]
        for start in range(0, len(ending), AT_ONCE):
            count += await self._end(ending[start : start + AT_ONCE], now)
        return count

    def _is_old(self, fields: Sequence[str], now: float) -> bool:
        """Return whether it has expired: gone or unchecked for long and in no other source, or without a record."""
        status, _, sources, gone, checked = fields
        if not status or _others(sources):
            return not status
        gone_ts, checked_ts = field_parsing.timestamp(gone), field_parsing.timestamp(checked)
        if status == Status.GONE and gone_ts:
            return now - gone_ts > self._ttls.attempted
        return bool(checked_ts) and now - checked_ts > self._ttls.article + self._ttls.attempted

    async def _end(self, item_ids: Sequence[str], now: float) -> int:
        """End those that no worker has leased; the others have their turn in the next round."""
        leased = await self._items.lease(self._leases, item_ids, now)
        came_back = [one for one in leased if one.article]
        try:
            return len(await self._article_end.commit(self._leases, [one for one in leased if not one.article], now))
        finally:
            await self._article_end.release(self._leases, came_back)


class Purger:
    """Removes items that have been gone for long; runs with every tick of the timer."""

    def __init__(self, client: Client, keys: Keys, gone_ttl_seconds: int) -> None:
        self._client = client
        self._keys = keys
        self._ttl = gone_ttl_seconds
        self._remover = Remover(client, keys)

    async def run(self, now: float) -> int:
        """Check the next tombstones; return how many were purged."""
        return sum([await self._purge(status, now) for status in PURGED])

    async def _purge(self, status: Status, now: float) -> int:
        members, cursors = self._keys.status(str(status)), self._keys.prune_cursors
        item_ids = await scanning.next_set_members(self._client, members, cursors, PURGED[status], PURGE_BATCH)
        fields = ("goneTs", "checkedTs", "sources", "normalizedSource")
        rows = await read_many(self._client, [("HMGET", self._keys.item(item_id), *fields) for item_id in item_ids])
        old = {}
        for item_id, (gone_ts, checked_ts, sources, address) in zip(item_ids, rows, strict=True):
            since = field_parsing.timestamp(gone_ts or checked_ts or "0", now)  # a damaged time is not old
            # Of what is out of scope only what no source lists any more.
            if now - since > self._ttl and (status is Status.GONE or not sources):
                old[item_id] = "0" if address is None else str(status)  # 0: an id without a record
        return await _remove(self._remover, old)


async def _remove(remover: Remover, statuses: dict[str, str]) -> int:
    """Remove these items, with or without a record; one that has been revived has another status, and stays."""
    known = {record.id: record for record in await remover.read(list(statuses))}
    return await remover.remove([known.get(one, RemovableItem(one)) for one in statuses], "status", statuses)


class Pruner:
    """Prunes links, attempts and indexes of articles; runs once per run of the canonical fetcher."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._links = LinkStore(client, keys, ttls)
        self._article_expiry = ArticleExpiry(client, keys, ttls)

    async def run(self, categories: Sequence[str], now: float) -> None:
        """Prune everything; each part is bounded and goes on where it stopped."""
        for category in categories:
            await self._links.prune(category, now)
            # Uids without a live article leave the category, from a sample.
            listed = self._keys.articles_by_category(category)
            gone = await self._without_article(texts(await self._client.srandmember(listed, SAMPLE) or []))
            if gone:
                await self._client.srem(listed, *gone)
        await self._prune_index(categories)
        await self._article_expiry.run(now)

    async def forget_old_attempts(self, now: float) -> None:
        """Before a run looks for new links: what failed ATTEMPTED_TTL_SECONDS ago is new again."""
        await self._links.prune_attempted(now)
        await self._client.zremrangebyscore(self._keys.failures, "-inf", now - self._ttls.attempted)

    async def drop_stale_stamps(self, category: str) -> None:
        """Drop stamps whose link was removed by hand, from a sample; they would hide a link added again."""
        stamps = self._keys.category_links_seen(category)
        sample = texts(await self._client.zrandmember(stamps, SAMPLE) or [])
        members = await self._client.smismember(self._keys.category_links(category), sample) if sample else []
        stale = [url for url, is_member in zip(sample, members, strict=True) if not is_member]
        if stale:
            await self._client.zrem(stamps, *stale)

    async def _prune_index(self, categories: Sequence[str]) -> None:
        """Drop uids without a live article from the global index and the categories."""
        index, cursors = self._keys.article_index, self._keys.prune_cursors
        gone = await self._without_article(
            await scanning.next_zset_members(self._client, index, cursors, "articles", BATCH)
        )
        if not gone:
            return
        pipe = self._client.pipeline(transaction=False)
        pipe.zrem(index, *gone)
        for category in categories:
            pipe.srem(self._keys.articles_by_category(category), *gone)
        await pipe.execute()

    async def _without_article(self, uids: Sequence[str]) -> list[str]:
        replies = await read_many(self._client, [("EXISTS", self._keys.article(uid)) for uid in uids])
        return [uid for uid, exists in zip(uids, replies, strict=True) if not exists]


def _others(sources: str) -> list[str]:
    return [name for name in sources.split(",") if name and name != ARTICLES_SOURCE]
