"""Forget what somebody wants to be rid of: items, sources and domains, with all that hangs on them.

May be broken off and called again. With `dry_run` nothing is written, and all is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence, Set
from dataclasses import dataclass, field

from core.errors import FreshetError
from core.keys import Keys
from core.registry import ARTICLES_SOURCE, Status, iso
from core.stores import connect
from core.stores.chunk_removal import ChunkRemoval
from core.stores.commit import Command, Leases, batched
from core.stores.connect import Client, texts
from core.stores.domains import DomainStore, StoredDomain
from core.stores.events import event
from core.stores.items import ItemStore, Leased
from core.stores.runs import KEPT as RUNS_KEPT
from core.stores.runs import RunStore
from core.stores.sources import LossLimit, SourceStore

log = logging.getLogger("store")

SCAN = 500
BUSY_SECONDS = 70.0
"""Longer than the lease of a worker that died."""
PAUSE_SECONDS = 0.25


@dataclass(slots=True)
class Toll:
    """What goes, or would."""

    sources: int = 0
    items: int = 0
    kept: int = 0
    """Items that stay: other sources list them."""
    texts: int = 0
    images: int = 0
    articles: int = 0
    aliases: int = 0
    links: int = 0
    runs: int = 0
    comes_back_by: set[str] = field(default_factory=set)
    """Sources that may list or link to it still."""


@dataclass(frozen=True, slots=True)
class Record:
    """What forgetting an item has to know of it."""

    id: str
    source: str
    sources: tuple[str, ...]
    partition: str
    article_uid: str
    has_text: bool
    images: tuple[str, ...]
    """Ids of its images, its children."""


class Forgetting:
    """Removes; `toll` says how much."""

    def __init__(self, client: Client, keys: Keys, *, dry_run: bool = False) -> None:
        self._client = client
        self._keys = keys
        self._dry_run = dry_run
        self._leases = Leases(client, keys)
        self._items = ItemStore(client, keys)
        self._chunks = ChunkRemoval(client, keys)
        self._sources = SourceStore(client, keys, LossLimit())
        self.toll = Toll()

    # ── items ──

    async def read(self, item_ids: Sequence[str]) -> list[Record]:
        """The records of those that exist."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.hmget(self._keys.item(item_id), ["normalizedSource", "sources", "PartitionKey", "articleUid"])
            pipe.hexists(self._keys.document(item_id), "content_hash")
            pipe.smembers(self._keys.images(item_id))
        answers = await pipe.execute() if item_ids else []
        rows = zip(item_ids, answers[::3], answers[1::3], answers[2::3], strict=True)
        return [
            Record(item_id, source, _listed_by(sources), partition or "", uid or "", bool(has_text), tuple(images))
            for item_id, (source, sources, partition, uid), has_text, images in rows
            if source is not None
        ]

    async def items(self, records: Sequence[Record], *, had_article: bool = False) -> None:
        """These items, whoever lists them, all in one step; `had_article`: their texts were articles."""
        with_text = [record for record in records if record.has_text or had_article]
        sources = {sid for record in records for sid in record.sources}
        self.toll.items += len(records)
        self.toll.texts += len(with_text)
        self.toll.images += sum(len(record.images) for record in records)
        self.toll.comes_back_by |= sources - {ARTICLES_SOURCE}
        if self._dry_run or not records:
            return
        told = [event(self._keys, "item.gone", id=one.id, source=one.source, deleted="true") for one in with_text]
        look_anew = await self._look_anew(sorted(sources))
        chunks = [command for record in records for command in await self._chunks.of(record.id)]
        await self._leases.run([*told, *look_anew, *chunks, *self._without(records, sources)])

    def _without(self, records: Sequence[Record], sources: Set[str]) -> list[Command]:
        """Commands that remove records from everywhere, as `ItemStore.forget` does with one."""
        keys, names = self._keys, [record.id for record in records]
        # The leases too: whoever visits them now is refused, and cannot bring back half of them.
        families = (
            *(keys.item, keys.document, keys.links, keys.images, keys.snapshot),
            *(keys.crashes, keys.lease, keys.aliases),
        )
        commands = batched(("DEL",), [family(name) for family in families for name in names])
        commands += batched(("DEL",), [keys.item(child) for record in records for child in record.images])
        for status in Status:
            commands += batched(("SREM", keys.status(str(status))), names)
        for partition in sorted({record.partition for record in records}):
            own = [record.id for record in records if record.partition == partition]
            commands += batched(("SREM", keys.partition(partition)), own)
        for sid in sorted({ARTICLES_SOURCE, *sources}):
            for place in (keys.refs, keys.due, keys.seen):
                commands += batched(("ZREM", place(sid)), names)
            commands += batched(("SREM", keys.listed(sid)), names)
        return commands

    async def _look_anew(self, sources: Sequence[str]) -> list[Command]:
        """Their sources forget what they remember of their last listing: what is still there, they find again."""
        known = [sid for sid in sources if await self._client.hexists(self._keys.source(sid), "config")]
        return [("HSET", self._keys.source(sid), "links_dirty", "1", "memory", "{}") for sid in known]

    # ── sources and domains ──

    async def domain(self, domain: StoredDomain) -> None:
        """A domain with its sources, their items and their runs."""
        for sid in domain.sources:
            await self.source(sid)
        await self._runs(domain.id)
        if not self._dry_run:
            await DomainStore(self._client, self._keys).remove(domain.id)

    async def source(self, sid: str) -> None:
        """A source with all items that no other source lists."""
        self.toll.sources += 1
        if self._dry_run:
            await self._items_of(sid)
            return
        async with self.hold(f"source_{sid}", f"Another run has {sid}; waiting for its end"):
            # First it is no source any more: no timer picks its items, and no worker opens it.
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(self._keys.source(sid), self._keys.due(sid))
                pipe.srem(self._keys.sources, sid)
                pipe.zrem(self._keys.sources_due, sid)
                await pipe.execute()
            while await self._items_of(sid):  # a worker at work may have registered some more
                pass
            await self._sources.remove(sid)

    async def _items_of(self, sid: str) -> int:
        seen, cursor = 0, 0
        while True:
            cursor, pairs = await self._client.zscan(self._keys.refs(sid), cursor=cursor, count=SCAN)
            names = texts(member for member, _ in pairs)
            records = await self.read(names)
            shared = [record for record in records if set(record.sources) - {sid}]
            await self.items([record for record in records if not set(record.sources) - {sid}])
            await self._unlist([record.id for record in shared], sid)
            await self._strike_off(sid, sorted(set(names) - {record.id for record in records}))
            seen += len(names)
            if not int(cursor):
                self.toll.comes_back_by.discard(sid)
                return seen

    async def _unlist(self, item_ids: Sequence[str], sid: str) -> None:
        """Others list them: they only leave this source."""
        self.toll.kept += len(item_ids)
        async for one in self.leased([] if self._dry_run else item_ids):
            await self._leases.commit(one.lease, self._items.unlist(one.item, sid))

    async def _strike_off(self, sid: str, item_ids: Sequence[str]) -> None:
        """Names without a record."""
        if item_ids and not self._dry_run:
            await self._client.zrem(self._keys.refs(sid), *item_ids)

    async def _runs(self, domain_id: str) -> None:
        runs = await RunStore(self._client, self._keys).newest(RUNS_KEPT, 0.0)
        own = [run["id"] for run in runs if run.get("domain") == domain_id]
        self.toll.runs += len(own)
        if own and not self._dry_run:
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(*map(self._keys.run, own))
                pipe.zrem(self._keys.runs, *own)
                await pipe.execute()

    # ── beside workers ──

    @contextlib.asynccontextmanager
    async def hold(self, name: str, waiting: str) -> AsyncIterator[None]:
        """Nobody else works on it meanwhile; who does now is waited for."""
        taken = await self._leases.acquire(name)
        if taken is None:
            log.warning("⏳ %s", waiting)
        while taken is None:
            await asyncio.sleep(PAUSE_SECONDS)
            taken = await self._leases.acquire(name)
        async with self._leases.keep_alive():
            try:
                yield
            finally:
                await self._leases.release(taken[0])

    async def leased(self, item_ids: Sequence[str]) -> AsyncIterator[Leased]:
        """Each of the items as soon as nobody else visits it."""
        left, waited = list(item_ids), 0.0
        while left:
            now = await connect.now(self._client)
            got = await self._items.lease(self._leases, left, now)
            for one in got:
                yield one
            names = {one.item.id for one in got}
            left = [record.id for record in await self.read(left) if record.id not in names]
            if left and waited > BUSY_SECONDS:
                raise FreshetError(f"{left[0]} is being visited since {iso(now - waited)}. Try again later.")
            if left:
                await asyncio.sleep(PAUSE_SECONDS)
                waited += PAUSE_SECONDS


def _listed_by(sources: str | None) -> tuple[str, ...]:
    # A record without the field was written before there were other sources than feeds.
    return (ARTICLES_SOURCE,) if sources is None else tuple(filter(None, sources.split(",")))
