"""Dry-run a crawl of a source: list it and compare; visit nothing and write nothing to the registry.

Listing a folder sends no request. Listing a site or a repository sends the same few requests as a crawl would, and the
fetcher keeps its politeness in Redis as always: gates and robots.txt. All counts are of this moment: pages that only
links of unread pages lead to are not known before those are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from core.models import FetchRequest, FetchResult, ListingEnd, Ref
from core.net.fetcher import BodySlot, Fetcher
from core.registry.io.loss_guard import PossibleLoss, count_possible_loss
from core.registry.io.registrar import item_id_of
from core.registry.record import Status
from core.runtime.context import Context
from core.sources.io.crawl import CrawlMode
from core.sources.io.dry_run_report import MOST_NAMED, DryRunReport
from core.sources.io.open_sources import OpenSources
from core.sources.io.source import Source, describe_end
from core.sources.loss_limit import LossLimit
from core.store import connect

BATCH_ITEMS = 1_000


async def dry_run_source(context: Context, sid: str, mode: CrawlMode) -> DryRunReport:
    """Compare what the source has with what is known of it."""
    fetcher = _CountingFetcher(context.fetcher)
    now = await connect.now(context.client)
    source = await OpenSources(replace(context, fetcher=cast(Fetcher, fetcher)), now).require(sid)
    losses, limit = context.sources.losses, LossLimit.of(context.settings)
    report = await source.planned_changes(str(mode))
    if report is not None:  # it compares its own copies; the loss guard is asked before they are removed
        known = report.added + report.changed + report.unchanged + report.removed
        if report.removed and source.state.loss_allowed_until <= now:
            lost, _ = await losses.count(sid, now)
            report.held = limit.refusal(report.removed, lost, known)
        return report
    comparison = _Comparison(context, source, now)
    report = await comparison.run()
    report.listing_requests = fetcher.count
    if not source.needs_no_requests:
        is_compared = source.is_listing_evidence and mode is not CrawlMode.FULL
        report.visits = report.added + report.changed + (0 if is_compared else report.unchanged)
    loss = comparison.possible_loss
    if loss.texts and source.state.loss_allowed_until <= now:
        lost, left = await losses.count(sid, now)
        report.held = limit.refusal(loss.texts, lost, left - loss.empty)
    return report


class _Comparison:
    def __init__(self, context: Context, source: Source, now: float) -> None:
        self._source_items = context.source_items
        self._context = context
        self._source = source
        self._now = now
        self._report = DryRunReport(source)
        self._listed: set[int] = set()
        """What the listing has named; numbers instead of ids take a third of the memory."""
        self._room = 0
        """How many more items the source may have."""
        self.possible_loss = PossibleLoss()
        """What a complete listing lacks, as the deletion guard counts it."""

    async def run(self) -> DryRunReport:
        self._room = self._source.most_items - await self._source_items.count_alive(self._source.sid)
        end: ListingEnd | None = None
        async for part in self._source.list(self._source.state.memory):
            if isinstance(part, ListingEnd):
                end = part
                break
            self._report.refused += len(part.refused)
            for one in part.refused[:MOST_NAMED]:
                self._report.name("refused", f"{one.url} ({one.reason})")
            for start in range(0, len(part.refs), BATCH_ITEMS):
                await self._compare(part.refs[start : start + BATCH_ITEMS])
        self._report.how = describe_end(end)
        await self._compare_unlisted(is_complete=bool(end and end.is_complete))
        return self._report

    async def _compare(self, refs: Sequence[Ref]) -> None:
        by_id = {item_id: ref for ref in refs if hash(item_id := item_id_of(ref)) not in self._listed}
        self._listed.update(map(hash, by_id))
        known = await self._source_items.states(self._source.sid, list(by_id))
        is_evidence = self._source.is_listing_evidence
        believes_versions = is_evidence or self._source.state.lastmod_trust.is_trusted
        for ref, state in zip(by_id.values(), known, strict=True):
            if state is None:
                if self._room > 0:
                    self._report.added += 1
                    self._report.name("added", ref.address)
                self._room -= 1
            else:
                status, visited_version = state
                has_new_version = bool(ref.version) and ref.version != visited_version
                is_back = is_evidence and status == Status.GONE
                # Would the listing alone make it due?
                group = self._count(status, is_back or (has_new_version and believes_versions))
                if group != "unchanged":
                    self._report.name(group, ref.address)

    def _count(self, status: str, has_moved: bool) -> str:
        if status == Status.PENDING:
            self._report.added += 1
            return "added"
        if has_moved:
            self._report.changed += 1
            return "changed"
        self._report.unchanged += 1
        return "unchanged"

    async def _compare_unlisted(self, *, is_complete: bool) -> None:
        """Count what is known and was not listed: gone if the listing was complete, else as it was."""
        sid = self._source.sid
        async for item_ids in self._source_items.scan(sid):
            left = [item_id for item_id in item_ids if hash(item_id) not in self._listed]
            self._listed.update(map(hash, left))  # a scan may name one twice
            if is_complete and self._source.is_listing_evidence:
                self.possible_loss += await count_possible_loss(self._context, sid, left, self._now)
                self._report.removed += len(left)
                await self._name("removed", left)
                continue
            states = zip(left, await self._source_items.states(sid, left), strict=True)
            known = [(item_id, self._count(state[0], has_moved=False)) for item_id, state in states if state]
            await self._name("added", [item_id for item_id, group in known if group == "added"])

    async def _name(self, group: str, item_ids: Sequence[str]) -> None:
        room = MOST_NAMED - len(self._report.names.get(group, ()))
        for shown in await self._source_items.shown(item_ids[:room]):
            self._report.name(group, shown)


class _CountingFetcher:
    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self.count = 0

    async def fetch(self, request: FetchRequest, slot: BodySlot | None = None) -> FetchResult:
        self.count += 1
        return await self._fetcher.fetch(request, slot)

    async def sitemaps_of(self, origin: str) -> Sequence[str]:
        self.count += 1  # robots.txt, where it is not remembered
        return await self._fetcher.sitemaps_of(origin)

    async def hold_off(self, url: str, seconds: float, why: str) -> None:
        await self._fetcher.hold_off(url, seconds, why)
