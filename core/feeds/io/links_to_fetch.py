"""Find the links that the canonical fetcher has to fetch: in link sets and not attempted, or due for another try.

Fewer than 20,000 links are all compared with what was attempted. With more, a run that left no link over leaves a mark,
and the next run looks only at links that were seen since, and at retries. All links are compared again hourly,
after a command that made links new again, and while a set has links without a last-seen time, which someone added by
hand. So a link whose attempt aged out after 30 days may wait for another hour.

Sets are read in small steps, so that a million known links cost the server no pause and us no memory: SSCAN with
SMISMEMBER stalls the server a tenth of what SMEMBERS does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from core import ids
from core.keys import Keys
from core.registry import field_parsing
from core.store import scanning
from core.store.commands import Command, flat
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

LATE_COMMIT_SECONDS = 900.0
"""A poll that commits late writes an earlier last-seen time; far more than the lease of a feed lasts."""
MOST_RECENT = 50_000
"""With more links seen since the last run, reading all of them in small steps is the better way."""


@value_class
class ScanMark:
    """How far a run that came to its end has looked."""

    ts: float
    full_ts: float
    """When all links were last compared."""
    links: int
    """Different links in all sets, then."""
    members: int
    """Members of all sets, then: more than links, where two categories have one."""
    resets: int = 0
    """How often links had been made new again, when it began to look."""


def reset(keys: Keys) -> Command:
    """Return the command that makes the next run compare all links: some that were seen long ago are new again."""
    return ("HINCRBY", keys.canonical_scan, "resets", 1)


@dataclass(slots=True)
class NewLinks:
    """The links to fetch; every link is counted once, however many categories have it."""

    known: int = 0
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Categories by the URL to fetch."""
    mark: ScanMark | None = None
    """What to remember if all of them are fetched."""


