"""The jobs that visit items: those that are due, and those that someone asked for."""

from __future__ import annotations

import logging

from core.ids import domain_of_source
from core.registry.io.batch_visitor import Visitor
from core.registry.io.reindex_job import ReindexJob, start_reindex
from core.runs.io.refresh_run import join_refresh
from core.runs.io.run_jobs import continue_run
from core.runs.io.run_tally import RunTally
from core.runtime.context import Context
from core.runtime.job_limit import JobLimit
from core.runtime.job_specs import JobRefused
from core.sources.io.open_sources import OpenSources
from core.store import cancellation
from core.store.clock import ServerClock
from core.urls.secrets import redact
from workers.due_jobs import send_due

log = logging.getLogger("refresh")


async def refresh(
    context: Context, limit: JobLimit, item_ids: list[str], picked_ts: float, source: str, run_id: str
) -> None:
    """Visit items that are due, as a part of the run of their source."""
    if not source:  # an older version sent it
        await visit(context, limit, item_ids, picked_ts, source)
        return
    clock = await ServerClock.ask(context.client)
    worker = await join_refresh(context, clock, source, run_id, item_ids, picked_ts)
    tally = RunTally(context.keys, worker.run.id, worker.failed_items, domain_of_source(source))
    visitor = Visitor(context, clock, OpenSources(context, clock.now()), tally=tally)
    worker.in_flight = lambda: visitor.in_flight
    try:
        async with worker.working():
            # Where the run is paused or cancelled, that only makes the items due again.
            is_over = lambda: limit.is_over() or worker.should_stop()  # noqa: E731
            await visitor.visit_many(item_ids, picked_ts=picked_ts, via=source, is_over=is_over)
            _log_counts(visitor)
    finally:
        await cancellation.finish(worker.leave())
    if not limit.is_stopped and visitor.counts["changed"]:
        await send_due(context, source)


async def reindex(
    context: Context, limit: JobLimit, names: list[str], picked_ts: float | None, force: bool, run_id: str
) -> None:
    """Visit items that someone asked for, or go on with that; raise JobRefused for unknown names."""
    clock = await ServerClock.ask(context.client)
    started = None if run_id else await start_reindex(context, names, force=force)
    run = (started.run if started else None) or await context.runs.read(run_id, clock.now())
    item_ids = started.item_ids if started else names
    if run and await ReindexJob(context, clock, run).visit(item_ids, limit.is_over) and not limit.is_stopped:
        await continue_run(context.settings, await context.runs.require(run.id, clock.now()))
    unknown = [redact(name) for name in (started.unknown if started else ())]
    if unknown and picked_ts is None:  # else they were picked from the registry, and removed since
        raise JobRefused(
            f"{', '.join(unknown[:5])}{' …' * (len(unknown) > 5)} is not in the registry. "
            "core.api.register(URL), a feed or a domain brings it in."
        )


async def visit(context: Context, limit: JobLimit, item_ids: list[str], picked_ts: float, source: str) -> None:
    """Visit items, as no part of a run."""
    clock = await ServerClock.ask(context.client)
    visitor = Visitor(context, clock, OpenSources(context, clock.now()))
    await visitor.visit_many(item_ids, picked_ts=picked_ts, via=source, is_over=limit.is_over)
    _log_counts(visitor)


def _log_counts(visitor: Visitor) -> None:
    log.info(
        "🏁 %d visited = %d changed, %d unchanged, %d gone, %d failed, %d not for us",
        *(visitor.counts[name] for name in ("visited", "changed", "unchanged", "gone", "failed", "excluded")),
    )
