"""A cycle of the ingestor as a run: poll the feeds that are due, remove links that aged out, record what was counted.

A cycle with nothing to do leaves no run. One that is paused goes on when it is resumed, also after a restart.
"""

from __future__ import annotations

import logging
import time

from core import ids
from core.feeds.io.poller import COUNTERS, PollCycle
from core.feeds.poll_result import PollEnd, PollReport
from core.runs.io.pass_run import PassProgress, open_pass
from core.runs.io.run_tally import RunTally
from core.runs.io.run_worker import RunWorker
from core.runs.run import FailedItem, RunKind, RunStatus
from core.runs.run_request import RunRequest
from core.runtime.context import Context

log = logging.getLogger("ingest")

RUN_COUNTERS = tuple(name for name in COUNTERS if name not in ("left", "links_expired"))
"""polled = changed + unchanged + errors + gone; links_found = links_new + links_known + links_rejected."""
SUMMARY = (
    "🏁 %(polled)d feeds polled: %(changed)d changed, %(unchanged)d unchanged, %(errors)d failed, "
    "%(gone)d retired, %(deferred)d put off, %(held)d held elsewhere, %(left)d left. "
    "%(links_found)d links: %(links_new)d new, %(links_known)d known, %(links_rejected)d rejected"
)


async def run_cycle(context: Context, *, stays: bool = True) -> PollCycle:
    """Poll every due feed once, remove links that aged out, and record what was counted.

    `stays`: wait here while polling is paused; else nothing is polled then.
    """
    started = time.monotonic()
    await context.subscription_sync.refresh()
    cycle = await PollCycle.start(context)
    is_paused = False
    if await cycle.due_feeds() or await context.runs.open_run(str(RunKind.INGEST), cycle.clock.now()):
        while (request := await _poll_due(context, cycle, stays=stays)) is RunRequest.PAUSE and stays:
            pass
        is_paused = request is RunRequest.PAUSE
    await cycle.prune_links()
    counts = {name: cycle.counts[name] for name in COUNTERS}
    if any(counts.values()):
        await context.feeds.record_cycle(counts, cycle.clock.now(), time.monotonic() - started)
        log.info(SUMMARY, counts)
    if is_paused:
        log.warning("⏸️ Polling is paused; `python -m scripts.runs resume ingest` ends that")
    return cycle


async def _poll_due(context: Context, cycle: PollCycle, *, stays: bool) -> RunRequest:
    """Poll what is due as a run; return what is asked of it at the end."""
    async with open_pass(
        context.runs, cycle.clock, RunKind.INGEST, counters=RUN_COUNTERS, started_by="ingestor", stays=stays
    ) as worker:
        if worker is None:
            return RunRequest.PAUSE
        await _poll(context, cycle, worker)
    return worker.requested


async def _poll(context: Context, cycle: PollCycle, worker: RunWorker) -> None:
    due = await cycle.due_feeds()
    tally = RunTally(context.keys, worker.run.id, worker.failed_items)
    progress = PassProgress(worker, context.leases, tally, "Polling feeds", len(due))
    before, told = {name: cycle.counts[name] for name in RUN_COUNTERS}, cycle.watch

    def watch(report: PollReport) -> None:
        progress.step()
        fid = ids.feed_id(report.url)
        if report.end is PollEnd.FAILED:
            progress.failed.append(FailedItem(fid, report.url, report.code, report.reason, worker.now()))
        elif report.end in (PollEnd.CHANGED, PollEnd.UNCHANGED):
            progress.succeeded.append(fid)
        told(report)

    progress.counts = lambda: {name: cycle.counts[name] - before[name] for name in RUN_COUNTERS}
    cycle.watch, cycle.should_stop = watch, worker.should_stop
    try:
        await cycle.poll_many(due)
    finally:
        cycle.watch, cycle.should_stop = told, lambda: False
    counts = progress.counts()
    worker.end = RunStatus.PARTIAL if counts["errors"] or cycle.network.is_down else RunStatus.SUCCEEDED
    worker.end_fields["message"] = "our own network looks down" if cycle.network.is_down else SUMMARY[2:] % cycle.counts
