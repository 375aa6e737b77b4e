"""Forget what somebody wants to be rid of: items, sources and domains, with all that hangs on them.

May be broken off and called again. With `dry_run` nothing is written, and all is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from core.errors import FreshetError
from core.keys import Keys
from core.registry.io.items import ItemStore, LeasedItem
from core.registry.io.purger import PURGED
from core.registry.io.remover import RemovableItem, Remover
from core.registry.io.runs import KEPT as RUNS_KEPT
from core.registry.io.runs import RunStore
from core.registry.record import ARTICLES_SOURCE, iso
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_store import SourceStore
from core.store import connect, scanning
from core.store.commit import Leases
from core.store.connect import Client

log = logging.getLogger("store")

SCAN = 500
BUSY_SECONDS = 70.0
"""Longer than the lease of a worker that died."""
PAUSE_SECONDS = 0.25


@dataclass(slots=True)
class ForgetCounts:
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


class ItemForgetter:
    """Removes; `counts` says how much."""

    def __init__(self, client: Client, keys: Keys, *, dry_run: bool = False) -> None:
        self._client = client
        self._keys = keys
        self._dry_run = dry_run
        self._leases = Leases(client, keys)
        self._items = ItemStore(client, keys)
        self._remover = Remover(client, keys)
        self._sources = SourceStore(client, keys)
        self.counts = ForgetCounts()

    # ── items ──

    async def read(self, item_ids: Sequence[str]) -> list[RemovableItem]:
        """The records of those that exist."""
        return await self._remover.read(item_ids)

    async def items(self, records: Sequence[RemovableItem]) -> None:
        """These items, whoever lists them or works on them, all in one step."""
        sources = {sid for record in records for sid in record.sources}
        self.counts.items += len(records)
        self.counts.texts += sum(record.has_text for record in records)
        self.counts.images += sum(len(record.images or ()) for record in records)
        self.counts.comes_back_by |= sources - {ARTICLES_SOURCE}
        if self._dry_run or not records:
            return
        look_anew = await self._remover.look_anew(sources)
        await self._leases.run([*look_anew, *await self._remover.items(records)])

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
        self.counts.sources += 1
        if self._dry_run:
            await self._items_of(sid)
            await self._tombstones_of(sid)
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
            await self._tombstones_of(sid)
            await self._sources.remove(sid)

    async def _items_of(self, sid: str) -> int:
        seen = 0
        async for names in scanning.zset_members(self._client, self._keys.refs(sid), SCAN):
            records = await self.read(names)
            shared = [record for record in records if set(record.sources) - {sid}]
            await self.items([record for record in records if not set(record.sources) - {sid}])
            await self._unlist([record.id for record in shared], sid)
            await self._strike_off(sid, sorted(set(names) - {record.id for record in records}))
            seen += len(names)
        self.counts.comes_back_by.discard(sid)
        return seen

    async def _tombstones_of(self, sid: str) -> None:
        """Items that the source unlisted before, and that nobody has listed since."""
        for status in PURGED:
            found: dict[str, RemovableItem] = {}
            async for names in scanning.set_members(self._client, self._keys.status(str(status)), SCAN):
                records = await self.read(names)
                found |= {one.id: one for one in records if one.last_source == sid and not one.sources}
            if self._dry_run:
                self.counts.items += len(found)
            else:  # one that another source lists in this very moment stays
                self.counts.items += await self._remover.remove(
                    list(found.values()), dict.fromkeys(found, ("sources", ""))
                )

    async def _unlist(self, item_ids: Sequence[str], sid: str) -> None:
        """Others list them: they only leave this source."""
        self.counts.kept += len(item_ids)
        async for one in self.leased([] if self._dry_run else item_ids):
            await self._leases.commit(one.lease, self._items.unlist(one.item, sid))

    async def _strike_off(self, sid: str, item_ids: Sequence[str]) -> None:
        """Names without a record."""
        if item_ids and not self._dry_run:
            await self._client.zrem(self._keys.refs(sid), *item_ids)

    async def _runs(self, domain_id: str) -> None:
        runs = await RunStore(self._client, self._keys).newest(RUNS_KEPT, 0.0)
        own = [run["id"] for run in runs if run.get("domain") == domain_id]
        self.counts.runs += len(own)
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

    async def leased(self, item_ids: Sequence[str]) -> AsyncIterator[LeasedItem]:
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
