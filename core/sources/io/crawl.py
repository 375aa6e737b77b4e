"""Crawl a source: list it, register and visit what is due, remove what is gone, report.

What is listed is registered before anything is visited, so an interrupted run loses nothing: the next one, or the
timer, continues where it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from redis.exceptions import RedisError

from core.errors import FreshetError
from core.models import ListingBatch, ListingEnd
from core.registry.io.commit_buffer import Progress
from core.registry.io.due import RUN_HOLD_SECONDS
from core.registry.io.registrar import Listing
from core.registry.io.runs import COUNTERS
from core.registry.io.visitor import Visitor
from core.runtime import progress
from core.runtime.context import Context
from core.sources.io import crawl_result
from core.sources.io.heartbeat import Heartbeat
from core.sources.io.open_sources import OpenSources
from core.sources.io.reachability import Reachability
from core.sources.io.source import UNCHANGED, Source, describe_end
from core.sources.io.unlisted_items import Unlister
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.commit import Lease, new_token
from core.store.events import event

log = logging.getLogger("refresh")

PATIENCE_SECONDS = 65.0
"""A run waits for items that politeness put off by less than this."""
RETRY_PAUSE_SECONDS = 1.0


class CrawlMode(StrEnum):
    """How much a run visits."""

    SCHEDULED = "scheduled"
    """List, and visit what is due by its own schedule."""
    INCREMENTAL = "incremental"
    """Check everything that is known, by validators and versions."""
    FULL = "full"
    """Read everything again."""


async def crawl_source(
    context: Context,
    sid: str,
    mode: CrawlMode,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], None] | None = None,
) -> Mapping[str, str]:
    """Crawl once; return the run's fields at its end. Another run of the same source is waited for."""
    clock = await ServerClock.ask(context.client)
    started_ts = clock.now()
    open_sources = OpenSources(context, started_ts)
    lease = await _acquire(context, sid, should_stop)
    try:
        source = await open_sources.require(sid)
        run_id = await context.runs.start(sid, source.state.record.domain, str(mode), started_ts)
        visitor = Visitor(context, clock, open_sources, run_id=run_id, watch=watch)
        unlister = Unlister(context, source, open_sources, clock, run_id, started_ts, watch)
        run = CrawlRun(context, source, open_sources, clock, mode, run_id, started_ts, should_stop, visitor, unlister)
        with progress.bar(0, sid) as bar:
            return await run.run(bar)
    finally:
        await context.leases.release(lease)


async def _acquire(context: Context, sid: str, should_stop: Callable[[], bool]) -> Lease:
    """Take the lease without which nobody lists this source."""
    has_logged = False
    while True:
        taken = await context.leases.acquire(f"source_{sid}")
        if taken:
            return taken[0]
        if not has_logged:
            log.info("⏳ Another run has %s; waiting for its end", sid)
            has_logged = True
        if should_stop():
            raise FreshetError(f"{sid} is being crawled by another run.")
        await asyncio.sleep(RETRY_PAUSE_SECONDS)


