"""Which items a source has: by depth, by when they were last listed or linked, and what leads from one to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import Item, Status
from core.store import scanning
from core.store.commit import Command
from core.store.connect import Client, texts
from core.store.events import event

AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class PageLinks:
    """What leads on from a page of a source."""

    links: frozenset[str]
    depth: int
    alias_of: str = ""
    canonical_url: str = ""
    url: str = ""


class SourceItems:
    """Reads and writes `source:<sid>:refs`, `:seen` and `:listed`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    # ── what it has ──

    async def count(self, sid: str) -> int:
        """How many items it has, tombstones too."""
        return int(await self._client.zcard(self._keys.refs(sid)))

    async def count_alive(self, sid: str) -> int:
        """How many of them are there."""
        gone = await self._client.zintercard(2, [self._keys.refs(sid), self._keys.status(str(Status.GONE))])
        return await self.count(sid) - int(gone)

    async def batches(self, sid: str) -> AsyncIterator[list[str]]:
        """All of them by depth, in pieces; for a source whose items stay while this goes on."""
        start = 0
        while some := texts(await self._client.zrange(self._keys.refs(sid), start, start + AT_ONCE - 1)):
            yield some
            start += AT_ONCE

    async def scanned(self, sid: str) -> AsyncIterator[list[str]]:
        """All of them, in pieces and in no order, some perhaps twice; whatever comes and goes meanwhile."""
        async for item_ids in scanning.zset_members(self._client, self._keys.refs(sid)):
            yield item_ids

    async def addresses(self, sid: str) -> AsyncIterator[tuple[str, str]]:
        """All of them, with what is fetched."""
        async for some in self.batches(sid):
            pipe = self._client.pipeline(transaction=False)
            for item_id in some:
                pipe.hget(self._keys.item(item_id), "fetchUrl")
            for item_id, address in zip(some, await pipe.execute(), strict=True):
                yield item_id, str(address or "")

    async def depths(self, sid: str, item_ids: Sequence[str]) -> list[int | None]:
        """How deep each of these lies; None for those that it does not have."""
        scores = await self._client.zmscore(self._keys.refs(sid), list(item_ids)) if item_ids else []
        return [None if score is None else int(score) for score in scores]

    async def come_nearer(self, sid: str, depths: Mapping[str, int]) -> None:
        """There is a shorter way to these than was known."""
        if depths:
            await self._client.zadd(self._keys.refs(sid), dict(depths), xx=True, lt=True)

    async def states(self, sid: str, item_ids: Sequence[str]) -> list[tuple[str, str] | None]:
        """Status and version at the last visit of each of these; None for those that it does not have."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.zscore(self._keys.refs(sid), item_id)
            pipe.hmget(self._keys.item(item_id), ["status", "visitedVersion"])
        answers = await pipe.execute() if item_ids else []
        rows = zip(answers[::2], answers[1::2], strict=True)
        return [(status or "", version or "") if depth is not None else None for depth, (status, version) in rows]

    async def with_text(self, item_ids: Sequence[str]) -> set[str]:
        """Those of these that can be found: by a document of their own, or by the article that feeds made of them."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hget(self._keys.item(item_id), "articleUid")
            pipe.hexists(self._keys.document(item_id), "content_hash")
        answers = await pipe.execute() if item_ids else []
        rows = [*zip(item_ids, answers[::2], answers[1::2], strict=True)]
        articles = [(item_id, str(uid)) for item_id, uid, _ in rows if uid]
        for _, uid in articles:
            pipe.hget(self._keys.article(uid), "status")
        told = zip(articles, await pipe.execute() if articles else [], strict=True)
        # An article that has ended leaves what a site has of the same page.
        shown = {item_id: status == "success" for (item_id, _), status in told if status is not None}
        return {item_id for item_id, _, has_document in rows if shown.get(item_id, bool(has_document))}

    async def has_unread(self, sid: str) -> bool:
        """Has nobody read one of its items yet?"""
        async for item_ids in scanning.set_members(self._client, self._keys.status(str(Status.PENDING))):
            depths = await self._client.zmscore(self._keys.refs(sid), item_ids)
            if any(depth is not None for depth in depths):
                return True
        return False

    async def error_of(self, item_id: str) -> str:
        """Why an item could not be read; empty if it could."""
        return str(await self._client.hget(self._keys.item(item_id), "errorMessage") or "")

    async def errors_of(self, item_ids: Sequence[str]) -> list[tuple[str, str]]:
        """How people know each of these, and why it could not be read."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), ["displaySource", "errorMessage"])
        rows = zip(item_ids, await pipe.execute() if item_ids else [], strict=True)
        return [(shown or item_id, message or "no reason kept") for item_id, (shown, message) in rows]

    # ── listed and linked ──

    async def name(self, sid: str, item_ids: Sequence[str]) -> None:
        """A listing names these, whether or not links lead to them."""
        if item_ids:
            await self._client.sadd(self._keys.listed(sid), *item_ids)

    async def named(self, sid: str) -> list[str]:
        """What listings have named."""
        return texts(await self._client.smembers(self._keys.listed(sid)))

    async def count_unseen(self, sid: str, before: float) -> int:
        """How many no listing and no link has named since then."""
        return int(await self._client.zcount(self._keys.seen(sid), "-inf", f"({before}"))

    async def unseen(self, sid: str, before: float) -> AsyncIterator[list[str]]:
        """Items that no listing and no link has named since then, in pieces; what was yielded may be removed."""
        offset = 0
        while True:
            words = {"byscore": True, "offset": offset, "num": 500}
            found = texts(await self._client.zrange(self._keys.seen(sid), "-inf", f"({before}", **words))  # type: ignore[arg-type]
            if not found:
                return
            left_before = await self.count_unseen(sid, before)
            yield found
            # Those that were not removed stay where they are; the next piece begins behind them.
            offset += len(found) - (left_before - await self.count_unseen(sid, before))

    async def links_of(self, item_id: str) -> list[str]:
        """Where a page led when it was last read."""
        return sorted(texts(await self._client.smembers(self._keys.links(item_id))))

    async def reach(self, sid: str, pages: Sequence[str], now: float) -> list[PageLinks]:
        """Stamp these pages as seen; what leads on from those that the source has."""
        pipe = self._client.pipeline(transaction=False)
        for page in pages:
            pipe.smembers(self._keys.links(page))
            pipe.hmget(self._keys.item(page), ["aliasOf", "httpCanonicalUrl", "fetchUrl"])
            pipe.zscore(self._keys.refs(sid), page)
        pipe.zadd(self._keys.seen(sid), dict.fromkeys(pages, now), xx=True, gt=True)
        *answers, _ = await pipe.execute()
        rows = zip(answers[::3], answers[1::3], answers[2::3], strict=True)
        return [
            PageLinks(frozenset(links), int(depth), *(name or "" for name in names))
            for links, names, depth in rows
            if depth is not None  # else it is not, or no longer, of this source
        ]

    # ── renames ──

    async def added_since(self, sid: str, since: float, most: int) -> dict[str, str]:
        """By the hash of their bytes, items that were added to the source after that time."""
        names: dict[str, str] = {}
        async for some in self.batches(sid):
            pipe = self._client.pipeline(transaction=False)
            for item_id in some:
                pipe.hmget(self._keys.item(item_id), ["addedTs", "bodyHash"])
            for item_id, (added, body) in zip(some, await pipe.execute(), strict=True):
                if body and field_parsing.timestamp(added) > since and len(names) < most:
                    names[cast(str, body)] = item_id
        return names

    def renamed(self, item: Item, moved_to: str) -> list[Command]:
        """Commands that note where an item's content has gone."""
        return [
            ("HSET", self._keys.item(item.id), "movedTo", moved_to),
            ("HSET", self._keys.item(moved_to), "movedFrom", item.id, "firstSeen", item.first_seen),
            event(self._keys, "item.moved", id=moved_to, moved_from=item.id, source=item.source),
        ]
