"""Category link sets: each link ttls from its last sighting, not the whole set (traps T2–T4).

The SET is what people read and add to; the ZSET beside it holds the stamps. Both change in one step.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import cast

from core import ids
from core.keys import Keys
from core.models import FeedText
from core.settings import Settings
from core.store.commit import Command, batched
from core.store.connect import Client
from core.urls.secrets import without_credentials

PRUNE_BATCH = 1_000
SCAN_BATCH = 1_000

# KEYS[1] set, KEYS[2] its stamps · ARGV[1] cutoff, ARGV[2] most members to remove. Returns how many went.
# One step, so that a sighting in between is not lost.
_PRUNE = """
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
if #old == 0 then return 0 end
redis.call('SREM', KEYS[1], unpack(old))
redis.call('ZREM', KEYS[2], unpack(old))
return #old
"""


@dataclass(frozen=True, slots=True)
class Ttls:
    """How long things are kept, in seconds."""

    link: int
    attempted: int
    article: int

    @classmethod
    def of(cls, settings: Settings) -> Ttls:
        """As the settings say."""
        return cls(settings.link_ttl_seconds, settings.attempted_ttl_seconds, settings.article_ttl_seconds)


class LinkStore:
    """Sightings of links and what they keep alive."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls

    async def known(self, categories: Sequence[str], feed_links_key: str, links: Sequence[str]) -> set[str]:
        """Those links that this feed listed last time, that stand in a link set, or that were attempted."""
        if not links:
            return set()
        pipe = self._client.pipeline(transaction=False)
        for key in (feed_links_key, *map(self._keys.category_links, categories)):
            pipe.smismember(key, list(links))
        pipe.smismember(self._keys.attempted, [ids.article_uid(url) for url in links])
        answers = await pipe.execute()
        return {url for url, *hits in zip(links, *answers, strict=True) if any(hits)}

    async def categories_of(self, link: str) -> tuple[str, ...]:
        """The categories whose link sets hold this link."""
        names = sorted(map(str, await self._client.smembers(self._keys.categories)))
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.sismember(self._keys.category_links(name), link)
        answers = await pipe.execute() if names else []
        return tuple(name for name, is_listed in zip(names, answers, strict=True) if is_listed)

    def sighting(self, categories: Sequence[str], links: Sequence[str], now: float) -> list[Command]:
        """Commands that put the links into their sets and stamp them; a stamp never moves back."""
        commands: list[Command] = []
        for category in categories if links else ():
            members, stamps = self._keys.category_links(category), self._keys.category_links_seen(category)
            commands += batched(("SADD", members), links)
            stamped = [word for url in links for word in (now, url)]
            commands += batched(("ZADD", stamps, "GT"), stamped, words_per_member=2)
            commands += [("EXPIRE", members, self._ttls.link), ("EXPIRE", stamps, self._ttls.link)]
        return commands

    def entries(self, feed_url: str, fresh: Sequence[tuple[str, FeedText]]) -> list[Command]:
        """Commands that keep what a feed says about its new links, for when their pages cannot be read."""
        commands: list[Command] = []
        feed = without_credentials(feed_url)
        for url, text in fresh:
            key = self._keys.entry(ids.article_uid(url))
            published = "" if text.published_ts is None else text.published_ts
            said = ("feed", feed, "title", text.title, "author", text.author, "published_ts", published)
            commands += [("HSET", key, *said, "html", text.html), ("EXPIRE", key, self._ttls.link)]
        return commands

    # ── ageing ──

    async def prune(self, category: str, now: float) -> int:
        """Remove links not seen for their life; stamp those that somebody added by hand."""
        members, stamps = self._keys.category_links(category), self._keys.category_links_seen(category)
        await self._stamp_unstamped(members, stamps, now)
        return await self._prune(members, stamps, now - self._ttls.link)

    async def prune_attempted(self, now: float) -> int:
        """Forget what was last seen (success) or tried (failure) longer ago than the memory's life."""
        await self._stamp_unstamped(self._keys.attempted, self._keys.attempted_at, now, self._ttls.attempted)
        return await self._prune(self._keys.attempted, self._keys.attempted_at, now - self._ttls.attempted)

    async def _prune(self, members: str, stamps: str, cutoff: float) -> int:
        removed = 0
        while True:
            batch = cast(int, await self._client.eval(_PRUNE, 2, members, stamps, str(cutoff), str(PRUNE_BATCH)))
            removed += batch
            if batch < PRUNE_BATCH:
                return removed

    async def _stamp_unstamped(self, members: str, stamps: str, now: float, life: int | None = None) -> None:
        count, stamped = await self._client.scard(members), await self._client.zcard(stamps)
        if not count or count == stamped:
            return
        async for batch in self._batches(members):
            async with self._client.pipeline(transaction=True) as pipe:
                # NX: a stamp that is already there knows better.
                pipe.zadd(stamps, dict.fromkeys(batch, now), nx=True)
                for key in (members, stamps):
                    pipe.expire(key, life or self._ttls.link)
                await pipe.execute()

    async def _batches(self, members: str) -> AsyncIterator[list[str]]:
        batch: list[str] = []
        async for member in self._client.sscan_iter(members, count=SCAN_BATCH):
            batch.append(member)
            if len(batch) >= SCAN_BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    async def forget_category(self, category: str) -> None:
        """Drop a category's links and stamps."""
        await self._client.delete(self._keys.category_links(category), self._keys.category_links_seen(category))
