"""The RQ jobs: one asyncio loop per job, a batch of items each. A job may run twice or be lost.

It ends when its time is over or a SIGTERM comes; what is left is due again at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from core.runtime.context import Context, open_context
from core.runtime.job_limit import JobLimit, stoppable
from core.settings import load
from core.sources.io import source_kinds
from core.sources.io.crawl_runs import CrawlMode
from workers import crawl_jobs, item_jobs

source_kinds.import_usual()  # by the worker, once for all of its jobs


def refresh(item_ids: list[str], picked_ts: float, source: str = "", run_id: str = "") -> None:
    """Visit these items, unless they were visited since they were picked; a part of the source's run."""
    asyncio.run(_job(lambda context, limit: item_jobs.refresh(context, limit, item_ids, picked_ts, source, run_id)))


def reindex(item_ids: list[str] | str, picked_ts: float | None = None, force: bool = False, run_id: str = "") -> None:
    """Visit items that someone asked for, by id, uid, URL or path; with `force` whatever their servers say.

    `run_id`: go on with this reindex, with these items of it or with some that are left.
    """
    names = [item_ids] if isinstance(item_ids, str) else item_ids
    asyncio.run(_job(lambda context, limit: item_jobs.reindex(context, limit, names, picked_ts, force, run_id)))


def crawl(source_id: str, run_id: str = "", mode: CrawlMode = CrawlMode.SCHEDULED, picked_ts: float = math.inf) -> None:
    """Crawl a source: by its schedule, unless it was crawled since it was picked, or on with a run of it."""
    asyncio.run(
        _job(lambda context, limit: crawl_jobs.crawl(context, limit, source_id, run_id, CrawlMode(mode), picked_ts))
    )


def crawl_domain(domain_id: str, run_id: str = "", mode: str = CrawlMode.INCREMENTAL) -> None:
    """Crawl the sources of a domain, or go on with that."""
    asyncio.run(
        _job(lambda context, limit: crawl_jobs.crawl_domain(context, limit, domain_id, run_id, CrawlMode(mode)))
    )


def fetch_links() -> None:
    """Fetch links that someone added to a category, and whatever else is new."""
    asyncio.run(_job(_fetch_links))


def fetch_link_batch(urls: list[str]) -> None:
    """Fetch links of a backlog that a canonical fetcher shares; what is known by now, or no link any more, is left."""
    asyncio.run(_job(lambda context, limit: _fetch_link_batch(context, limit, urls)))


def rebuild(run_id: str) -> None:
    """Rebuild due sets or chunks, as the run says."""
    asyncio.run(_job(lambda context, limit: _rebuild(context, limit, run_id)))


async def _job(work: Callable[[Context, JobLimit], Awaitable[None]]) -> None:
    settings = load()
    async with open_context(settings, once=True) as context:
        limit = JobLimit(time.monotonic() + settings.refresh_budget_seconds)
        async with stoppable(limit):
            await work(context, limit)


async def _fetch_links(context: Context, limit: JobLimit) -> None:
    from workers import (
        canonical_fetcher,  # here, as below: rare jobs, whose modules each worker would load at its start
    )

    await canonical_fetcher.run_once(context, max(limit.ends_at - time.monotonic(), 1.0))


async def _fetch_link_batch(context: Context, limit: JobLimit, urls: list[str]) -> None:
    from core.registry.io.link_run import visit_links_as_run
    from core.store.clock import ServerClock

    links = await context.links.with_categories(urls)
    if links:
        await visit_links_as_run(context, await ServerClock.ask(context.client), links, is_over=limit.is_over)


async def _rebuild(context: Context, limit: JobLimit, run_id: str) -> None:
    """Rebuild to the end, however long that takes; only a SIGTERM ends it before, and the timer continues it."""
    from core.runtime.job_queues import JobQueues
    from core.search.io.index_rebuild import IndexRebuild
    from workers.timer import Timer

    index = IndexRebuild(context.settings, context.client, context.keys)
    if await index.work(run_id, lambda: limit.is_stopped) is not None:
        timer = Timer(context.settings, context.client, context.keys, JobQueues(context.settings))
        await timer.tick()
