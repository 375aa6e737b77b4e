"""Category link sets, in which each link has a TTL of its own that starts when it was last seen.

The SET is what people read and add to; the ZSET beside it holds the last-seen times. Both change in one step.
`core/feeds/io/links_to_fetch.py` finds those that are to be fetched.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import cast

from core import ids
from core.feeds.io import links_to_fetch
from core.keys import Keys
from core.models import FeedText
from core.settings import Settings
from core.store import scanning
from core.store.commands import Command, batched
from core.store.connect import Client
from core.store.leases import Leases
from core.store.pipeline import read_many
from core.urls.secrets import without_credentials
from core.value_class import value_class

PRUNE_BATCH = 1_000

# KEYS[1] set, KEYS[2] its last-seen times · ARGV[1] cutoff, ARGV[2] most to remove. Returns how many were.
# One step, so that no link is removed that is seen in between.
_PRUNE = """
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
if #old == 0 then return 0 end
redis.call('SREM', KEYS[1], unpack(old))
redis.call('ZREM', KEYS[2], unpack(old))
return #old
"""


@value_class
class Ttls:
    """How long links, attempts and articles are kept, in seconds."""

    link: int
    attempted: int
    article: int

    @classmethod
    def of(cls, settings: Settings) -> Ttls:
        return cls(settings.link_ttl_seconds, settings.attempted_ttl_seconds, settings.article_ttl_seconds)


class LinkStore:
    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls

    async def known(self, categories: Sequence[str], feed_links_key: str, links: Sequence[str]) -> set[str]:
        """Return the links that this feed listed last time, that are in a link set, or that were attempted."""
        if not links:
            return set()
        sets = (feed_links_key, *map(self._keys.category_links, categories))
        attempted = ("SMISMEMBER", self._keys.attempted, *map(ids.article_uid, links))
        answers = await read_many(self._client, [*(("SMISMEMBER", key, *links) for key in sets), attempted])
        return {url for url, *hits in zip(links, *answers, strict=True) if any(hits)}

    async def categories_of(self, link: str) -> tuple[str, ...]:
        return (await self.with_categories([link])).get(link, ())

    async def with_categories(self, links: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return those of the links that are in a link set, with their categories."""
        names = sorted(map(str, await self._client.smembers(self._keys.categories)))
        asked = [("SMISMEMBER", self._keys.category_links(name), *links) for name in names if links]
        listed = zip(*await read_many(self._client, asked), strict=True)
        found = {link: tuple(itertools.compress(names, hits)) for link, hits in zip(links, listed, strict=False)}
        return {link: categories for link, categories in found.items() if categories}

    def mark_seen(self, categories: Sequence[str], links: Sequence[str], now: float) -> list[Command]:
        """Return commands that add the links to their sets with this last-seen time; it never moves back."""
        commands: list[Command] = []
        for category in categories if links else ():
            members, seen = self._keys.category_links(category), self._keys.category_links_seen(category)
            commands += batched(("SADD", members), links)
            times = [word for url in links for word in (now, url)]
            commands += batched(("ZADD", seen, "GT"), times, words_per_member=2)
            commands += [("EXPIRE", members, self._ttls.link), ("EXPIRE", seen, self._ttls.link)]
        return commands

    def store_entries(self, feed_url: str, new_entries: Sequence[tuple[str, FeedText]]) -> list[Command]:
        """Return commands that keep what a feed says about its new links, for when their pages cannot be read."""
        commands: list[Command] = []
        feed = without_credentials(feed_url)
        for url, text in new_entries:
            key = self._keys.entry(ids.article_uid(url))
            published = "" if text.published_ts is None else text.published_ts
            fields = ("feed", feed, "title", text.title, "author", text.author, "published_ts", published)
            commands += [("HSET", key, *fields, "html", text.html), ("EXPIRE", key, self._ttls.link)]
        return commands

    async def added_by_hand(self, category: str) -> list[str]:
        """Return links that someone added with SADD since the last run: they have no last-seen time yet."""
        members, seen = self._keys.category_links(category), self._keys.category_links_seen(category)
        if await self._client.scard(members) == await self._client.zcard(seen):
            return []
        links: list[str] = []
        async for batch in scanning.set_members(self._client, members):
            times = await self._client.zmscore(seen, batch)
            links += [url for url, at in zip(batch, times, strict=True) if at is None]
        return links

    # ── ageing ──

    async def prune(self, category: str, now: float) -> int:
        """Remove links whose TTL has passed; give a last-seen time to those added by hand."""
        members, seen = self._keys.category_links(category), self._keys.category_links_seen(category)
        return await self._prune(members, seen, now, self._ttls.link)

    async def prune_attempted(self, now: float) -> int:
        """Forget attempts whose TTL has passed since they were last seen (success) or tried (failure)."""
        return await self._prune(self._keys.attempted, self._keys.attempted_at, now, self._ttls.attempted)

    async def _prune(self, members: str, seen: str, now: float, ttl: int) -> int:
        await self._add_missing_times(members, seen, now, ttl)
        cutoff, removed = now - ttl, 0
        while True:
            batch = cast(int, await self._client.eval(_PRUNE, 2, members, seen, str(cutoff), str(PRUNE_BATCH)))
            removed += batch
            if batch < PRUNE_BATCH:
                return removed

    async def _add_missing_times(self, members: str, seen: str, now: float, ttl: int) -> None:
        count, timed = await self._client.scard(members), await self._client.zcard(seen)
        if not count or count == timed:
            return
        async for batch in scanning.set_members(self._client, members):
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.zadd(seen, dict.fromkeys(batch, now), nx=True)
                for key in (members, seen):
                    pipe.expire(key, ttl)
                await pipe.execute()


