"""The items of a source in Redis: by depth, by when they were last listed or linked, and their outlinks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import Item, Status
from core.store import scanning
from core.store.commands import Command
from core.store.connect import Client, texts
from core.store.event_command import event
from core.store.pipeline import read_many
from core.value_class import value_class

AT_ONCE = 1_000


@value_class
class PageLinks:
    """The links of a page of a source, and its other names."""

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
        """Return how many items it has, tombstones too."""
        return int(await self._client.zcard(self._keys.refs(sid)))

    async def count_alive(self, sid: str) -> int:
        """Return how many of them are not gone."""
        gone = await self._client.zintercard(2, [self._keys.refs(sid), self._keys.status(str(Status.GONE))])
        return await self.count(sid) - int(gone)

    async def batches(self, sid: str) -> AsyncIterator[list[str]]:
        """Yield all of them by depth; for a source whose items stay while this goes on."""
        start = 0
        while item_ids := texts(await self._client.zrange(self._keys.refs(sid), start, start + AT_ONCE - 1)):
            yield item_ids
            start += AT_ONCE

    def scan(self, sid: str) -> AsyncIterator[list[str]]:
        """Yield all of them in batches and in no order, some perhaps twice, whatever comes and goes meanwhile."""
        return scanning.zset_members(self._client, self._keys.refs(sid), AT_ONCE)

    async def addresses(self, sid: str) -> AsyncIterator[tuple[str, str]]:
        """Yield all of them, each with the URL or path that is fetched."""
        async for item_ids in self.batches(sid):
            for item_id, (address,) in zip(item_ids, await self._fields(item_ids, "fetchUrl"), strict=True):
                yield item_id, address

    async def depths(self, sid: str, item_ids: Sequence[str]) -> list[int | None]:
        """Return how deep each of these lies; None for those that it does not have."""
        scores = await self._client.zmscore(self._keys.refs(sid), list(item_ids)) if item_ids else []
        return [None if score is None else int(score) for score in scores]

    async def lower_depths(self, sid: str, depths: Mapping[str, int]) -> None:
        """Lower the depth of these: there is a shorter way to them than was known."""
        if depths:
            await self._client.zadd(self._keys.refs(sid), dict(depths), xx=True, lt=True)

    async def states(self, sid: str, item_ids: Sequence[str]) -> list[tuple[str, str] | None]:
        """Return status and version at the last visit of each of these; None for those that it does not have."""
        depths = [("ZSCORE", self._keys.refs(sid), item_id) for item_id in item_ids]
        fields = [("HMGET", self._keys.item(item_id), "status", "visitedVersion") for item_id in item_ids]
        replies = await read_many(self._client, [*depths, *fields])
        rows = zip(replies[: len(item_ids)], replies[len(item_ids) :], strict=True)
        return [(status or "", version or "") if depth is not None else None for depth, (status, version) in rows]

    async def with_text(self, item_ids: Sequence[str]) -> set[str]:
        """Return those that search finds: by a document of their own, or by the article that feeds made of them."""
        uids = [("HGET", self._keys.item(item_id), "articleUid") for item_id in item_ids]
        documents = [("HEXISTS", self._keys.document(item_id), "content_hash") for item_id in item_ids]
        replies = await read_many(self._client, [*uids, *documents])
        articles = [(item_id, uid) for item_id, uid in zip(item_ids, replies, strict=False) if uid]
        statuses = await read_many(self._client, [("HGET", self._keys.article(uid), "status") for _, uid in articles])
        # An article that has expired leaves what a site has of the same page.
        by_article = {
            item_id: status == "success"
            for (item_id, _), status in zip(articles, statuses, strict=True)
            if status is not None
        }
        has_document = zip(item_ids, replies[len(item_ids) :], strict=True)
        return {item_id for item_id, has in has_document if by_article.get(item_id, bool(has))}

    async def has_unread(self, sid: str) -> bool:
        async for item_ids in scanning.set_members(self._client, self._keys.status(str(Status.PENDING))):
            depths = await self._client.zmscore(self._keys.refs(sid), item_ids)
            if any(depth is not None for depth in depths):
                return True
        return False

    async def error_of(self, item_id: str) -> str:
        return str(await self._client.hget(self._keys.item(item_id), "errorMessage") or "")

    async def shown(self, item_ids: Sequence[str]) -> list[str]:
        """Return how people know each of these."""
        rows = zip(item_ids, await self._fields(item_ids, "displaySource"), strict=True)
        return [shown or item_id for item_id, (shown,) in rows]

    async def errors_of(self, item_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return how people know each of these, and why it could not be read."""
        rows = zip(item_ids, await self._fields(item_ids, "displaySource", "errorMessage"), strict=True)
        return [(shown or item_id, message or "no reason kept") for item_id, (shown, message) in rows]

    async def _fields(self, item_ids: Sequence[str], *names: str) -> list[list[str]]:
        """Return these fields of each registry record, in one round trip; empty where there is none."""
        commands = [("HMGET", self._keys.item(item_id), *names) for item_id in item_ids]
        return [[value or "" for value in values] for values in await read_many(self._client, commands)]

    # ── listed and linked ──

    async def mark_listed(self, sid: str, item_ids: Sequence[str]) -> None:
        """Note that a listing names these, whether or not links lead to them."""
        if item_ids:
            await self._client.sadd(self._keys.listed(sid), *item_ids)

    async def listed(self, sid: str) -> list[str]:
        return texts(await self._client.smembers(self._keys.listed(sid)))

    async def count_unseen(self, sid: str, before: float) -> int:
        """Return how many no listing and no link has named since then."""
        return int(await self._client.zcount(self._keys.seen(sid), "-inf", f"({before}"))

    async def unseen(self, sid: str, before: float) -> AsyncIterator[list[str]]:
        """Yield batches of items that no listing and no link has named since then; what was yielded may be removed."""
        offset = 0
        while True:
            item_ids = texts(await self._client.zrangebyscore(self._keys.seen(sid), "-inf", f"({before}", offset, 500))
            if not item_ids:
                return
            left_before = await self.count_unseen(sid, before)
            yield item_ids
            # Those that were not removed stay where they are; the next batch begins behind them.
            offset += len(item_ids) - (left_before - await self.count_unseen(sid, before))

    async def links_of(self, item_id: str) -> list[str]:
        """Return the links of a page as it was last read."""
        return sorted(texts(await self._client.smembers(self._keys.links(item_id))))

    async def mark_reached(self, sid: str, pages: Sequence[str], now: float) -> list[PageLinks]:
        """Stamp these pages as seen; return the links of those that the source has."""
        commands: list[Command] = []
        for page in pages:
            commands.append(("SMEMBERS", self._keys.links(page)))
            commands.append(("HMGET", self._keys.item(page), "aliasOf", "httpCanonicalUrl", "fetchUrl"))
            commands.append(("ZSCORE", self._keys.refs(sid), page))
        stamps = [word for page in pages for word in (now, page)]
        commands.append(("ZADD", self._keys.seen(sid), "XX", "GT", *stamps))
        *replies, _ = await read_many(self._client, commands)
        rows = zip(replies[::3], replies[1::3], replies[2::3], strict=True)
        return [
            PageLinks(frozenset(links), int(depth), *(name or "" for name in names))
            for links, names, depth in rows
            if depth is not None  # else it is not, or no longer, of this source
        ]

    # ── renames ──

    async def added_since(self, sid: str, since: float, most: int) -> dict[str, str]:
        """Return items that were added to the source after that time, by the hash of their bytes."""
        names: dict[str, str] = {}
        async for item_ids in self.batches(sid):
            rows = zip(item_ids, await self._fields(item_ids, "addedTs", "bodyHash"), strict=True)
            for item_id, (added, body_hash) in rows:
                if body_hash and field_parsing.timestamp(added) > since and len(names) < most:
                    names[body_hash] = item_id
        return names

    def record_rename(self, item: Item, moved_to: str) -> list[Command]:
        """Return commands that note under which item the content is found now."""
        return [
            ("HSET", self._keys.item(item.id), "movedTo", moved_to),
            ("HSET", self._keys.item(moved_to), "movedFrom", item.id, "firstSeen", item.first_seen),
            event(self._keys, "item.moved", id=moved_to, moved_from=item.id, source=item.source),
        ]
