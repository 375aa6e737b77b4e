"""Registry records in Redis: leased for a visit, and the commands that write what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from core.keys import Keys
from core.models import Link
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.registry import field_parsing
from core.registry.article_fields import ARTICLE_BEFORE
from core.registry.decide import Decision
from core.registry.record import ARTICLES_SOURCE, FIELDS, Item, Status, iso, parse_record, parse_status
from core.store.commands import Command, flat
from core.store.connect import Client
from core.store.event_command import event
from core.store.leases import LEASE_SECONDS, Lease, Leases
from core.store.packing import packed_json
from core.store.pipeline import read_many
from core.store.quarantine import Quarantine
from core.urls.normalise import host_of

# KEYS[1] the first record · ARGV: JSON of the ids, beginnings of records and documents, JSON of the fields. Returns for
# each record its values and the content hash of its document. Names and ids are sent as one word each: in one HMGET per
# record they would cost more than everything else in a refresh of unchanged pages.
_READ = """
local records, fields = {}, cjson.decode(ARGV[4])
for _, id in ipairs(cjson.decode(ARGV[1])) do
  local values = redis.call('HMGET', ARGV[2] .. id, unpack(fields))
  values[#fields + 1] = redis.call('HGET', ARGV[3] .. id, 'content_hash')
  records[#records + 1] = values
end
return records
"""

# KEYS[1] the refs of a source · ARGV[1] JSON of ids. Those that the source does not list. ZMSCORE would take each id as
# a word of its own, and make a number of each reply: ten times the client's CPU time.
_STRANGERS = """
local strangers = {}
for _, id in ipairs(cjson.decode(ARGV[1])) do
  if not redis.call('ZSCORE', KEYS[1], id) then strangers[#strangers + 1] = id end
end
return strangers
"""


@dataclass(slots=True)
class LeasedItem:
    """An item that is leased for a visit, with what the visit needs to know."""

    item: Item
    lease: Lease
    deaths: int = 0
    article: Mapping[str, str] = field(default_factory=dict)
    """The stored article of an item that feeds listed; empty if it has none that is alive."""
    is_trusted: bool = True
    """Whether its host's 304 is believed."""
    has_snapshot: bool = False
    link: Link | None = None
    """The link whose article a good answer writes: a new one, or one whose article expired and was forced."""
    via: str = ""
    """The source for which it is visited; empty: for none in particular."""

    @property
    def is_article(self) -> bool:
        """Whether its text is that of an article."""
        return bool(self.article) or self.link is not None

    @property
    def is_first_visit(self) -> bool:
        """Whether this is the first visit of a link."""
        return self.link is not None and self.link.is_first_visit


class ItemStore:
    """Reads records and builds the commands that write them."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._quarantine = Quarantine(client, keys)

    # ── leasing and reading ──

    async def lease(self, leases: Leases, item_ids: Sequence[str], now: float, via: str = "") -> list[LeasedItem]:
        """Lease those of the items that exist and are free, in a few round trips for all of them.

        `via` is the source that made them due: it is added to the sources of an item that lacks it, and what it does
        not list is removed from its due set.
        """
        if via:
            item_ids = await self._listed(item_ids, via)
        taken = await leases.acquire_many(item_ids, iso(now + LEASE_SECONDS))
        ours = [(item_id, *got) for item_id, got in zip(item_ids, taken, strict=True) if got]
        try:
            return await self._read_leased(leases, ours, now, via)
        except BaseException:
            await leases.release_many([lease for _, lease, _ in ours])
            raise

    async def _listed(self, item_ids: Sequence[str], source: str) -> list[str]:
        if not item_ids:
            return []
        reply = await self._client.eval(_STRANGERS, 1, self._keys.refs(source), packed_json(list(item_ids)))
        strangers = frozenset(cast(list[str], reply))
        if strangers:
            await self._client.zrem(self._keys.due(source), *strangers)
        return [item_id for item_id in item_ids if item_id not in strangers]

    async def _read_leased(
        self, leases: Leases, ours: Sequence[tuple[str, Lease, int]], now: float, via: str
    ) -> list[LeasedItem]:
        items = await self.read([item_id for item_id, _, _ in ours], via)
        unknown = [lease for (_, lease, _), item in zip(ours, items, strict=True) if item is None]
        if unknown:
            await leases.release_many(unknown)
        known = [
            LeasedItem(item, lease, deaths, via=via)
            for (_, lease, deaths), item in zip(ours, items, strict=True)
            if item
        ]
        await self._add_details(known, now)
        return known

    async def read(self, item_ids: Sequence[str], via: str = "") -> list[Item | None]:
        """Return the records of these ids; `has_text` is true for those with a document of their own."""
        if not item_ids:
            return []
        keys, fields = self._keys, packed_json(FIELDS)
        words = (keys.item(item_ids[0]), packed_json(list(item_ids)), keys.item(""), keys.document(""), fields)
        answers = cast(list[list[Any]], await self._client.eval(_READ, 1, *words))
        damaged: set[str] = set()
        items = [
            parse_record(item_id, values[:-1], values[-1], via, damaged)
            for item_id, values in zip(item_ids, answers, strict=True)
        ]
        if damaged:
            await self._quarantine.put_aside(map(self._keys.item, sorted(damaged)))
        return items

    async def _add_details(self, leased: Sequence[LeasedItem], now: float) -> None:
        """Add articles, trust in hosts and whether there are snapshots, in one round trip."""
        keys, items = self._keys, [one.item for one in leased]
        host_by_id = {item.id: host_of(item.source) if item.type == "url" else "" for item in items}
        hosts = sorted(set(host_by_id.values()) - {""})
        with_uid = [item for item in items if item.article_uid]
        stale = [item for item in items if item.has_text and item.extractor_version != EXTRACTOR_VERSION]
        trust: list[Command] = [("HGET", keys.trust(host), "untrusted_until") for host in hosts]
        stored: list[Command] = [("HMGET", keys.article(item.article_uid), *ARTICLE_BEFORE) for item in with_uid]
        snapshots: list[Command] = [("EXISTS", keys.snapshot(item.id)) for item in stale]
        replies = iter(await read_many(self._client, trust + stored + snapshots))
        distrusted = {host for host in hosts if field_parsing.timestamp(next(replies)) > now}
        articles = {item.id: await self._article(item, next(replies)) for item in with_uid}
        with_snapshot = {item.id for item in stale if next(replies)}
        for one in leased:
            one.article = articles.get(one.item.id, {})
            one.is_trusted = host_by_id[one.item.id] not in distrusted
            one.has_snapshot = one.item.id in with_snapshot
            if one.article:  # without one, what a site has of the same page is a document
                one.item = replace(one.item, has_text=one.article["status"] == "success")

    async def _article(self, item: Item, values: Sequence[str | None]) -> dict[str, str]:
        """Return a stored article without damaged fields; empty if there is none."""
        if values[0] is None:
            return {}
        stored = {name: value or "" for name, value in zip(ARTICLE_BEFORE, values, strict=True)}
        damaged = await self._quarantine.mend_fields(self._keys.article(item.article_uid), "article", stored)
        return {**stored, **dict.fromkeys(damaged, "")}

    # ── writing ──

    def enlist(self, item: Item, status: Status, blank: Mapping[str, str]) -> list[Command]:
        """Commands that make the page of an article an item of the feeds' source.

        `blank` is the record of an item never visited; it is written only where there is none.
        """
        key = self._keys.item(item.id)
        is_new = item.stored_status == "0"
        first: list[Command] = [("HSET", key, *flat(blank))] if is_new else []
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
        """Return what the record must still say for a visit's result to be written; a missing field counts as `0`."""
        key = self._keys.item(item.id)
        stands = (key, "status", item.stored_status, key, "sources", item.stored_sources)
        return (key, "reindexGeneration", str(generation), *stands)

    async def reread(self, item: Item) -> Item:
        """Return the item with what may have changed during its visit: generation, status, sources, indexed hash."""
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
        """Commands that write a decision: fields, status, next check, event. `DocumentStore` writes the text."""
        key = self._keys.item(item.id)
        fields, sources = decision.fields, ",".join(item.sources)
        if sources != item.stored_sources:  # mostly it is what the record says, and the commit expects that
            fields = {**fields, "sources": sources}
        commands: list[Command] = [("HSET", key, *flat(fields))]
        if decision.status is not item.status:
            commands += [
                ("SREM", self._keys.status(str(item.status)), item.id),
                ("SADD", self._keys.status(str(decision.status)), item.id),
            ]
        commands += self._due(item, decision.next_at)
        if decision.event:
            deleted = {"deleted": "true"} if decision.event == "item.gone" else {}
            commands.append(event(self._keys, decision.event, id=item.id, source=item.source, **deleted))
        return commands

    def unlocked(self, item: Item) -> Command:
        """Return the command that clears the record's note of a visit."""
        return ("HSET", self._keys.item(item.id), "lockedUntil", "")

    def retire(self, item: Item) -> list[Command]:
        """Commands that make an item not due any more and use up a force that nothing can answer."""
        used_up = ("reindexRequested", "false", "processedGeneration", item.generation)
        return [*self.postpone(item, None), ("HSET", self._keys.item(item.id), *used_up)]

    def counted(self, counts: Mapping[str, int]) -> list[Command]:
        """Commands that count visits of items."""
        return [("HINCRBY", self._keys.refresh_stats, name, count) for name, count in counts.items()]

    def postpone(self, item: Item, until: float | None, wait_seconds: float | None = None) -> list[Command]:
        """Commands that make an item due at that time; None: not before a reindex.

        `wait_seconds`: the new interval of the record; without it the interval stays.
        """
        fields = {"lockedUntil": "", "nextCrawlAt": "" if until is None else iso(until)}
        if wait_seconds is not None:
            fields["crawlIntervalSeconds"] = f"{wait_seconds:.0f}"
        return [("HSET", self._keys.item(item.id), *flat(fields)), *self._due(item, until)]

    def _due(self, item: Item, at: float | None) -> list[Command]:
        if at is None:
            return [("ZREM", self._keys.due(source), item.id) for source in item.sources]
        return [("ZADD", self._keys.due(source), f"{at:.3f}", item.id) for source in item.sources]

    def unlist(self, item: Item, source: str) -> list[Command]:
        """Commands that take an item out of a source; others may list it."""
        left = ",".join(name for name in item.sources if name != source)
        places = (self._keys.refs(source), self._keys.due(source), self._keys.seen(source))
        return [
            *(("ZREM", place, item.id) for place in places),
            ("SREM", self._keys.listed(source), item.id),
            ("HSET", self._keys.item(item.id), "sources", left, "lastSource", source, "lockedUntil", ""),
            event(self._keys, "item.listed", id=item.id, source=item.source),
        ]
