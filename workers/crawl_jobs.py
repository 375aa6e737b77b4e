"""The jobs that crawl: a source by its schedule, or a domain because someone asked for it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from core.errors import NotFound
from core.runs.io.run_jobs import continue_run
from core.runs.run import Run, RunStatus, parse_run
from core.runtime.context import Context
from core.runtime.job_limit import JobLimit
from core.runtime.job_specs import JobRefused
from core.sources.crawl_parameters import CrawlParameters
from core.sources.io import source_kinds
from core.sources.io.crawl import crawl_source
from core.sources.io.crawl_runs import CrawlMode
from core.sources.io.domain_crawl import DomainCrawl
from core.sources.io.domain_sources import select_sources
from core.sources.io.domain_store import DomainStore
from core.sources.source_record import DomainFileError, SourceState
from core.store import connect
from workers.due_jobs import send_due

log = logging.getLogger("refresh")

STEPS_SECONDS = 3_000.0
"""For sources with steps: continuing such a run lists SharePoint again, so a job goes on to its end if it can."""


async def crawl(
    context: Context, limit: JobLimit, source_id: str, run_id: str, mode: CrawlMode, picked_ts: float
) -> None:
    """Crawl a source, or go on with a run of it; nothing if it was removed or crawled since the job was sent."""
    try:
        state = await context.sources.read(source_id)
        if state is None and not run_id and picked_ts == math.inf:  # a person's own job, not one of the timer's
            raise JobRefused(f"There is no source {source_id[:80]}. `freshet domain list` shows what there is.")
        if state is None or (not run_id and state.listed_ts >= picked_ts):
            return  # removed or crawled since the job was sent
    except DomainFileError:
        return  # its record was quarantined, and named then
    _extend(limit, [state])
    now = await connect.now(context.client)
    known = await context.runs.read(run_id, now) if run_id else None
    if run_id and (known is None or not known.is_open):
        return
    fields = await crawl_source(
        context, source_id, mode, run_id=run_id, stays=False, started_by="timer", should_stop=limit.is_over
    )
    run = parse_run(fields.get("id", ""), fields, now)
    is_trouble = run.status is RunStatus.FAILED or run.problem
    if run.message and not run.is_open:
        log.log(logging.ERROR if is_trouble else logging.WARNING, "%s %s", "🛑" if is_trouble else "⚠️", _named(run))
    if not limit.is_stopped:
        await continue_run(context.settings, run)
        await send_due(context, source_id)


async def crawl_domain(context: Context, limit: JobLimit, domain_id: str, run_id: str, mode: CrawlMode) -> None:
    """Crawl the sources of a domain, or go on with that."""
    domain = await DomainStore(context.client, context.keys).read(domain_id)
    if domain is None:
        return  # removed since the job was sent
    now = await connect.now(context.client)
    known = await context.runs.read(run_id, now) if run_id else None
    try:
        sids = await select_sources(context, domain, CrawlParameters.of(known.parameters if known else {}))
    except NotFound as error:
        if known:
            await context.runs.finish(known, RunStatus.FAILED, now, {"error": str(error), "message": str(error)})
        return
    _extend(limit, [state for sid in sids if (state := await context.sources.read(sid))])
    crawling = DomainCrawl(context, domain_id, sids, mode, stays=False, should_stop=limit.is_over, started_by="api")
    run = await crawling.run(run_id)
    if not limit.is_stopped:
        await continue_run(context.settings, run)


def _extend(limit: JobLimit, states: Iterable[SourceState]) -> None:
    if any(source_kinds.has_steps(state.record.kind) for state in states):
        limit.extend(STEPS_SECONDS)


def _named(run: Run) -> str:
    return run.message if run.message.startswith(f"{run.source}: ") else f"{run.source}: {run.message}"
