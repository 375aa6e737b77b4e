"""One pass over a source: list it, register and visit what is due, remove what is gone, report.

A source that keeps copies of its own brings them up to date first, and its vector store last (`crawl_steps`).

Everything that a pass must know to go on in another process is in its run: when it began, how its listing ended,
whether its items were made due, and its counters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from core.models import ListingEnd
from core.outputs.vector_store.crawl_report import CrawledSource
from core.registry.io.batch_visitor import Visitor
from core.registry.io.commit_buffer import Progress
from core.registry.io.due import HOLD_SECONDS, RUN_HOLD_SECONDS
from core.registry.io.loss_guard import LossGuard
from core.runs.io.receipts import receipt_of
from core.runs.io.run_tally import RunTally
from core.runs.io.run_worker import RunWorker
from core.runs.run import COUNTERS, Run, RunPhase, RunStatus
from core.runs.run_request import RunRequest
from core.runtime import interruptible, progress
from core.runtime.context import Context
from core.sources.io import crawl_result
from core.sources.io.crawl_archive import archive_crawl, ended_as
from core.sources.io.crawl_listing import CrawlListing
from core.sources.io.crawl_progress import CrawlProgress
from core.sources.io.crawl_runs import CrawlMode
from core.sources.io.crawl_steps import CrawlSteps
from core.sources.io.open_sources import OpenSources
from core.sources.io.reachability import Reachability
from core.sources.io.source import UNCHANGED, Source, describe_end
from core.sources.io.unlisted_items import Unlister
from core.store.clock import ServerClock

log = logging.getLogger("refresh")

PATIENCE_SECONDS = 65.0
"""A run waits for items that politeness put off by less than this."""
CONTINUED_SECONDS = RUN_HOLD_SECONDS + 5.0
"""One that is continued waits for what a dead worker had picked."""
RETRY_PAUSE_SECONDS = 1.0
BEGUN, MADE_DUE, UNTOUCHED = "begun", "made_due", "untouched"
"""Fields of a run: it was begun, its items were made due, unopened items were counted. Neither is done twice."""
_SIGNS = {RunRequest.PAUSE: ("⏸️", ", paused"), RunRequest.CANCEL: ("⏹️", ", cancelled")}
"""How the last line of a crawl begins that someone asked to stop."""


async def crawl_once(
    context: Context,
    clock: ServerClock,
    worker: RunWorker,
    source: Source,
    open_sources: OpenSources,
    should_stop: Callable[[], bool],
    watch: Callable[[Progress], None] | None,
) -> None:
    """Work on a run that this worker has joined, and end it, unless someone stops or pauses it."""
    run = await context.runs.require(worker.run.id, clock.now())
    tally = RunTally(context.keys, run.id, worker.failed_items, run.domain)
    visitor = Visitor(context, clock, open_sources, tally=tally, is_run=True, watch=watch)
    unlister = Unlister(context, source, open_sources, clock, tally, run.started_ts, watch)
    with progress.bar(0, source.sid) as bar:
        shown = CrawlProgress(context, visitor, source.sid, run, bar)
        worker.in_flight, worker.tell = lambda: visitor.in_flight, shown.tell
        guard = LossGuard(context, open_sources, clock, is_run=True)
        is_over = lambda: should_stop() or worker.should_stop()  # noqa: E731
        steps = CrawlSteps(context, source, clock, run, guard, shown, is_over)
        crawl = CrawlPass(
            context, source, open_sources, clock, run, worker, should_stop, visitor, unlister, tally, shown, steps
        )
        async with worker.whole_pass():
            await crawl.run()


@dataclass(slots=True)
class CrawlPass:
    """One process's pass over one source."""

    context: Context
    source: Source
    open_sources: OpenSources
    clock: ServerClock
    joined: Run
    """The run as it was when this process joined it."""
    worker: RunWorker
    is_stopped: Callable[[], bool]
    visitor: Visitor
    unlister: Unlister
    tally: RunTally
    shown: CrawlProgress
    steps: CrawlSteps
    is_continued: bool = False
    end: ListingEnd | None = None
    """How the listing ended; None before that, and if it was cut short."""

    @property
    def sid(self) -> str:
        return self.source.sid

    @property
    def mode(self) -> CrawlMode:
        return CrawlMode.of(self.joined)

    @property
    def began(self) -> float:
        """When the run was requested: what was visited since then need not be visited for it."""
        return self.joined.created_ts

    def should_stop(self) -> bool:
        """Return whether the work should end here: by a signal, by time, or because the run is paused or cancelled."""
        return self.is_stopped() or self.worker.should_stop()

    @property
    def _listing(self) -> CrawlListing:
        return CrawlListing(self.context, self.source, self.clock, self.joined, self.should_stop)

    async def run(self) -> None:
        await self._begin()
        if await self.steps.prepare() and self.steps.lists:
            await self._read_all()
        elif not self.should_stop():
            self.end = ListingEnd(is_complete=not self.steps.problem, reason=self.steps.problem)
            if self.steps.problem:
                await self._finish_listing()
        await self._report()

    async def _read_all(self) -> None:
        self.end = await self._listing.register_all()
        await self._make_due()
        await self._visit_due()
        self.shown.are_visits_done = True
        if not self.should_stop():
            self.shown.phase = RunPhase.PROCESSING
            await self._remove_gone()
        if not self.should_stop():
            await self.steps.publish()

    async def _begin(self) -> None:
        """Log where a run is continued; a new one removes the notices of earlier runs."""
        sources, runs, run = self.context.sources, self.context.runs, self.joined
        self.is_continued = bool((await runs.fields(run.id)).get(BEGUN))
        if self.is_continued:
            await self._take_back()
            await self.context.state_saver.log_resumed(run.domain, self.clock.now())
            return
        await sources.clear_refused(self.sid)
        await sources.clear_notices(self.sid)
        await runs.update(run.id, {BEGUN: "1"})

    async def _take_back(self) -> int:
        """Make due at once what was picked and is not visited: by earlier workers, or for jobs that still wait."""
        dead = await self.context.runs.workers.dead(self.joined.id)
        prefixes = [worker.lease_prefix for worker in dead if worker.lease_prefix]
        self.steps.dead_leases.update(prefixes)
        taken = await self.context.due.take_back(self.sid, self.clock.now(), HOLD_SECONDS, prefixes)
        if dead:
            root = (await self.context.items.read([self.source.state.root_id]))[0]
            await self.context.fetcher.forget_requests(root.fetch_url if root else "", prefixes)
        for worker in dead:
            await self.context.runs.workers.drop(self.joined.id, worker.token)
        return taken

    # ── visit ──

    async def _make_due(self) -> None:
        """Make everything due that the mode asks for; folders and repositories are compared by their listing."""
        runs, run = self.context.runs, self.joined
        is_compared = self.source.is_listing_evidence and self.mode is CrawlMode.INCREMENTAL
        if self.mode is CrawlMode.SCHEDULED or is_compared or (await runs.fields(run.id)).get(MADE_DUE):
            return
        async for item_ids in self.context.source_items.batches(self.sid):
            if self.should_stop():
                return
            now, is_full = self.clock.now(), self.mode is CrawlMode.FULL
            await self.context.due.make_due(item_ids, now, force=is_full, token=run.id, since=self.began)
        await runs.update(run.id, {MADE_DUE: "1"})

    async def _visit_due(self) -> None:
        """Visit until nothing is due; wait for what politeness put off for a moment, and for other workers."""
        context, batch = self.context, self.context.settings.refresh_batch_items
        while not self.should_stop() and not self.visitor.network.should_stop:
            now = self.clock.now()
            picked = await context.due.pick(self.sid, now, batch, RUN_HOLD_SECONDS)
            if picked:
                await self.visitor.visit_many(picked, picked_ts=self.began, via=self.sid, is_over=self.should_stop)
                await self._listing.count_discovered()
                continue  # picking moved their stamps ahead, so this comes to an end
            if await self._take_back():
                continue
            next_at = await context.due.next_at(self.sid)
            wait, patience = RETRY_PAUSE_SECONDS, CONTINUED_SECONDS if self.is_continued else PATIENCE_SECONDS
            if next_at is None or next_at > now + patience:
                if not await context.runs.workers.count_others(self.joined.id, self.worker.token, now):
                    return
            else:
                wait = min(max(next_at - now, 0.05), wait)
            await interruptible.sleep(wait)

    # ── remove ──

    async def _remove_gone(self) -> None:
        """Remove what is no longer there, as far as there is evidence."""
        end = self.end
        await self._count_untouched()
        refusal = ""
        if self.source.follows_links:
            refusal = await self._remove_orphans()
        elif end and end.is_complete:
            refusal = await self.unlister.unlist_unseen(self.began, self.steps.dead_leases)
        if not self.should_stop():  # else the run is continued from here
            await self._finish_listing(end.memory if end and not refusal else None)

    async def _finish_listing(self, memory: Mapping[str, str] | None = None) -> None:
        """Note how the listing ended, and when the next one is due."""
        now = self.clock.now()
        next_at = now + self.source.interval_seconds(self.context.settings)
        await self.context.sources.finish_listing(self.sid, memory, describe_end(self.end), now, next_at)

    async def _count_untouched(self) -> None:
        """Count items as visited and unchanged that the listing proved to be so, without a visit."""
        is_same = self.end is not None and self.end.reason == UNCHANGED
        is_proved = is_same or (self.end is not None and self.end.is_complete)
        fields = await self.context.runs.fields(self.joined.id)
        if not self.source.is_listing_evidence or not is_proved or fields.get(UNTOUCHED):
            return
        source_items, seen = self.context.source_items, await self._counts()
        missing = 0 if is_same else await source_items.count_unseen(self.sid, self.began)
        untouched = await source_items.count(self.sid) - missing - (seen["visited"] - seen["gone"])
        if untouched > 0:
            counts = {"visited": untouched, "unchanged": untouched, UNTOUCHED: untouched}
            await self.context.leases.run(self.tally.counted(counts))

    async def _remove_orphans(self) -> str:
        """Remove pages that nothing leads to; visit pages that stored links lead to and that were not registered.

        Returns why nothing was removed, if that would have been too much.
        """
        sources = self.context.sources
        await self.open_sources.keep_notes(self.source)
        current = await sources.read(self.sid)
        if current is None or not current.is_dirty or self.should_stop() or not self.end:
            return ""
        while True:
            await sources.begin_link_check(self.sid)
            reachability = Reachability(self.context, self.source, self.open_sources, self.clock)
            has_new = await reachability.walk()
            if not has_new or self.should_stop():
                break
            await self._visit_due()
        # With one page unread that could lead on, nothing is known to be an orphan.
        if self.should_stop() or await self.context.source_items.has_unread(self.sid):
            return ""
        refusal = await self.unlister.unlist_unseen(reachability.began, self.steps.dead_leases)
        if not refusal:
            await sources.end_link_check(self.sid)
        return refusal

    # ── report ──

    async def _counts(self) -> dict[str, int]:
        """Return the counters of the run, of all its workers."""
        run = await self.context.runs.require(self.joined.id, self.clock.now())
        return dict.fromkeys(COUNTERS, 0) | dict(run.counts)

    async def _report(self) -> None:
        """Count a last time, and say how the run ended, unless it goes on elsewhere."""
        await self._listing.count_discovered()
        counts = await self._counts()
        details = await self.context.sources.details(self.sid)
        notes = [*self.steps.notes, *crawl_result.notes(self.source, self.end, details)]
        if self.should_stop():
            self.worker.end = self.worker.left_as
        else:
            is_root_due = self.mode is not CrawlMode.SCHEDULED
            end = await crawl_result.end_of_run(
                *(self.context, self.source, self.end, self.steps.with_failures(counts), details),
                is_network_down=self.visitor.network.is_down,
                is_root_due=is_root_due,
                since=self.began,
                publish_problem=self.steps.publish_problem,
            )
            self.worker.end = end.status
            if end.is_success and self.steps.lists:
                await self.context.sources.mark_success(self.sid, self.clock.now())
            notes = [phrase for phrase in (end.sentence, *notes) if phrase]
            receipt = await receipt_of(self.context.client, self.context.keys, self.sid)
            self.worker.end_fields |= {"problem": end.problem, "receipt": receipt}
            if end.status is RunStatus.FAILED:
                self.worker.end_fields["error"] = "; ".join(notes)
        self.worker.end_fields["message"] = "; ".join(notes)
        if not self.should_stop():
            now = self.clock.now()
            run = ended_as(await self.context.runs.require(self.joined.id, now), self.worker, now)
            crawled = CrawledSource(self.sid, self.source.state.record.kind, run)
            await archive_crawl(self.context, run, run.status, [crawled], now)
        sign, how = _SIGNS.get(self.worker.requested, ("⏹️", ", stopped") if self.should_stop() else ("🏁", ""))
        log.info(
            "%s %s%s: %s known, %s visited = %s changed, %s unchanged, %s gone, %s failed, %s not for us",
            *(sign, self.sid, how, *(counts[name] for name in COUNTERS)),
        )
