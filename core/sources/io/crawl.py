"""Crawl a source: open its run or continue it, and work on it until it ends, or someone stops or pauses it.

What is listed is registered before anything is visited, so an interrupted run loses nothing: whoever continues it goes
on with what is still due, under the same id and with the same counters. `crawl_pass` is the work itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from core.errors import FreshetError
from core.registry.io.commit_buffer import Progress
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind, RunStatus, source_scope
from core.runs.run_request import RunRequest
from core.runtime.context import Context
from core.sources.crawl_parameters import CrawlParameters
from core.sources.io.crawl_pass import crawl_once
from core.sources.io.crawl_runs import ALL_OF_IT, CrawlMode, open_crawl_run
from core.sources.io.open_sources import OpenSources
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.leases import Lease

__all__ = ["CrawlMode", "crawl_source"]

log = logging.getLogger("refresh")

LEASE_PAUSE_SECONDS = 1.0


async def crawl_source(
    context: Context,
    sid: str,
    mode: CrawlMode,
    *,
    run_id: str = "",
    parent: str = "",
    started_by: str = "",
    asked: CrawlParameters = ALL_OF_IT,
    stays: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], None] | None = None,
    on_open: Callable[[Run], Awaitable[None]] | None = None,
    on_wait: Callable[[bool], Awaitable[None]] | None = None,
) -> Mapping[str, str]:
    """Crawl once; return the run's fields at its end, or as it was left. Another run of the source is waited for.

    `run_id`: this run and no other; nothing is done if it has ended. `asked`: what a new run does. `stays`: wait here
    while it is paused, or for others who work on the source; a job does not, since another one continues the run.
    `on_open` is called with the run, `on_wait` when a wait for the end of a pause begins and ends.
    """
    clock = await ServerClock.ask(context.client)
    requested_ts = clock.now()
    open_new = partial(open_crawl_run, source=sid, parent=parent, started_by=started_by, asked=asked)
    worker: RunWorker | None = None
    while True:
        lease = await _acquire(context, clock, sid, should_stop, stays=stays)
        if lease is None:
            return await _open_fields(context, clock, sid)
        try:
            open_sources = OpenSources(context, clock.now())
            source = await open_sources.require(sid)
            if worker is None:
                # What another run visited since this one was requested is not visited again, however long it waited.
                if run_id:
                    run = await context.runs.require(run_id, clock.now())
                else:
                    domain = source.state.record.domain
                    run = await open_new(context.runs, RunKind.CRAWL, mode, requested_ts, domain=domain)
                worker = RunWorker(context.runs, clock, run, context.leases.prefix)
                worker.left_as = RunStatus.INTERRUPTED if stays else RunStatus.QUEUED
                if on_open:
                    await on_open(worker.run)
            if await worker.join() is RunRequest.NONE:
                # A process that was stopped for too long has lost the source to another, which works on the same run.
                is_over = lambda held=lease: should_stop() or not context.leases.holds(held)  # noqa: E731
                await crawl_once(context, clock, worker, source, open_sources, is_over, watch)
            has_lost = not context.leases.holds(lease)
        finally:
            await context.leases.release(lease)
        if has_lost and stays and not should_stop():
            continue  # the other one ends it, or we go on behind it
        if worker.requested is not RunRequest.PAUSE or not stays or should_stop():
            if worker.requested is RunRequest.CANCEL:  # by the flag in Redis, perhaps
                await context.sources.postpone_listing(sid, clock.now() + source.interval_seconds(context.settings))
            return await context.runs.fields(worker.run.id)
        await stay(worker, should_stop, on_wait)


async def stay(
    worker: RunWorker, should_stop: Callable[[], bool], on_wait: Callable[[bool], Awaitable[None]] | None = None
) -> None:
    """Wait for the end of a pause; however the wait ends, `on_wait` is called."""
    if on_wait:
        await on_wait(True)
    try:
        await worker.wait_while_paused(should_stop)
    finally:
        if worker.should_stop():
            await cancellation.finish(worker.leave())
    if on_wait:
        await on_wait(False)


async def _acquire(
    context: Context, clock: ServerClock, sid: str, should_stop: Callable[[], bool], *, stays: bool
) -> Lease | None:
    """Take the lease for listing this source; None: another worker has it, and we need not wait."""
    has_logged = False
    while True:
        taken = await context.leases.acquire(f"source_{sid}")
        if taken:
            return taken[0]
        await _release_dead(context, sid)
        if not stays and await context.runs.workers.is_at_work(source_scope(sid), clock.now()):
            return None
        if not has_logged:
            log.info("⏳ Another run has %s; waiting for its end", sid)
            has_logged = True
        if should_stop():
            raise FreshetError(f"{sid} is being crawled by another run.")
        await asyncio.sleep(LEASE_PAUSE_SECONDS)


async def _release_dead(context: Context, sid: str) -> None:
    """Release the source where a process of this machine was killed that had it; else it is free within a minute."""
    run_id = (await context.runs.open_ids()).get(source_scope(sid), "")
    for dead in await context.runs.workers.dead(run_id) if run_id else ():
        if dead.lease_prefix:
            await context.leases.release_of(f"source_{sid}", dead.lease_prefix)


async def _open_fields(context: Context, clock: ServerClock, sid: str) -> Mapping[str, str]:
    run = await context.runs.open_run(source_scope(sid), clock.now())
    return await context.runs.fields(run.id) if run else {"status": str(RunStatus.RUNNING)}