@dataclass(slots=True)
class CrawlRun:
    """One run over one source."""

    context: Context
    source: Source
    open_sources: OpenSources
    clock: ServerClock
    mode: CrawlMode
    run_id: str
    started_ts: float
    should_stop: Callable[[], bool]
    visitor: Visitor
    unlister: Unlister
    end: ListingEnd | None = None
    """How the listing ended; None while it goes on, and if it was cut short."""

    async def run(self, bar: progress.Bar) -> Mapping[str, str]:
        """List, visit, remove and report."""
        status, message = "stopped", ""
        try:
            async with Heartbeat(self.context, self.clock, self.visitor, self.source.sid, self.run_id, bar).beating():
                await self._list()
                await self._make_due()
                await self._visit_due()
                await self._remove_gone()
                status, message = await self._result()
        except FreshetError as error:
            status, message = "failed", str(error)
            raise
        except (RedisError, OSError):
            status = "failed"
            raise
        finally:
            fields = await cancellation.finish(self._finish(status, message))
        log.info(
            "🏁 %s: %s known, %s visited = %s changed, %s unchanged, %s gone, %s failed, %s not for us",
            *(self.source.sid, *(fields.get(name, "0") for name in COUNTERS)),
        )
        return fields

    # ── list and register ──

    async def _list(self) -> None:
        source, sources = self.source, self.context.sources
        listing = Listing(
            self.source.sid,
            most=source.most_items,
            revives=source.is_listing_evidence,
            believes_versions=source.is_listing_evidence or source.state.lastmod_trust.is_trusted,
            must_exist=True,
        )
        await sources.clear_refused(self.source.sid)
        await sources.clear_notices(self.source.sid)
        async for part in source.list(source.state.memory):
            if isinstance(part, ListingEnd):
                self.end = part
                return
            await self._register(part, listing)
            if self.should_stop():
                return

    async def _register(self, part: ListingBatch, listing: Listing) -> None:
        registered = await self.context.registrar.register(part.refs, listing, self.clock.now())
        await self.context.sources.add_refused(self.source.sid, part.refused)
        for refused in part.refused[:5]:
            log.warning("🚫 %s → %s", refused.reason, refused.url)
        if registered.left_out:
            await self.context.sources.mark_full(self.source.sid, listing.most)
        if self.source.follows_links and part.refs:
            named = [*registered.new, *registered.moved, *registered.known]
            await self.context.source_items.mark_listed(self.source.sid, named)
        await self._count_discovered()

    async def _count_discovered(self) -> None:
        """Count what the source has, and what this run removed from it: that was known, and perhaps visited."""
        known = await self.context.source_items.count(self.source.sid) + self.unlister.unlisted
        fields = {"discovered": str(known), "heartbeat_ts": f"{self.clock.now():.3f}"}
        await self.context.runs.update(self.run_id, fields)

    # ── visit ──

    async def _make_due(self) -> None:
        """Make everything due that the mode asks for; folders and repositories are compared by their listing."""
        is_compared = self.source.is_listing_evidence and self.mode is CrawlMode.INCREMENTAL
        if self.mode is CrawlMode.SCHEDULED or is_compared:
            return
        token, is_full = new_token(), self.mode is CrawlMode.FULL
        async for item_ids in self.context.source_items.batches(self.source.sid):
            now = self.clock.now()
            await self.context.due.make_due(item_ids, now, force=is_full, token=token, since=self.started_ts)

    async def _visit_due(self) -> None:
        """Visit until nothing is due; wait for what politeness put off for a moment."""
        context, batch = self.context, self.context.settings.refresh_batch_items
        while not self.should_stop() and not self.visitor.network.should_stop:
            now = self.clock.now()
            picked = await context.due.pick(self.source.sid, now, batch, RUN_HOLD_SECONDS)
            if picked:
                await self.visitor.visit_many(
                    picked, picked_ts=self.started_ts, via=self.source.sid, is_over=self.should_stop
                )
                await self._count_discovered()
                continue  # picking moved their stamps ahead, so this comes to an end
            next_at = await context.due.next_at(self.source.sid)
            if next_at is None or next_at > now + PATIENCE_SECONDS:
                return
            await asyncio.sleep(min(max(next_at - now, 0.05), RETRY_PAUSE_SECONDS))

    # ── remove ──

    async def _remove_gone(self) -> None:
        """Remove what is no longer there, as far as there is evidence."""
        end = self.end
        await self._count_untouched()
        refusal = ""
        if self.source.follows_links:
            refusal = await self._remove_orphans()
        elif end and end.is_complete:
            refusal = await self.unlister.unlist_unseen(self.started_ts)
        now = self.clock.now()
        memory = end.memory if end and not refusal else None
        next_at = now + self.source.interval_seconds(self.context.settings)
        await self.context.sources.finish_listing(self.source.sid, memory, describe_end(end), now, next_at)

    async def _count_untouched(self) -> None:
        """Count as visited and unchanged what the listing proved to be as it was, though nobody opened it."""
        is_same = self.end is not None and self.end.reason == UNCHANGED
        is_proved = is_same or (self.end is not None and self.end.is_complete)
        if not self.source.is_listing_evidence or not is_proved:
            return
        source_items, seen = self.context.source_items, self.visitor.counts
        missing = 0 if is_same else await source_items.count_unseen(self.source.sid, self.started_ts)
        untouched = await source_items.count(self.source.sid) - missing - (seen["visited"] - seen["gone"])
        if untouched > 0:
            counts = {"visited": untouched, "unchanged": untouched}
            await self.context.leases.run(self.context.runs.counted(self.run_id, counts, self.clock.now()))

    async def _remove_orphans(self) -> str:
        """Remove pages that nothing leads to; visit pages that stored links lead to and nobody registered.

        Returns why nothing was removed, if that would have been too much.
        """
        sources = self.context.sources
        await self.open_sources.keep_notes(self.source)
        current = await sources.read(self.source.sid)
        if current is None or not current.is_dirty or self.should_stop() or not self.end:
            return ""
        while True:
            await sources.begin_link_check(self.source.sid)
            reachability = Reachability(self.context, self.source, self.open_sources, self.clock)
            has_new = await reachability.walk()
            if not has_new or self.should_stop():
                break
            await self._visit_due()
        if self.should_stop() or not await reachability.is_complete():
            return ""
        refusal = await self.unlister.unlist_unseen(reachability.began)
        if not refusal:
            await sources.end_link_check(self.source.sid)
        return refusal

    # ── report ──

    async def _result(self) -> tuple[str, str]:
        """Return how the run ended, and what a person should know about it."""
        details = await self.context.sources.details(self.source.sid)
        notes = crawl_result.notes(self.source, self.end, details)
        if self.should_stop():
            return "stopped", "; ".join(notes)
        if self.visitor.network.is_down:
            return "incomplete", "; ".join(["nearly no host answers: our own network looks down", *notes])
        is_root_due = self.mode is not CrawlMode.SCHEDULED
        trouble = await crawl_result.root_trouble(
            self.context, self.source, self.visitor.counts, is_root_due=is_root_due, since=self.started_ts
        )
        if trouble:
            return trouble[0], "; ".join([trouble[1], *notes])
        if details.get("held"):
            return "held", "; ".join(notes)
        is_incomplete = crawl_result.is_listing_incomplete(self.source, self.end)
        return "incomplete" if is_incomplete else "finished", "; ".join(notes)

    async def _finish(self, status: str, message: str) -> Mapping[str, str]:
        await self._count_discovered()
        fields = await self.context.runs.finish(self.run_id, status, self.clock.now(), message)
        names = ("id", "source", "domain", "mode", "status", *COUNTERS)
        finished = event(self.context.keys, "run.finished", **{name: fields.get(name, "") for name in names})
        await self.context.leases.run([finished])
        return fields
