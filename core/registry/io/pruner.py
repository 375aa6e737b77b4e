"""Forget what is over, a bounded piece in each run: links, memory, failures, indexes, registry records.

Expiry fires no event here: an article that expired leaves its uid in indexes, and this takes it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.feeds.io.link_store import LinkStore, Ttls
from core.keys import Keys
from core.registry.io.article_expiry import ArticleExpiry
from core.store import scanning
from core.store.connect import Client, texts

BATCH = 1_000
SAMPLE = 200
CURSOR_FIELD = "articles"


class Pruner:
    """Called once per run."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._links = LinkStore(client, keys, ttls)
        self._article_expiry = ArticleExpiry(client, keys, ttls)

    async def run(self, categories: Sequence[str], now: float) -> None:
        """One round over everything; each part is bounded and goes on where it stopped."""
        for category in categories:
            await self._links.prune(category, now)
            await self._prune_category(category)
        await self._prune_index(categories)
        await self._article_expiry.run(now)

    async def forget_old_attempts(self, now: float) -> None:
        """Before a run looks what is new: what failed 30 days ago is new again."""
        await self._links.prune_attempted(now)
        await self._client.zremrangebyscore(self._keys.failures, "-inf", now - self._ttls.attempted)

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
        return [uid for uid, ttls in zip(uids, await pipe.execute() if uids else [], strict=True) if not ttls]

    async def _prune_index(self, categories: Sequence[str]) -> None:
        """Uids without a live article leave the global index and the categories."""
        index, cursors = self._keys.article_index, self._keys.prune_cursors
        uids = await scanning.next_zset_members(self._client, index, cursors, CURSOR_FIELD, BATCH)
        gone = await self._gone(uids)
        if not gone:
            return
        pipe = self._client.pipeline(transaction=False)
        pipe.zrem(self._keys.article_index, *gone)
        for category in categories:
            pipe.srem(self._keys.articles_by_category(category), *gone)
        await pipe.execute()