class LinkFinder:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def find(self, categories: Sequence[str], now: float) -> NewLinks:
        """Return the links of these categories that were not attempted, and retries that are due."""
        # Read first: a reset from now on is for the next run.
        stored = cast(dict[str, str], await self._client.hgetall(self._keys.canonical_scan))
        members, timed = await self._sizes(categories)
        is_small = sum(members) < scanning.SMALL_STORE_KEYS
        last = None if is_small or members != timed else _usable_mark(stored, now)
        new = await self._find_recent(categories, last, now) if last else None
        full_ts = last.full_ts if last and new else now
        if new is None:
            new = await self._find_all(categories, now)
        links = last.links + sum(members) - last.members if last and full_ts < now else new.known + len(new.links)
        new.known = max(links - len(new.links), 0)
        new.mark = ScanMark(now, full_ts, links, sum(members), field_parsing.integer(stored.get("resets")))
        await self._add_retries(new, now)
        return new

    async def remember(self, mark: ScanMark) -> None:
        """Keep the mark of a run that left no link over."""
        fields = flat(
            {
                "ts": mark.ts,
                "full_ts": mark.full_ts,
                "links": mark.links,
                "members": mark.members,
                "resets_seen": mark.resets,
            }
        )
        await self._client.hset(self._keys.canonical_scan, items=fields)

    async def _sizes(self, categories: Sequence[str]) -> tuple[list[int], list[int]]:
        keys = self._keys
        commands = [
            *(("SCARD", keys.category_links(name)) for name in categories),
            *(("ZCARD", keys.category_links_seen(name)) for name in categories),
        ]
        sizes = [int(size) for size in await read_many(self._client, commands)]
        return sizes[: len(categories)], sizes[len(categories) :]

    # ── all links, or those seen since ──

    async def _find_all(self, categories: Sequence[str], now: float) -> NewLinks:
        new = NewLinks()
        for place, category in enumerate(categories):
            async for batch in scanning.set_members(self._client, self._keys.category_links(category)):
                await self._add_new(new, batch, categories[: place + 1], now)
        return new

    async def _find_recent(self, categories: Sequence[str], last: ScanMark, now: float) -> NewLinks | None:
        """Look at what was seen since, and at retries; None: everything has to be looked at."""
        since, new = last.ts - LATE_COMMIT_SECONDS, NewLinks()
        seen = [self._keys.category_links_seen(name) for name in categories]
        counts = await read_many(self._client, [("ZCOUNT", key, since, "+inf") for key in seen])
        retries = await self._due_retries(now)
        if sum(map(int, counts)) > MOST_RECENT or any(ids.article_uid(url) != uid for uid, url, _ in retries):
            return None
        for place, (category, key) in enumerate(zip(categories, seen, strict=True)):
            links = texts(await self._client.zrange(key, str(since), "+inf", byscore=True))
            async for batch in self._members(category, dict.fromkeys([*links, *(url for _, url, _ in retries)])):
                await self._add_new(new, batch, categories[: place + 1], now)
        return new

    async def _members(self, category: str, links: dict[str, None]) -> AsyncIterator[list[str]]:
        """Yield those of the links that the set of a category holds, in batches."""
        urls = list(links)
        for start in range(0, len(urls), scanning.AT_ONCE):
            some = urls[start : start + scanning.AT_ONCE]
            is_member = await self._client.smismember(self._keys.category_links(category), some)
            yield [url for url, is_in in zip(some, is_member, strict=True) if is_in]

    async def _add_new(self, new: NewLinks, batch: list[str], categories: Sequence[str], now: float) -> None:
        """Add what was not attempted of a part of the last category; the categories before it are done."""
        if not batch:
            return
        *earlier, category = categories
        tried = ("SMISMEMBER", self._keys.attempted, *map(ids.article_uid, batch))
        listed = [("SMISMEMBER", self._keys.category_links(name), *batch) for name in earlier]
        attempted, *in_earlier = await read_many(self._client, [tried, *listed])
        unattempted = [url for url, was_tried in zip(batch, attempted, strict=True) if not was_tried]
        retry_uids = [ids.article_uid(url) for url in unattempted]
        retry_times = await self._client.zmscore(self._keys.retry, retry_uids) if unattempted else []
        waiting = {url for url, at in zip(unattempted, retry_times, strict=True) if at is not None and float(at) > now}
        for url in unattempted:
            if url not in waiting:
                new.links[url] = (*new.links.get(url, ()), category)
        counted_before = [any(hits) for hits in zip(*in_earlier, strict=True)] or [False] * len(batch)
        new.known += sum(
            not before and (was_tried or url in waiting)
            for url, was_tried, before in zip(batch, attempted, counted_before, strict=True)
        )

    # ── retries ──

    async def _due_retries(self, now: float) -> list[tuple[str, str, str]]:
        """Return uid, URL and categories of the retries that are due; those whose failure record has expired go."""
        uids = texts(await self._client.zrange(self._keys.retry, "-inf", str(now), byscore=True))
        rows = await read_many(self._client, [("HMGET", self._keys.failure(uid), "url", "category") for uid in uids])
        expired = [uid for uid, (url, _) in zip(uids, rows, strict=True) if url is None]
        if expired:
            await self._client.zrem(self._keys.retry, *expired)
        return [(uid, url, category or "") for uid, (url, category) in zip(uids, rows, strict=True) if url is not None]

    async def _add_retries(self, new: NewLinks, now: float) -> None:
        """Add due retries whose link has left its set; their URL is in the failure record."""
        for uid, url, category in await self._due_retries(now):
            if ids.article_uid(url) == uid and url not in new.links:  # else the record's URL lacks its credentials
                new.links[url] = tuple(category.split(","))


def _usable_mark(stored: Mapping[str, str], now: float) -> ScanMark | None:
    """Return what the last run left, unless everything is to be looked at."""
    ts, full_ts = (field_parsing.timestamp(stored.get(name, "0")) for name in ("ts", "full_ts"))
    links, members, resets, seen = (
        field_parsing.integer(stored.get(name)) for name in ("links", "members", "resets", "resets_seen")
    )
    is_current = full_ts <= ts <= now < full_ts + scanning.FULL_EVERY_SECONDS and resets == seen
    return ScanMark(ts, full_ts, links, members, resets) if is_current else None
