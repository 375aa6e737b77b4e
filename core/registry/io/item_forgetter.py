"""Delete items, sources and domains with all their data, because a person asked to forget them.

May be interrupted and called again. With `dry_run` everything is counted and nothing is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field

from core.errors import FreshetError
from core.keys import Keys
from core.registry.io.item_store import ItemStore, LeasedItem
from core.registry.io.periodic_cleanup import PURGED
from core.registry.io.removal_commands import RemovableItem, Remover
from core.registry.record import ARTICLES_SOURCE, iso
from core.runs.io.run_list import RunFilter, RunList
from core.runs.io.run_store import KEPT, RunStore
from core.runs.run import RunStatus, source_scope
from core.sources.io.domain_store import DomainStore, StoredDomain
from core.sources.io.source_store import SourceStore
from core.store import connect, scanning
from core.store.commands import Command
from core.store.connect import Client
from core.store.leases import Leases

log = logging.getLogger("store")

SCAN = 500
BUSY_SECONDS = 70.0
"""Longer than the lease of a worker that died."""
PAUSE_SECONDS = 0.25


@dataclass(slots=True)
class ForgetCounts:
    """How much was removed, or would be."""

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
    files: int = 0
    """Files of a domain on this machine: its domain.json and the local copy of its sources."""
    comes_back_by: set[str] = field(default_factory=set)
    """Sources that may still list it or link to it."""


def removal_counts(counts: ForgetCounts) -> dict[str, int]:
    """Return the numbers alone, by what they count."""
    return {name: value for name, value in asdict(counts).items() if isinstance(value, int)}


class ItemForgetter:
    """Removes items and counts them."""

    def __init__(self, client: Client, keys: Keys, *, dry_run: bool = False) -> None:
        self.client = client
        self.keys = keys
        self.dry_run = dry_run
        self.leases = Leases(client, keys)
        self.remover = Remover(client, keys)
        self.counts = ForgetCounts()
        self._items = ItemStore(client, keys)

    # ── items ──

    async def items(self, records: Sequence[RemovableItem], also: Sequence[Command] = ()) -> None:
        """Remove these items in one step, also those that are listed or being visited; `also` in the same step."""
        sources = {sid for record in records for sid in record.sources}
        self.counts.items += len(records)
        self.counts.texts += sum(record.has_text for record in records)
        self.counts.images += sum(len(record.images or ()) for record in records)
        self.counts.comes_back_by |= sources - {ARTICLES_SOURCE}
        if records and not self.dry_run:
            removed = [*await self.remover.relist(sources), *await self.remover.items(records)]
            await self.leases.run([*also, *removed])

    # ── sources and domains ──

    async def domain(self, domain: StoredDomain) -> None:
        """Remove a domain with its sources, their items and their runs."""
        for sid in domain.sources:
            await self.source(sid)
        await self._runs(domain.id)
        if not self.dry_run:
            await DomainStore(self.client, self.keys).remove(domain.id)

    async def source(self, sid: str) -> None:
        """Remove a source with all items that no other source lists."""
        self.counts.sources += 1
        if self.dry_run:
            await self._items_of(sid)
            await self._tombstones_of(sid)
            return
        async with self.hold(f"source_{sid}", f"Another run has {sid}; waiting for its end"):
            # First the source itself: then no timer picks its items and no worker opens it.
            async with self.client.pipeline(transaction=True) as pipe:
                pipe.delete(self.keys.source(sid), self.keys.due(sid))
                pipe.srem(self.keys.sources, sid)
                pipe.zrem(self.keys.sources_due, sid)
                await pipe.execute()
            while await self._items_of(sid):  # a worker may have registered more meanwhile
                pass
            await self._tombstones_of(sid)
            await SourceStore(self.client, self.keys).remove(sid)
            await self._end_run(sid)

    async def _end_run(self, sid: str) -> None:
        """End the run of a source that is gone: it could not be continued."""
        runs, now = RunStore(self.client, self.keys), await connect.now(self.client)
        if run := await runs.open_run(source_scope(sid), now):
            await runs.finish(run, RunStatus.CANCELLED, now, {"message": "Its source was removed."})
        await self.client.hdel(self.keys.runs_paused, source_scope(sid))

    async def _items_of(self, sid: str) -> int:
        seen = 0
        async for names in scanning.zset_members(self.client, self.keys.refs(sid), SCAN):
            records = await self.remover.read(names)
            shared = [record for record in records if set(record.sources) - {sid}]
            await self.items([record for record in records if not set(record.sources) - {sid}])
            self.counts.kept += len(shared)
            async for one in self.leased([] if self.dry_run else [record.id for record in shared]):
                await self.leases.commit(one.lease, self._items.unlist(one.item, sid))
            without_record = sorted(set(names) - {record.id for record in records})
            if without_record and not self.dry_run:
                await self.client.zrem(self.keys.refs(sid), *without_record)
            seen += len(names)
        self.counts.comes_back_by.discard(sid)
        return seen

    async def _tombstones_of(self, sid: str) -> None:
        """Remove items that the source unlisted before and that no source has listed since."""
        for status in PURGED:
            tombstones: dict[str, RemovableItem] = {}
            async for names in scanning.set_members(self.client, self.keys.status(str(status)), SCAN):
                records = await self.remover.read(names)
                tombstones |= {one.id: one for one in records if one.last_source == sid and not one.sources}
            if self.dry_run:
                self.counts.items += len(tombstones)
            else:  # one that another source lists meanwhile stays
                no_sources = dict.fromkeys(tombstones, "")
                self.counts.items += await self.remover.remove(list(tombstones.values()), "sources", no_sources)

    async def _runs(self, domain_id: str) -> None:
        runs = (await RunList(self.client, self.keys).page(RunFilter(domain=domain_id), 0.0, KEPT)).runs
        self.counts.runs += len(runs)
        if not self.dry_run:
            await RunStore(self.client, self.keys).forget_domain(domain_id, runs)

    # ── beside workers ──

    @contextlib.asynccontextmanager
    async def hold(self, name: str, waiting: str) -> AsyncIterator[None]:
        """Hold a lease meanwhile; wait for it if another worker has it."""
        taken = await self.leases.acquire(name)
        if taken is None:
            log.warning("⏳ %s", waiting)
        while taken is None:
            await asyncio.sleep(PAUSE_SECONDS)
            taken = await self.leases.acquire(name)
        async with self.leases.keep_alive():
            try:
                yield
            finally:
                await self.leases.release(taken[0])

    async def leased(self, item_ids: Sequence[str]) -> AsyncIterator[LeasedItem]:
        """Yield each item as soon as no worker visits it."""
        left, waited = list(item_ids), 0.0
        while left:
            now = await connect.now(self.client)
            got = await self._items.lease(self.leases, left, now)
            for one in got:
                yield one
            names = {one.item.id for one in got}
            left = [record.id for record in await self.remover.read(left) if record.id not in names]
            if left and waited > BUSY_SECONDS:
                raise FreshetError(f"{left[0]} is being visited since {iso(now - waited)}. Try again later.")
            if left:
                await asyncio.sleep(PAUSE_SECONDS)
                waited += PAUSE_SECONDS
