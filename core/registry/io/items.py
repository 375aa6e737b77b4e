"""Registry records in Redis: taken for a visit, written as a decision says, found by partition, status and source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

from core.keys import Keys
from core.models import Link
from core.pages.extract import EXTRACTOR_VERSION
from core.registry import field_parsing
from core.registry.decide import Decision
from core.registry.record import ARTICLES_SOURCE, FIELDS, Item, Status, iso, parse_record, parse_status, with_text
from core.registry.stored_fields import ARTICLE_BEFORE
from core.store.commit import LEASE_SECONDS, Command, Lease, Leases
from core.store.connect import Client
from core.store.events import event
from core.store.quarantine import Quarantine
from core.urls.normalise import host_of

# KEYS pairs of record and document · ARGV the fields. For each record its values, and the content hash of its document.
# The fields are sent once: as many HMGETs, their names would cost more than all else in a refresh of unchanged pages.
_READ = """
local found = {}
for i = 1, #KEYS, 2 do
  local values = redis.call('HMGET', KEYS[i], unpack(ARGV))
  values[#ARGV + 1] = redis.call('HGET', KEYS[i + 1], 'content_hash')
  found[#found + 1] = values
end
return found
"""


@dataclass(slots=True)
class LeasedItem:
    """An item that is ours for a visit, and what is known around it."""

    item: Item
    lease: Lease
    deaths: int = 0
    article: Mapping[str, str] = field(default_factory=dict)
    """The stored article of an item that feeds listed; empty if it has none that lives."""
    is_trusted: bool = True
    """Is its host's 304 believed?"""
    has_snapshot: bool = False
    link: Link | None = None
    """The article that a good answer writes: of a new link, or of an ended article that somebody asks for again."""

    @property
    def is_article(self) -> bool:
        """Does its text live in an article?"""
        return bool(self.article) or self.link is not None


class ItemStore:
    """Reads records and says what to write."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._quarantine = Quarantine(client, keys)

    # ── taking ──

    async def lease(self, leases: Leases, item_ids: Sequence[str], now: float, via: str = "") -> list[LeasedItem]:
        """Those of the items that exist and that nobody else visits, in a few round trips for all of them.

        `via` is the source that asked: an item that does not know it yet learns it. What that source does not list
        has no business in its due set, whoever put it there.
        """
        if via:
            item_ids = await self._listed(item_ids, via)
        taken = await leases.acquire_many(item_ids, iso(now + LEASE_SECONDS))
        ours = [(item_id, *got) for item_id, got in zip(item_ids, taken, strict=True) if got]
        try:
            return await self._known(leases, ours, now, via)
        except BaseException:
            await leases.release_many([lease for _, lease, _ in ours])
            raise

    async def _listed(self, item_ids: Sequence[str], source: str) -> list[str]:
        scores = await self._client.zmscore(self._keys.refs(source), list(item_ids)) if item_ids else []
        strangers = [item_id for item_id, score in zip(item_ids, scores, strict=True) if score is None]
        if strangers:
            await self._client.zrem(self._keys.due(source), *strangers)
        return [item_id for item_id, score in zip(item_ids, scores, strict=True) if score is not None]

    async def _known(
        self, leases: Leases, ours: Sequence[tuple[str, Lease, int]], now: float, via: str
    ) -> list[LeasedItem]:
        items = await self.read([item_id for item_id, _, _ in ours], via)
        around = await self._around([item for item in items if item], now)
        unknown = [lease for (_, lease, _), item in zip(ours, items, strict=True) if item is None]
        if unknown:
            await leases.release_many(unknown)
        return [
            _leased(item, lease, deaths, *around[item.id])
            for (_, lease, deaths), item in zip(ours, items, strict=True)
            if item
        ]

    async def read(self, item_ids: Sequence[str], via: str = "") -> list[Item | None]:
        """The records of these ids; `has_text` is true for those with a document of their own."""
        if not item_ids:
            return []
        keys = [key for item_id in item_ids for key in (self._keys.item(item_id), self._keys.document(item_id))]
        answers = cast(list[list[Any]], await self._client.eval(_READ, len(keys), *keys, *FIELDS))
        damaged: set[str] = set()
        items = [
            parse_record(item_id, values[:-1], values[-1], via, damaged)
            for item_id, values in zip(item_ids, answers, strict=True)
        ]
        if damaged:
            await self._quarantine.put_aside(map(self._keys.item, sorted(damaged)))
        return items

    async def _around(self, items: Sequence[Item], now: float) -> dict[str, tuple[dict[str, str], bool, bool]]:
        """By item id: its article, whether its host is trusted, whether there is a snapshot of it."""
        hosts = {item.id: host_of(item.source) if item.type == "url" else "" for item in items}
        named = sorted(filter(None, set(hosts.values())))
        articles = [item for item in items if item.article_uid]
        pipe = self._client.pipeline(transaction=False)
        for host in named:
            pipe.hget(self._keys.trust(host), "untrusted_until")
        for item in articles:
            pipe.hmget(self._keys.article(item.article_uid), ARTICLE_BEFORE)
        stale = [item for item in items if item.has_text and item.extractor_version != EXTRACTOR_VERSION]
        for item in stale:
            pipe.exists(self._keys.snapshot(item.id))
        answers = await pipe.execute() if named or articles or stale else []
        trust = dict(zip(named, answers, strict=False))
        distrusted = {host for host, until in trust.items() if field_parsing.timestamp(until) > now}
        stored = await self._articles(articles, answers[len(named) :])
        kept = dict(zip((item.id for item in stale), answers[len(named) + len(articles) :], strict=True))
        return {
            item.id: (
                stored.get(item.id, {}),
                hosts[item.id] not in distrusted,
                bool(kept.get(item.id)),
            )
            for item in items
        }

    async def _articles(self, items: Sequence[Item], answers: Sequence[Any]) -> dict[str, dict[str, str]]:
        """By item id the stored articles, without what is damaged of them."""
        found = {}
        for item, values in zip(items, answers, strict=False):
            stored = _article(values)
            damaged = await self._quarantine.mend_fields(self._keys.article(item.article_uid), "article", stored)
            found[item.id] = {**stored, **dict.fromkeys(damaged, "")}
        return found

    # ── writing ──

    def enlist(self, item: Item, status: Status, blank: Mapping[str, str]) -> list[Command]:
        """Commands that make the page of an article an item of the feeds' source, whoever else lists it.

        `blank` is the record of something never visited; it is written only where there is none.
        """
        key = self._keys.item(item.id)
        is_new = item.stored_status == "0"
        first: list[Command] = [("HSET", key, *chain.from_iterable(blank.items()))] if is_new else []
        article = ("articleUid", item.article_uid, "articleUrl", item.article_url)
        return [
            *first,
            ("HSET", key, *article, "articleCategories", item.article_categories),
            *(("SREM", self._keys.status(str(other)), item.id) for other in Status if other is not status),
            ("SADD", self._keys.status(str(status)), item.id),
            ("SADD", self._keys.partition(blank["PartitionKey"]), item.id),
            ("ZADD", self._keys.refs(ARTICLES_SOURCE), 0, item.id),
        ]

    def expected(self, item: Item, generation: int) -> tuple[str, ...]:
        """What the record has to say still for a visit's result to be written; a missing field counts as `0`."""
        key = self._keys.item(item.id)
        stands = (key, "status", item.stored_status, key, "sources", item.stored_sources)
        return (key, "reindexGeneration", str(generation), *stands)

    async def moved_on(self, item: Item) -> Item:
        """The item as its record has become while it was visited: generation, status, sources, what search knows."""
        names = ["reindexGeneration", "status", "indexedHash", "sources"]
        generation, status, known, sources = await self._client.hmget(self._keys.item(item.id), names)
        listed = [*filter(None, str(sources or "").split(",")), *item.sources]
        return replace(
            item,
            generation=field_parsing.integer(generation),
            status=parse_status(status) if status else item.status,
            indexed_hash=str(known or ""),
            sources=tuple(dict.fromkeys(listed)),
            stored_status=str(status or "0"),
            stored_sources="0" if sources is None else str(sources),
        )

    def apply(self, item: Item, decision: Decision) -> list[Command]:
        """Commands that write what was decided: fields, status, next check, event. The text is another store's."""
        key = self._keys.item(item.id)
        fields = {**decision.fields, "sources": ",".join(item.sources)}
        commands: list[Command] = [("HSET", key, *chain.from_iterable(fields.items()))]
        if decision.status is not item.status:
            commands += [
                ("SREM", self._keys.status(str(item.status)), item.id),
                ("SADD", self._keys.status(str(decision.status)), item.id),
            ]
        for source in item.sources:
            if decision.next_at is None:
                commands.append(("ZREM", self._keys.due(source), item.id))
            else:
                commands.append(("ZADD", self._keys.due(source), f"{decision.next_at:.3f}", item.id))
        if decision.event:
            is_gone = {"deleted": "true"} if decision.event == "item.gone" else {}
            told = {"id": item.id, "source": item.source, **is_gone}
            commands.append(event(self._keys, decision.event, **told))
        return commands

    def unlocked(self, item: Item) -> Command:
        """The command that says, for people, that nobody visits it."""
        return ("HSET", self._keys.item(item.id), "lockedUntil", "")

    def rest(self, item: Item) -> list[Command]:
        """Not due any more, and a force that nothing can answer is used up."""
        used_up = ("reindexRequested", "false", "processedGeneration", item.generation)
        return [*self.postpone(item, None), ("HSET", self._keys.item(item.id), *used_up)]

    def counted(self, counts: Mapping[str, int]) -> list[Command]:
        """Commands that count visits of items."""
        return [("HINCRBY", self._keys.refresh_stats, name, count) for name, count in counts.items()]

    def postpone(self, item: Item, until: float | None, wait_seconds: float | None = None) -> list[Command]:
        """Not now: due again at that time (None: not before somebody asks), and the record says so.

        `wait_seconds`: how long that is, if somebody asked for it; else the interval stays what it was.
        """
        next_at = "" if until is None else iso(until)
        told = ("lockedUntil", "", "nextCrawlAt", next_at)
        waits = () if wait_seconds is None else ("crawlIntervalSeconds", f"{wait_seconds:.0f}")
        commands: list[Command] = [("HSET", self._keys.item(item.id), *told, *waits)]
        for source in item.sources:
            due = self._keys.due(source)
            commands.append(("ZREM", due, item.id) if until is None else ("ZADD", due, f"{until:.3f}", item.id))
        return commands

    def unlist(self, item: Item, source: str) -> list[Command]:
        """The source has it no more; others may."""
        left = ",".join(name for name in item.sources if name != source)
        places = (self._keys.refs(source), self._keys.due(source), self._keys.seen(source))
        return [
            *(("ZREM", place, item.id) for place in places),
            ("SREM", self._keys.listed(source), item.id),
            ("HSET", self._keys.item(item.id), "sources", left, "lastSource", source, "lockedUntil", ""),
            event(self._keys, "item.listed", id=item.id, source=item.source),
        ]


def _article(values: Sequence[Any]) -> dict[str, str]:
    if values[0] is None:
        return {}
    return {name: value or "" for name, value in zip(ARTICLE_BEFORE, values, strict=True)}


def _leased(
    item: Item, lease: Lease, deaths: int, article: dict[str, str], is_trusted: bool, has_snapshot: bool
) -> LeasedItem:
    if article:  # else its life is over; what a site has of the same page is a document
        item = with_text(item, article.get("status") == "success")
    return LeasedItem(item, lease, deaths, article, is_trusted, has_snapshot)
