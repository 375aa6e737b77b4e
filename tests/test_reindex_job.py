"""A reindex is a run over the items that it made due: jobs go on with it until none is left."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.registry.io.due import HOLD_SECONDS
from core.registry.io.reindex import Reindexer, ReindexRequest
from core.registry.io.reindex_job import ReindexJob, start_reindex
from core.registry.io.reindex_run_items import ReindexRunItems
from core.runs.io import run_worker
from core.runs.io.run_control import RunControl
from core.runs.io.run_jobs import job_of
from core.runs.io.run_list import RunList
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from core.store.clock import ServerClock
from tests.crawled_site import SID, add_site, crawl_context, item_id
from tests.run_requests import ask, runs_of
from tests.site import Site
from tests.web_replies import Exchange
from workers.timer import Timer

PATHS = ("/", "/a", "/b", "/c", "/d")


@pytest.fixture
async def crawled(settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Context]:
    """Five pages that were crawled; two of them fit into a job."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    for path in PATHS:
        site.page(path, links=PATHS)
    async with crawl_context(settings, refresh_batch_items=2) as context:
        await add_site(context, site.url("/"))
        await crawl_source(context, SID, CrawlMode.FULL)
        site.forget_requests()
        yield context


async def reindex(context: Context, **more: object) -> Run:
    reindexer = Reindexer(context.settings, context.client, context.keys)
    result = await reindexer.run(ReindexRequest(all=True, **more))  # type: ignore[arg-type]
    return await context.runs.require(result.run_id, await connect.now(context.client))


async def work(context: Context, run: Run) -> bool:
    """One job of the run."""
    return await ReindexJob(context, await ServerClock.ask(context.client), run).visit((), lambda: False)


async def left(context: Context, run: Run) -> int:
    return await ReindexRunItems(context.client, context.keys, context.leases).count(run.id)


def adds_up(run: Run, left: int) -> bool:
    counts = run.counts
    results = ("changed", "unchanged", "gone", "failed", "excluded")
    is_visited = counts["visited"] == sum(counts[name] for name in results)
    return is_visited and counts["discovered"] == counts["visited"] + counts["elsewhere"] + left


async def test_jobs_go_on_until_nothing_is_left(crawled: Context, site: Site) -> None:
    """Each takes a batch; the last one ends the run, whose counts add up at any time."""
    site.remove("/d", 500)
    queued = await reindex(crawled, force=True)
    seen = []
    while await work(crawled, queued):
        [run] = await runs_of(crawled, RunKind.REINDEX)
        seen.append(adds_up(run, await left(crawled, run)))
    [run] = await runs_of(crawled, RunKind.REINDEX)

    assert (queued.status, queued.parameters) == (RunStatus.QUEUED, {"all": "True", "force": "True"})
    assert seen == [True, True]
    assert (run.id, run.status, run.progress) == (queued.id, RunStatus.PARTIAL, 100)
    assert (run.counts["discovered"], run.counts["visited"], run.counts["failed"]) == (5, 5, 1)
    assert adds_up(run, 0)
    assert len(site.web.requests) == 5
    assert await crawled.runs.open_ids() == {}


async def test_paused_reindex_is_left_alone(crawled: Context, site: Site) -> None:
    """By its own jobs and by the timer; resumed, it goes on with what is left."""
    queued, control = await reindex(crawled), RunControl(crawled.settings, crawled.client, crawled.keys)
    await control.pause(queued.id)
    has_more, now = await work(crawled, queued), await connect.now(crawled.client)
    jobs: list[object] = []

    class Queues:
        """Takes jobs and sends none."""

        def count_waiting(self, name: object) -> int:
            return 0

        def enqueue(self, *arguments: object, **more: object) -> bool:
            jobs.append(arguments)
            return True

    sent = await Timer(crawled.settings, crawled.client, crawled.keys, Queues()).send_due([SID], now)  # type: ignore[arg-type]
    scores = [score for _, score in await crawled.client.zrange(crawled.keys.due(SID), 0, -1, withscores=True)]
    paused = (await runs_of(crawled, RunKind.REINDEX))[0]
    await control.resume(queued.id)
    while await work(crawled, queued):
        pass
    [run] = await runs_of(crawled, RunKind.REINDEX)

    assert (paused.status, has_more, sent, jobs) == (RunStatus.PAUSED, False, 0, [])
    assert min(scores) >= now + HOLD_SECONDS
    assert (run.id, run.status, run.counts["visited"]) == (queued.id, RunStatus.SUCCEEDED, 5)
    assert len(site.web.requests) == 5


