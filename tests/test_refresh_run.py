"""A refresh is a run of the timer's jobs over one source: opened, paused, continued and ended."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from core.runs.io.run_control import RunControl
from core.runs.run import RunKind, RunStatus
from core.runtime.context import Context
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests.crawled_site import SID
from tests.refresh_jobs import make_all_due, send_refresh, work
from tests.run_requests import runs_of
from tests.site import Site
from tests.thirteen_page_site import crawled

__all__ = ["crawled"]


async def crawl(context: Context) -> Mapping[str, str]:
    return await crawl_source(context, SID, CrawlMode.INCREMENTAL)


async def test_refresh_is_a_run_of_jobs(crawled: Context, site: Site) -> None:
    """The timer opens it with its first jobs; it ends when all are done and nothing is due."""
    await crawl(crawled)
    await make_all_due(crawled)
    sent = await send_refresh(crawled)
    [opened] = await runs_of(crawled, RunKind.REFRESH)
    for place, args in enumerate(sent):
        await work(crawled, [args])
        [between] = await runs_of(crawled, RunKind.REFRESH)
        assert between.is_open == (place < len(sent) - 1)

    assert len(sent) == 5
    assert opened.status is RunStatus.QUEUED
    assert {args[3] for args in sent} == {opened.id}
    assert (between.status, between.counts["visited"], between.counts["unchanged"]) == (RunStatus.SUCCEEDED, 13, 13)
    assert await crawled.runs.open_ids() == {}


async def test_job_of_an_older_version_finds_its_run(crawled: Context) -> None:
    """A job without a run id visits its items all the same, as a refresh of its source."""
    await crawl(crawled)
    await make_all_due(crawled)
    now = await connect.now(crawled.client)
    ids = await crawled.due.pick(SID, now, 100, 900.0)
    await work(crawled, [[ids, now, SID, ""]])
    [run] = await runs_of(crawled, RunKind.REFRESH)

    assert (run.status, run.counts["visited"]) == (RunStatus.SUCCEEDED, 13)


@pytest.mark.parametrize("scope", ["source:docs.site", "domain:docs", "refresh"])
async def test_what_is_paused_is_left_alone(crawled: Context, site: Site, scope: str) -> None:
    """The timer sends nothing of it, and a job that was sent before makes its items due again."""
    await crawl(crawled)
    await make_all_due(crawled)
    sent = await send_refresh(crawled)
    await crawled.client.hset(crawled.keys.runs_paused, scope, "now")
    site.forget_requests()
    await work(crawled, sent)
    [run] = await runs_of(crawled, RunKind.REFRESH)
    due = await crawled.due.count(SID, await connect.now(crawled.client))

    assert (run.status, site.web.paths, due) == (RunStatus.PAUSED, [], 13)
    assert await send_refresh(crawled) == []


async def test_job_joins_the_crawl_that_took_over(crawled: Context, site: Site) -> None:
    """A refresh that a crawl supersedes has ended; a job of it that comes late finds nothing left to do."""
    await crawl(crawled)
    await make_all_due(crawled)
    sent = await send_refresh(crawled)
    fields = await crawl(crawled)
    [refresh] = await runs_of(crawled, RunKind.REFRESH)
    requests = len(site.web.requests)
    await work(crawled, sent)

    assert (refresh.status, refresh.message) == (RunStatus.SUCCEEDED, "a crawl of the source took over")
    assert int(fields["visited"]) == 13
    assert len(site.web.requests) == requests
    assert len(await runs_of(crawled, RunKind.REFRESH)) == 1


@pytest.mark.parametrize("taken", [0, 1, 5])
async def test_refresh_that_was_paused_while_queued_ends(crawled: Context, site: Site, taken: int) -> None:
    """Whether its first jobs came during the pause, made their items due again and did nothing, or come after it."""
    await crawl(crawled)
    await make_all_due(crawled)
    sent = await send_refresh(crawled)
    [queued] = await runs_of(crawled, RunKind.REFRESH)
    control = RunControl(crawled.settings, crawled.client, crawled.keys)
    await control.pause(queued.id)
    site.forget_requests()
    await work(crawled, sent[:taken])
    asked = list(site.web.paths)
    resumed = await control.resume(queued.id)
    await work(crawled, sent[taken:])
    await work(crawled, await send_refresh(crawled))
    [ended] = await runs_of(crawled, RunKind.REFRESH)

    assert (asked, resumed.id, resumed.status) == ([], queued.id, RunStatus.QUEUED)
    assert (ended.id, ended.status, ended.counts["visited"]) == (queued.id, RunStatus.SUCCEEDED, 13)
    assert await crawled.runs.open_ids() == {}


async def test_refresh_ends_where_something_is_always_due(crawled: Context) -> None:
    """After an hour it takes in nothing more and ends when its jobs are done; what is due then is for the next one."""
    await crawl(crawled)
    await make_all_due(crawled)
    [*early, late] = await send_refresh(crawled)
    [first] = await runs_of(crawled, RunKind.REFRESH)
    await work(crawled, early)
    await make_all_due(crawled)
    more = await send_refresh(crawled)
    await crawled.client.hset(crawled.keys.run(first.id), "takes_until_ts", "1.0")
    await make_all_due(crawled)
    await work(crawled, [late])
    ended = await crawled.runs.require(first.id, await connect.now(crawled.client))
    await work(crawled, [*more, *await send_refresh(crawled)])
    [second, _] = await runs_of(crawled, RunKind.REFRESH)

    assert {args[3] for args in more} == {first.id}
    assert ended.status is RunStatus.SUCCEEDED
    assert (second.id != first.id, second.status) == (True, RunStatus.SUCCEEDED)
    assert await crawled.runs.open_ids() == {}
    assert await crawled.due.count(SID, await connect.now(crawled.client)) == 0


async def test_refresh_that_had_its_time_gets_no_more_jobs(crawled: Context) -> None:
    """While someone works on it the timer sends nothing for its source; after a pause it has another hour."""
    await crawl(crawled)
    await make_all_due(crawled)
    sent = await send_refresh(crawled)
    [run] = await runs_of(crawled, RunKind.REFRESH)
    now = await connect.now(crawled.client)
    await crawled.runs.step("join", run, now, token="one", worker={"ts": now, "is_job": True})
    await crawled.client.hset(crawled.keys.run(run.id), "takes_until_ts", "1.0")
    await make_all_due(crawled)
    nothing = await send_refresh(crawled)
    control = RunControl(crawled.settings, crawled.client, crawled.keys)
    await control.pause(run.id)
    await control.resume(run.id)
    again = await send_refresh(crawled)

    assert (nothing, len(again)) == ([], len(sent))
