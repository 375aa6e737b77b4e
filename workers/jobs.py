"""The RQ jobs: one asyncio loop per job, a batch of items each. A job may run twice or be lost.

It ends when its time is over or a SIGTERM comes; what is left is due again at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from core.registry.io.visitor import Visitor
from core.runtime.context import Context, open_context
from core.runtime.job_queues import JobQueues
from core.settings import load
from core.sources.domain_schema import DomainFileError
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.open_sources import OpenSources
from core.store import connect
from core.store.cancellation import Canceller
from core.store.clock import ServerClock
from workers.timer import Timer

log = logging.getLogger("refresh")

STOP_SECONDS = 2.0
"""How long a job may take to end after a SIGTERM; then it is cancelled and releases its leases."""


def refresh(item_ids: list[str], picked_ts: float, source: str = "") -> None:
    """Visit these items, unless they were visited since they were picked."""
    asyncio.run(_job(lambda context, limit: _visit(context, limit, item_ids, picked_ts, source)))


def reindex(item_ids: list[str], picked_ts: float) -> None:
    """Visit items that someone asked for."""
    asyncio.run(_job(lambda context, limit: _visit(context, limit, item_ids, picked_ts, "")))


def crawl(source_id: str) -> None:
    """Crawl a source by its schedule."""
    asyncio.run(_job(lambda context, limit: _crawl(context, limit, source_id)))


@dataclass(slots=True)
class JobLimit:
    """When a job should end: at a time, or after a SIGTERM."""

    ends_at: float
    is_stopped: bool = False

    def is_over(self) -> bool:
        """Should the job end now?"""
        return self.is_stopped or time.monotonic() > self.ends_at


async def _job(work: Callable[[Context, JobLimit], Awaitable[None]]) -> None:
    settings = load()
    limit = JobLimit(time.monotonic() + settings.refresh_budget_seconds)
    async with open_context(settings, once=True) as context, _stoppable(limit):
        await work(context, limit)


@contextlib.asynccontextmanager
async def _stoppable(limit: JobLimit) -> AsyncIterator[None]:
    """On SIGTERM set the limit, and cancel the job some seconds later."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    canceller = Canceller(task)

    def stop() -> None:
        limit.is_stopped = True
        loop.call_later(STOP_SECONDS, canceller.cancel)

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if not limit.is_stopped:
            raise
    finally:
        canceller.disarm()
        loop.remove_signal_handler(signal.SIGTERM)


async def _visit(context: Context, limit: JobLimit, item_ids: list[str], picked_ts: float, source: str) -> None:
    clock = await ServerClock.ask(context.client)
    visitor = Visitor(context, clock, OpenSources(context, clock.now()))
    await visitor.visit_many(item_ids, picked_ts=picked_ts, via=source, is_over=limit.is_over)
    log.info(
        "🏁 %d visited = %d changed, %d unchanged, %d gone, %d failed, %d not for us",
        *(visitor.counts[name] for name in ("visited", "changed", "unchanged", "gone", "failed", "excluded")),
    )
    if source and not limit.is_stopped and visitor.counts["changed"]:
        await _send_due(context, source)


async def _send_due(context: Context, source: str) -> None:
    """Send jobs for the new pages that visited ones led to, without waiting for the timer."""
    timer = Timer(context.settings, context.client, context.keys, JobQueues(context.settings))
    await timer.send_due([source], await connect.now(context.client))


async def _crawl(context: Context, limit: JobLimit, source_id: str) -> None:
    try:
        if await context.sources.read(source_id) is None:
            return  # removed since the job was sent
    except DomainFileError:
        return  # its record was quarantined, and named then
    run = await crawl_source(context, source_id, CrawlMode.SCHEDULED, should_stop=limit.is_over)
    if run["status"] == "finished" and run.get("message"):
        log.warning("⚠️ %s: %s", source_id, run["message"])
    elif run["status"] != "stopped" and run.get("message"):
        log.error("🛑 %s", run["message"])
    if not limit.is_stopped:
        await _send_due(context, source_id)
