"""Runs of crawls: continued where they stopped, counted once, with a receipt and what failed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import pytest

from core.errors import FreshetError
from core.registry.io.commit_buffer import Progress
from core.runs.io.receipts import receipt_of
from core.runs.io.run_control import RunControl
from core.runs.io.run_list import RunFilter, RunList
from core.runs.io.run_store import RunStore
from core.runs.io.run_tally import RunTally
from core.runs.run import Run, RunKind, RunStatus
from core.runtime import logs
from core.runtime.context import Context, open_context
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_crawl import DomainCrawl
from core.store import connect
from tests.crawled_site import SID
from tests.faults.process import until
from tests.faults.refresh_scene import Gate
from tests.refresh_jobs import tick
from tests.site import Site
from tests.thirteen_page_site import PATHS, crawled

__all__ = ["crawled"]


class StopAfter:
    """Stops a crawl after so many pages."""

    def __init__(self, pages: int) -> None:
        self._left = pages

    def watch(self, done: Progress) -> None:
        self._left -= 1

    def is_over(self) -> bool:
        return self._left <= 0


async def crawl(context: Context, mode: CrawlMode = CrawlMode.INCREMENTAL, stop_after: int = 10_000) -> Run:
    stop = StopAfter(stop_after)
    fields = await crawl_source(context, SID, mode, should_stop=stop.is_over, watch=stop.watch)
    return await context.runs.require(fields["id"], await connect.now(context.client))


async def newest(context: Context, kind: RunKind) -> list[Run]:
    return await context.runs.newest(9, await connect.now(context.client), kind=kind)


def control_of(context: Context) -> RunControl:
    return RunControl(context.settings, context.client, context.keys)


# ── continued ──


@pytest.mark.parametrize("mode", [CrawlMode.INCREMENTAL, CrawlMode.FULL])
async def test_continued_run_is_the_same_run(crawled: Context, site: Site, mode: CrawlMode) -> None:
    """The same id, beginning and counters; nothing is asked twice, also where everything is forced."""
    await crawl(crawled)
    site.forget_requests()
    first = await crawl(crawled, mode, stop_after=4)
    second = await crawl(crawled, mode)
    asked = [path for path in site.web.paths if path in PATHS]

    assert (first.status, second.status) == (RunStatus.INTERRUPTED, RunStatus.SUCCEEDED)
    assert (first.id, first.started_ts) == (second.id, second.started_ts)
    assert 0 < first.counts["visited"] < second.counts["visited"] == second.counts["discovered"] == len(PATHS)
    assert sorted(asked) == sorted(PATHS)
    assert await crawled.runs.open_ids() == {}


async def test_listing_that_came_to_its_end_is_not_made_again(crawled: Context, site: Site) -> None:
    """A run that is continued knows how its listing ended."""
    site.web.page("/sitemap.xml", f"<urlset><url><loc>{site.url('/11')}</loc></url></urlset>")
    await crawl(crawled, stop_after=4)
    await crawl(crawled)

    assert site.web.paths.count("/sitemap.xml") == 1


async def test_stronger_mode_is_a_run_of_its_own(crawled: Context) -> None:
    """Who asks for a full crawl gets one, with its own counters; the interrupted one says what became of it."""
    weak = await crawl(crawled, stop_after=4)
    strong = await crawl(crawled, CrawlMode.FULL)
    ended = await crawled.runs.require(weak.id, 0.0)

    assert strong.id != weak.id
    assert (ended.status, ended.message) == (RunStatus.CANCELLED, "superseded by a crawl with mode full")
    assert (strong.status, strong.counts["visited"]) == (RunStatus.SUCCEEDED, len(PATHS))


async def test_pass_that_lost_its_source_leaves_it(crawled: Context, site: Site) -> None:
    """It stood still until its lease ended, and another process went on with its run: neither waits for the other, and
    both tell the same end."""
    gate = Gate(site.web._pages["/"].next_reply())
    site.web.on("/", gate)
    first = asyncio.create_task(crawl(crawled))
    await until(lambda: gate.is_reached)
    await crawled.client.delete(crawled.keys.lease(f"source_{SID}"))
    async with open_context(crawled.settings) as other:
        second = asyncio.create_task(crawl(other))
        await until(lambda: other.leases.held > 0)
        await crawled.leases.renew()
        gate.open()
        async with asyncio.timeout(60):
            ends = [await first, await second]

    assert {(run.id, run.status) for run in ends} == {(ends[0].id, RunStatus.SUCCEEDED)}
    assert ends[0].counts["visited"] == len(PATHS)


async def test_domain_goes_on_with_the_source_it_was_at(crawled: Context, site: Site) -> None:
    """Its run counts what its children count; a source that has come to its end is not crawled again."""
    stop = StopAfter(1)
    first = DomainCrawl(crawled, "docs", [SID], CrawlMode.INCREMENTAL, should_stop=stop.is_over)
    stop._left = 0
    interrupted = await first.run()
    again = DomainCrawl(crawled, "docs", [SID], CrawlMode.INCREMENTAL)
    logs.configure(crawled.settings)
    done = await again.run()
    requests = len(site.web.requests)
    repeated = await DomainCrawl(crawled, "docs", [SID], CrawlMode.INCREMENTAL).run(done.id)
    [child] = await crawled.runs.children(done.id, 0.0)

    assert (interrupted.status, interrupted.id) == (RunStatus.INTERRUPTED, done.id)
    assert (done.status, done.counts["visited"], child.parent) == (RunStatus.SUCCEEDED, len(PATHS), done.id)
    assert (repeated.id, len(site.web.requests)) == (done.id, requests)
    own, part = [await crawled.runs.log_lines(run_id) for run_id in (done.id, child.id)]
    assert part
    assert set(part) <= set(own)  # who follows the run of the domain sees what its sources do


# ── receipts ──


async def test_equal_results_have_equal_receipts(crawled: Context, site: Site) -> None:
    """In pieces or in one go; a changed text changes the receipt, and the old text brings it back."""
    for _ in range(4):
        last = await crawl(crawled, stop_after=4)
    in_pieces = await crawl(crawled)
    in_one_go = await crawl(crawled, CrawlMode.FULL)
    site.page("/3", "Another text.")
    changed = await crawl(crawled)
    site.page("/3")
    back = await crawl(crawled)

    assert last.id == in_pieces.id
    assert in_pieces.receipt == in_one_go.receipt == back.receipt != changed.receipt
    assert in_pieces.receipt.startswith(f"{len(PATHS)}:")


async def test_receipt_is_the_sum_that_is_documented(context: Context) -> None:
    """Anybody can make it: sha256 over `<item id> <content hash>` of each item, added up modulo 2^256."""
    total = 0
    for n in range(2_500):
        content_hash = f"{n:x}" if n % 3 else ""
        await context.client.zadd(context.keys.refs("s"), {f"url_{n}": 0})
        await context.client.hset(context.keys.item(f"url_{n}"), mapping={"contentHash": content_hash, "status": "x"})
        total += int(hashlib.sha256(f"url_{n} {content_hash}".encode()).hexdigest(), 16)

    assert await receipt_of(context.client, context.keys, "s") == f"2500:{total % 2**256:064x}"


# ── failed items ──


async def test_failed_items_are_listed_and_tried_again_alone(crawled: Context, site: Site) -> None:
    """With their reason; a retry visits them and nothing else, and the counters of the run add up then too."""
    site.remove("/1", 500)
    site.remove("/2", 503)
    partial = await crawl(crawled)
    failed = await crawled.runs.failed_items(partial.id)
    site.page("/1")
    site.page("/2")
    site.forget_requests()
    result = await control_of(crawled).retry(partial.id)
    again = await crawl_source(crawled, SID, CrawlMode.INCREMENTAL, run_id=partial.id)

    assert (partial.progress, result.run.progress) == (100, 100)  # it never runs backwards
    assert (partial.status, partial.problem, partial.counts["failed"]) == (RunStatus.PARTIAL, "", 2)
    assert {(one.url, one.code, one.text) for one in failed} == {
        (site.url("/1"), "FAIL_HTTP", "HTTP 500"),
        (site.url("/2"), "FAIL_HTTP", "HTTP 503"),
    }
    assert (result.run.id, result.items) == (partial.id, 2)
    assert sorted(path for path in site.web.paths if path in PATHS) == ["/1", "/2"]
    assert (again["status"], again["visited"], again["failed"]) == ("succeeded", str(len(PATHS)), "0")
    assert await crawled.runs.failed_items(partial.id) == []


async def test_what_is_missing_again_has_failed_again(crawled: Context, site: Site) -> None:
    """A second 404 is no success: not in a retry, and not in the next crawl."""
    site.page("/", links=[*PATHS[1:], "/never"])
    first = await crawl(crawled)
    await control_of(crawled).retry(first.id)
    retried = await crawl_source(crawled, SID, CrawlMode.INCREMENTAL, run_id=first.id)
    second = await crawl(crawled)

    for status, failed in ((first.status, first.counts["failed"]), (second.status, second.counts["failed"])):
        assert (status, failed) == (RunStatus.PARTIAL, 1)
    assert (retried["status"], retried["failed"]) == ("partial", "1")
    for run in (first, second):
        assert [one.url for one in await crawled.runs.failed_items(run.id)] == [site.url("/never")]


async def test_items_of_a_cancelled_run_are_retried_alone(crawled: Context, site: Site) -> None:
    """What else was left when it was cancelled stays left: a reindex has just the items that failed."""
    run, _ = await crawled.runs.open(RunKind.CRAWL, await connect.now(crawled.client), source=SID)
    item_id = (await crawled.client.zrange(crawled.keys.refs(SID), 0, 0))[0]
    await crawled.client.hset(crawled.keys.run_failed(run.id), item_id, '{"code": "FAIL_TIMEOUT"}')
    await control_of(crawled).cancel(run.id)
    result = await control_of(crawled).retry(run.id)
    cancelled = await crawled.runs.require(run.id, await connect.now(crawled.client))

    assert (result.run.kind, result.items, result.run.parameters) == (RunKind.REINDEX, 1, {"retry": run.id})
    assert cancelled.status is RunStatus.CANCELLED


async def test_retry_may_choose(crawled: Context, site: Site) -> None:
    """By the code and by the time of the failure; without any it says so."""
    site.remove("/1", 500)
    run = await crawl(crawled)
    now = await connect.now(crawled.client)
    for chosen in ({"code": "FAIL_TIMEOUT"}, {"since_ts": now + 1}):
        with pytest.raises(FreshetError, match=r"No item of .* has failed that way"):
            await control_of(crawled).retry(run.id, **chosen)

    assert (await control_of(crawled).retry(run.id, code="FAIL_HTTP", since_ts=now - 60)).items == 1


async def test_failed_items_are_bounded(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond ten thousand nothing is remembered; secrets never are."""
    monkeypatch.setattr("core.runs.io.run_tally.FAILED_KEPT", 3)
    run, _ = await context.runs.open(RunKind.CRAWL, 1.0, source="s")
    tally = RunTally(context.keys, run.id)
    for n in range(5):
        url = f"https://e.org/{n}?token=hunter2"
        await context.leases.run(tally.failed(f"url_{n}", url, "FAIL_TIMEOUT", "no answer", 5.0))
    failed = await context.runs.failed_items(run.id)

    assert [one.item_id for one in failed] == ["url_0", "url_1", "url_2"]
    assert not any("hunter2" in one.url for one in failed)