async def test_cancelled_in_the_middle(crawled: Context, site: Site) -> None:
    """What is in flight is finished; what is left is listed, and not visited by the timer either. Opened again, the run
    goes on with it, and with what failed."""
    queued, control = await reindex(crawled, force=True), RunControl(crawled.settings, crawled.client, crawled.keys)

    async def cancel(exchange: Exchange) -> None:
        [run] = await runs_of(crawled, RunKind.REINDEX)
        if run.status is RunStatus.RUNNING:
            await ask(run, control.cancel)
        await exchange.answer(500)

    for path in PATHS:
        site.web.on(path, cancel)
    assert not await work(crawled, queued)
    [run] = await runs_of(crawled, RunKind.REINDEX)
    remaining, now = await left(crawled, run), await connect.now(crawled.client)
    due, listed = await crawled.due.count(SID, now), await RunList(crawled.client, crawled.keys).left(run, 10)
    for path in PATHS:
        site.page(path, links=PATHS)
    await control.resume(run.id)
    while await work(crawled, queued):
        pass
    [resumed] = await runs_of(crawled, RunKind.REINDEX)

    assert (run.status, run.left, due, len(listed)) == (RunStatus.CANCELLED, remaining, 0, remaining)
    assert adds_up(run, remaining)
    assert remaining >= 3
    assert (resumed.id, resumed.status, resumed.counts["visited"]) == (run.id, RunStatus.SUCCEEDED, 5)


async def test_visited_by_another_run(crawled: Context) -> None:
    """It need not be visited again, and counts as done elsewhere."""
    queued = await reindex(crawled)
    await crawl_source(crawled, SID, CrawlMode.SCHEDULED)
    while await work(crawled, queued):
        pass
    run = await crawled.runs.require(queued.id, await connect.now(crawled.client))

    assert (run.status, run.counts["visited"], run.counts["elsewhere"]) == (RunStatus.SUCCEEDED, 0, 5)
    assert run.message == "0 items visited, 5 by other runs"


async def test_failed_items_are_visited_again(crawled: Context, site: Site) -> None:
    """Alone, in the same run, and each counted once."""
    site.remove("/d", 500)
    queued = await reindex(crawled, force=True)
    while await work(crawled, queued):
        pass
    site.page("/d", links=PATHS)
    site.forget_requests()
    result = await RunControl(crawled.settings, crawled.client, crawled.keys).retry(queued.id)
    await work(crawled, queued)
    [run] = await runs_of(crawled, RunKind.REINDEX)

    assert (result.items, len(site.web.requests)) == (1, 1)
    assert (run.id, run.status, run.counts["visited"], run.counts["failed"]) == (queued.id, RunStatus.SUCCEEDED, 5, 0)
    assert adds_up(run, 0)


async def test_second_request_joins_the_open_run(crawled: Context, site: Site) -> None:
    """Of its domain it never starts a second one; what both ask for is visited once."""
    reindexer = Reindexer(crawled.settings, crawled.client, crawled.keys)
    opened = await reindexer.run(ReindexRequest(source=SID))
    first = await crawled.runs.require(opened.run_id, await connect.now(crawled.client))
    second = await reindexer.run(ReindexRequest(name=site.url("/a")))
    started = await start_reindex(crawled, [site.url("/b"), "https://nobody.example/"], force=True)
    while await work(crawled, first):
        pass
    [run] = await runs_of(crawled, RunKind.REINDEX)

    assert second.run_id == first.id == (started.run.id if started.run else "")
    assert (list(started.item_ids), list(started.unknown)) == ([item_id(site.url("/b"))], ["https://nobody.example/"])
    assert (run.counts["discovered"], run.counts["visited"]) == (5, 5)


async def test_nothing_to_reindex_leaves_no_run(crawled: Context) -> None:
    """A selection without items."""
    reindexer = Reindexer(crawled.settings, crawled.client, crawled.keys)
    result = await reindexer.run(ReindexRequest(status="Error"))

    assert (result.items, result.run_id) == (0, "")
    assert await runs_of(crawled, RunKind.REINDEX) == []


async def test_what_has_to_wait_stands_in_nobodys_way(crawled: Context, site: Site) -> None:
    """A page that was put off stays in the run, unvisited, and its turn comes when it is due."""
    queued, now = await reindex(crawled), await connect.now(crawled.client)
    late = item_id(site.url("/c"))
    record = crawled.keys.item(late)
    await crawled.client.hset(record, "nextCrawlAt", "2199-01-01T00:00:00Z")
    while await work(crawled, queued):
        pass
    waiting = await crawled.runs.require(queued.id, now)
    await crawled.client.hset(record, "nextCrawlAt", "2020-01-01T00:00:00Z")
    await work(crawled, queued)
    [run] = await runs_of(crawled, RunKind.REINDEX)

    assert (waiting.status, waiting.counts["visited"]) == (RunStatus.QUEUED, 4)
    assert job_of(waiting) is not None
    assert (run.status, run.counts["visited"]) == (RunStatus.SUCCEEDED, 5)
