"""Find the links to fetch: those of the link sets that were not attempted, and retries that are due.

Reads in small steps, so that a million known links cost the server no pause and us no memory: SSCAN with SMISMEMBER
stalls the server a tenth of what SMEMBERS does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core import ids
from core.keys import Keys
from core.store import scanning
from core.store.connect import Client, texts


@dataclass(slots=True)
class NewLinks:
    """The links to fetch; every link is counted once, however many categories have it."""

    known: int = 0
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Categories by the URL to fetch."""


class NewLinkFinder:
    """Compares the uids of links with the uids that were attempted."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def find(self, categories: Sequence[str], now: float) -> NewLinks:
        """Return everything that is new in these categories or due for another try."""
        new = NewLinks()
        for place, category in enumerate(categories):
            earlier = [self._keys.category_links(name) for name in categories[:place]]
            async for batch in scanning.set_members(self._client, self._keys.category_links(category)):
                await self._add_new(new, batch, category, earlier, now)
        await self._add_retries(new, now)
        return new

    async def _add_new(
        self, new: NewLinks, batch: list[str], category: str, earlier: Sequence[str], now: float
    ) -> None:
        uids = [ids.article_uid(url) for url in batch]
        pipe = self._client.pipeline(transaction=False)
        pipe.smismember(self._keys.attempted, uids)
        for key in earlier:
            pipe.smismember(key, batch)
        attempted, *in_earlier = await pipe.execute()
        unattempted = [url for url, was_tried in zip(batch, attempted, strict=True) if not was_tried]
        waiting = await self._waiting(unattempted, now) if unattempted else set()
        for url in unattempted:
            if url not in waiting:
                new.links[url] = (*new.links.get(url, ()), category)
        counted_before = [any(hits) for hits in zip(*in_earlier, strict=True)] or [False] * len(batch)
        new.known += sum(
            not before and (was_tried or url in waiting)
            for url, was_tried, before in zip(batch, attempted, counted_before, strict=True)
        )

    async def _waiting(self, urls: Sequence[str], now: float) -> set[str]:
        """Return those whose next try is not due yet."""
        times = await self._client.zmscore(self._keys.retry, [ids.article_uid(url) for url in urls])
        return {url for url, at in zip(urls, times, strict=True) if at is not None and float(at) > now}

    async def _add_retries(self, new: NewLinks, now: float) -> None:
        """Add due retries whose link has left its set; their URL is in the failure record."""
        uids = texts(await self._client.zrange(self._keys.retry, "-inf", str(now), byscore=True))
        pipe = self._client.pipeline(transaction=False)
        for uid in uids:
            pipe.hmget(self._keys.failure(uid), ["url", "category"])
        for uid, (url, category) in zip(uids, await pipe.execute() if uids else [], strict=True):
            if url is None:
                await self._client.zrem(self._keys.retry, uid)  # its failure record has expired
            elif ids.article_uid(url) == uid and url not in new.links:  # else the record's URL lacks its credentials
                new.links[url] = tuple(category.split(","))