# ── the timer ──


async def test_cancelled_source_rests_until_someone_runs_it_again(crawled: Context) -> None:
    """Nothing of it is sent by the timer, and its listing waits for its turn; a resumed run ends that."""
    run = await crawl(crawled, stop_after=4)
    cancelled = await control_of(crawled).cancel(run.id)
    resting = await tick(crawled)
    resumed = await control_of(crawled).resume(run.id)
    again = await crawl(crawled)

    assert (cancelled.status, resting) == (RunStatus.CANCELLED, [])
    assert cancelled.left == 13 - cancelled.counts["visited"]
    assert (resumed.id, again.id, again.status) == (run.id, run.id, RunStatus.SUCCEEDED)
    assert await crawled.client.hgetall(crawled.keys.runs_cancelled) == {}


async def test_timer_continues_what_was_interrupted(crawled: Context) -> None:
    """One job per run and no listing beside it; nothing while it is paused."""
    run = await crawl(crawled, stop_after=4)
    sent = [(name, args[:2]) for name, args in await tick(crawled) if name == "crawl"]
    await control_of(crawled).pause(run.id)
    paused = await tick(crawled)

    assert sent == [("crawl", [SID, run.id])]
    assert paused == []


# ── keeping ──


async def test_removed_domain_leaves_no_run(crawled: Context) -> None:
    """Neither open nor paused nor in a list."""
    await crawl(crawled, stop_after=4)
    await crawled.client.hset(crawled.keys.runs_paused, "domain:docs", "now")
    of_docs = (await RunList(crawled.client, crawled.keys).page(RunFilter(domain="docs"), 0.0, 9)).runs
    await crawled.runs.forget_domain("docs", of_docs)
    left = [key async for key in crawled.client.scan_iter("run*")]

    assert (len(of_docs), left) == (1, [])


async def test_lists_of_runs_are_bounded(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last thousand, and the last hundred of each kind."""
    monkeypatch.setattr("core.runs.io.run_store.KEPT", 5)
    monkeypatch.setattr("core.runs.io.run_store.KEPT_OF_KIND", 3)
    store = RunStore(context.client, context.keys)
    for n in range(7):
        run, _ = await store.open(RunKind.CRAWL if n % 2 else RunKind.DOCTOR, float(n + 1), source=str(n))
        await store.finish(run, RunStatus.SUCCEEDED, float(n + 1))
    starts: Callable[[list[Run]], list[float]] = lambda runs: [run.created_ts for run in runs]  # noqa: E731

    assert starts(await store.newest(100, 10.0)) == [7.0, 6.0, 5.0, 4.0, 3.0]
    assert starts(await store.newest(100, 10.0, kind=RunKind.DOCTOR)) == [7.0, 5.0, 3.0]