class FailedLinks:
    """Finds attempted links without an article, and makes them new again. Their failure records are kept."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def in_category(self, category: str) -> AsyncIterator[list[str]]:
        """Yield the uids of a category's attempted links without an article, in batches; some may come twice."""
        async for urls in scanning.set_members(self._client, self._keys.category_links(category)):
            yield await self.without_article([ids.article_uid(url) for url in urls])
        async for members in scanning.zset_members(self._client, self._keys.failures):
            # Failed links whose record names the category; they may have left its set.
            uids = [member.partition(":")[0] for member in members]
            listed = await read_many(self._client, [("HGET", self._keys.failure(uid), "category") for uid in uids])
            rows = zip(uids, listed, strict=True)
            yield await self.without_article([uid for uid, names in rows if category in (names or "").split(",")])

    async def without_article(self, uids: Sequence[str]) -> list[str]:
        """Return those that were attempted, or wait for another try, and lead to no article."""
        if not uids:
            return []
        asked: list[Command] = [("SMISMEMBER", self._keys.attempted, *uids), ("ZMSCORE", self._keys.retry, *uids)]
        asked += [("GET", self._keys.alias(uid)) for uid in uids]
        attempted, waiting, *targets = await read_many(self._client, asked)
        shown = [target or uid for uid, target in zip(uids, targets, strict=True)]
        stored = await read_many(self._client, [("EXISTS", self._keys.article(uid)) for uid in shown])
        rows = zip(uids, attempted, waiting, stored, strict=True)
        return [uid for uid, tried, at, has_article in rows if (tried or at is not None) and not has_article]

    async def retry(self, uids: Sequence[str], now: float) -> None:
        """Make them new to the next run of the canonical fetcher, also those that no link set holds any more."""
        if not uids:
            return
        has_record = await read_many(self._client, [("EXISTS", self._keys.failure(uid)) for uid in uids])
        recorded = [uid for uid, has in zip(uids, has_record, strict=True) if has]
        due = [word for uid in recorded for word in (now, uid)]
        commands: list[Command] = [
            *batched(("SREM", self._keys.attempted), list(uids)),
            *batched(("ZREM", self._keys.attempted_at), list(uids)),
            *batched(("ZADD", self._keys.retry), due, words_per_member=2),
            links_to_fetch.reset(self._keys),  # these links were seen long ago
        ]
        await Leases(self._client, self._keys).run(commands)
