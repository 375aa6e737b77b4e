"""Visit a batch of a reindex's items, as one job of its run. The last job that finds nothing left ends the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from core.registry.io.batch_visitor import Visitor
from core.registry.io.item_queries import ItemQueries, one_domain_of
from core.registry.io.paused_items import waiting_for
from core.registry.io.reindex_run_items import ReindexRunItems, open_reindex
from core.runs.io.run_tally import RunTally
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunPhase, RunStatus
from core.runs.run_request import RunRequest
from core.runtime.context import Context
from core.sources.io.open_sources import OpenSources
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.leases import new_token
from core.value_class import value_class

log = logging.getLogger("refresh")


@value_class
class StartedReindex:
    """What someone's own job has asked for."""

    run: Run | None
    """None: there is no item of these names."""
    item_ids: Sequence[str]
    unknown: Sequence[str]
    """Names that are not known."""


async def start_reindex(context: Context, names: Sequence[str], *, force: bool) -> StartedReindex:
    """Make items due that a job names by id, uid, URL or path, as a part of the open reindex or of a new one."""
    clock = await ServerClock.ask(context.client)
    queries = ItemQueries(context.client, context.keys, context.settings.tracking_param_prefixes)
    by_name = await queries.resolve_many(names)
    unknown = [name for name, item_id in by_name.items() if not item_id]
    named, now = list(dict.fromkeys(filter(None, by_name.values()))), clock.now()
    known = await context.due.make_due(named, now, force=force, token=new_token())
    item_ids = [item_id for item_id, is_known in zip(named, known, strict=True) if is_known]
    run = None
    if item_ids:
        domain, parameters = one_domain_of(await queries.summaries(item_ids)), {"force": "true"} if force else {}
        run = await open_reindex(context.runs, now, parameters, "queue", domain)
        await ReindexRunItems(context.client, context.keys, context.leases).add(run, item_ids, now)
    return StartedReindex(run, item_ids, unknown)


class ReindexJob:
    """One job's part in the run of a reindex."""

    def __init__(self, context: Context, clock: ServerClock, run: Run) -> None:
        self._context = context
        self._clock = clock
        self._items = ReindexRunItems(context.client, context.keys, context.leases)
        self._worker = RunWorker(context.runs, clock, run, context.leases.prefix)
        self._worker.tell = self._tell
        self._waiting = ""
        """What the items that are left wait for."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._worker.run.id

    async def visit(self, item_ids: Sequence[str], is_over: Callable[[], bool]) -> bool:
        """Visit these items, or without any some that are left; return whether another job should go on.

        Where the run is paused, cancelled or has ended, nothing is done.
        """
        worker = self._worker
        if await worker.join() is not RunRequest.NONE:
            return False
        before = await self._items.count(self.run_id)
        try:
            async with worker.working():
                await self._visit(item_ids, lambda: is_over() or worker.should_stop())
        finally:
            reply = await cancellation.finish(worker.leave(RunStatus.QUEUED))
        if worker.requested is not RunRequest.NONE and worker.requested is not RunRequest.PAUSE:
            interval = self._context.settings.crawl_base_interval_seconds
            await self._items.reschedule(self.run_id, self._clock.now(), interval)
        left = await self._items.count(self.run_id)
        if not left and not reply.working and not worker.should_stop():
            await self._finish()
        # Without any progress the timer goes on with it later.
        return 0 < left < before and not worker.should_stop()

    async def _visit(self, item_ids: Sequence[str], is_over: Callable[[], bool]) -> None:
        context, worker, now = self._context, self._worker, self._clock.now()
        chosen = list(item_ids) or await self._items.some(self.run_id, context.settings.refresh_batch_items)
        asked_ts = await self._items.drop_visited(self.run_id, chosen)
        # What a server asked us to leave alone for a while waits in the run until then, and so does what is paused.
        due = [one for one in await context.items.read(list(asked_ts)) if one and (one.next_ts or 0.0) <= now]
        blocked = await context.runs.blocked()
        paused = {one.id: blocked.paused_domains(one.sources) for one in due}
        tally = RunTally(context.keys, self.run_id, worker.failed_items, worker.run.domain, takes_out=True)
        visitor = Visitor(context, self._clock, OpenSources(context, now), tally=tally)
        worker.in_flight = lambda: visitor.in_flight
        picked_ts = max(asked_ts.values(), default=now)
        visited = [one.id for one in due if not paused[one.id]]
        await visitor.visit_many(visited, picked_ts=picked_ts, is_over=is_over)
        await self._items.drop_visited(self.run_id, chosen)
        names = ("visited", "changed", "unchanged", "gone", "failed", "excluded")
        line = "🏁 %d visited = %d changed, %d unchanged, %d gone, %d failed, %d not for us"
        log.info(line, *(visitor.counts[name] for name in names))
        if len(visited) < len(due):
            self._waiting = waiting_for(len(due) - len(visited), sorted(frozenset().union(*paused.values())))
            # With the heartbeat: one that is under way would write over it.
            await worker.beat()

    async def _tell(self, now: float) -> Mapping[str, str]:
        total = (await self._context.runs.require(self.run_id, now)).counts.get("discovered", 0)
        done = total - await self._items.count(self.run_id)
        percent = 100 * done // total if total else 0
        message = self._waiting or f"Reindexing: {done}/{total} items"
        return {"phase": str(RunPhase.CRAWLING), "progress": str(min(percent, 99)), "message": message}

    async def _finish(self) -> None:
        counts = (await self._context.runs.require(self.run_id, self._clock.now())).counts
        end = RunStatus.PARTIAL if counts.get("failed") else RunStatus.SUCCEEDED
        elsewhere = f", {counts['elsewhere']} by other runs" if counts.get("elsewhere") else ""
        await self._worker.finish(end, {"message": f"{counts.get('visited', 0)} items visited{elsewhere}"})
