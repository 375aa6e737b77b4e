"""What is there to fetch? Link sets minus what was attempted, plus retries that came due.

Reads in small steps, so that a million known links cost the server no pause and us no memory: SSCAN with SMISMEMBER
stalls the server a tenth of what SMEMBERS does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from core import ids
from core.keys import Keys
from core.store.connect import Client, texts

SCAN_COUNT = 1_000


@dataclass(slots=True)
class NewLinks:
    """One look at all link sets; every link is counted once, in however many categories it stands."""

    known: int = 0
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """URLs to fetch, with their categories."""


class NewLinkFinder:
    """Compares uids with uids (trap T1)."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def look(self, categories: Sequence[str], now: float) -> NewLinks:
        """Everything that is new in these categories or due for another try."""
        findings = NewLinks()
        for place, category in enumerate(categories):
            earlier = [self._keys.category_links(name) for name in categories[:place]]
            async for batch in self._batches(self._keys.category_links(category)):
                await self._sort(batch, category, earlier, findings, now)
        await self._add_retries(findings, now)
        return findings

    async def _sort(
        self, batch: list[str], category: str, earlier: Sequence[str], findings: NewLinks, now: float
    ) -> None:
        uids = [ids.article_uid(url) for url in batch]
        pipe = self._client.pipeline(transaction=False)
        pipe.smismember(self._keys.attempted, uids)
        for key in earlier:
            pipe.smismember(key, batch)
        attempted, *in_earlier = await pipe.execute()
        unknown = [url for url, was_tried in zip(batch, attempted, strict=True) if not was_tried]
        waiting = await self._waiting(unknown, now) if unknown else set()
        for url in unknown:
            if url not in waiting:
                findings.links[url] = (*findings.links.get(url, ()), category)
        counted_before = [any(hits) for hits in zip(*in_earlier, strict=True)] or [False] * len(batch)
        findings.known += sum(
            not before and (was_tried or url in waiting)
            for url, was_tried, before in zip(batch, attempted, counted_before, strict=True)
        )

    async def _waiting(self, urls: Sequence[str], now: float) -> set[str]:
        """Those whose next try has not come."""
        times = await self._client.zmscore(self._keys.retry, [ids.article_uid(url) for url in urls])
        return {url for url, at in zip(urls, times, strict=True) if at is not None and float(at) > now}

    async def _add_retries(self, findings: NewLinks, now: float) -> None:
        """Retries whose link has meanwhile left its set keep their URL in the failure's story."""
        uids = texts(await self._client.zrange(self._keys.retry, "-inf", str(now), byscore=True))
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.hmget(self._keys.failure(uid), ["url", "category"])
        for uid, (url, category) in zip(uids, await pipe.execute() if uids else [], strict=True):
            if url is None:
                await self._client.zrem(self._keys.retry, uid)  # its story has aged out
            elif ids.article_uid(url) == uid and url not in findings.links:  # a story keeps no secrets of its link
                findings.links[url] = tuple(category.split(","))

    # ── links by hand ──

    async def unstamped(self, category: str) -> list[str]:
        """Links that somebody added with SADD since the last run: they have no stamp yet."""
        members, stamps = self._keys.category_links(category), self._keys.category_links_seen(category)
        if await self._client.scard(members) == await self._client.zcard(stamps):
            return []
        found: list[str] = []
        async for batch in self._batches(members):
            times = await self._client.zmscore(stamps, batch)
            found += [url for url, at in zip(batch, times, strict=True) if at is None]
        return found

    async def _batches(self, key: str) -> AsyncIterator[list[str]]:
        cursor = 0
        while True:
            cursor, batch = await self._client.sscan(key, cursor=cursor, count=SCAN_COUNT)
            if batch:
                yield texts(batch)
            if not int(cursor):
                return
