"""A reindex of what is paused: it is registered, and visited when someone resumes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from core import api as python_api
from core.registry.io.reindex import Reindexer, ReindexRequest, ReindexResult
from core.registry.io.reindex_job import ReindexJob, start_reindex
from core.registry.io.url_adder import UrlAdder
from core.registry.record import Status
from core.runs.io import run_worker
from core.runs.io.run_control import RunControl
from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.store import connect
from core.store.clock import ServerClock
from scripts.reindex import reindex as reindex_script
from tests.api import ApiServer
from tests.crawled_site import SID, crawl_context, item
from tests.refresh_jobs import tick
from tests.run_requests import runs_of
from tests.site import Site

RESUME = "python -m scripts.domain resume docs"


@pytest.fixture
async def paused(settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Context]:
    """Two pages of the domain docs that were crawled; then the domain was paused. A page of nobody's is known too."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    site.page("/", links=["/a"])
    site.page("/a")
    site.page("/alone")
    async with crawl_context(settings) as context:
        config = {"id": "docs", "web_sources": [{"id": "site", "url": site.url("/")}]}
        await add_domain(context.settings, context.client, context.keys, parse_domain(json.dumps(config), "/"))
        await crawl_source(context, SID, CrawlMode.FULL)
        await UrlAdder(context.settings, context.client, context.keys).add(site.url("/alone"))
        await control_of(context).pause_domain("docs")
        await context.client.delete(*[key async for key in context.client.scan_iter("rq:*")])
        site.forget_requests()
        yield context


def control_of(context: Context) -> RunControl:
    return RunControl(context.settings, context.client, context.keys)


async def reindex(context: Context, request: ReindexRequest) -> ReindexResult:
    return await Reindexer(context.settings, context.client, context.keys).run(request)


async def read(context: Context, run_id: str) -> Run:
    return await context.runs.require(run_id, await connect.now(context.client))


async def work(context: Context, run: Run) -> None:
    """Jobs of the run, as long as they get on."""
    while await ReindexJob(context, await ServerClock.ask(context.client), run).visit((), lambda: False):
        pass


async def test_page_of_a_paused_domain_waits(paused: Context, site: Site) -> None:
    """Its generation rises at once; no job is sent, and none visits it. Resumed, its run goes on and ends."""
    url = site.url("/a")
    before = (await item(paused, url))["reindexGeneration"]
    result = await reindex(paused, ReindexRequest(name=url, force=True))
    run = await read(paused, result.run_id)
    await work(paused, run)
    sent = [args for _, args in await tick(paused) if SID in args or run.id in args]
    asked = list(site.web.paths)
    after, waiting = (await item(paused, url))["reindexGeneration"], await read(paused, run.id)
    await control_of(paused).resume_domain("docs")
    jobs = [key async for key in paused.client.scan_iter("rq:job:*reindex*")]
    await work(paused, run)
    ended = await read(paused, run.id)

    assert (int(after) - int(before), result.items, result.jobs, result.waiting) == (1, 1, 0, 1)
    assert result.paused == f"1 item waits: the domain docs is paused; `{RESUME}` goes on with it."
    assert (sent, asked, waiting.domain, waiting.status) == ([], [], "docs", RunStatus.PAUSED)
    assert len(jobs) == 1
    assert (ended.status, ended.counts["visited"]) == (RunStatus.SUCCEEDED, 1)
    assert site.web.paths == ["/a"]


async def test_only_what_is_paused_waits(paused: Context, site: Site) -> None:
    """A reindex of everything visits the rest, says what it waits for, and ends when that is resumed."""
    result = await reindex(paused, ReindexRequest(all=True))
    run = await read(paused, result.run_id)
    await work(paused, run)
    asked, waiting = list(site.web.paths), await read(paused, run.id)
    await control_of(paused).resume_domain("docs")
    await work(paused, run)
    ended = await read(paused, run.id)

    assert (result.items, result.waiting, result.jobs, run.domain) == (3, 2, 1, "")
    assert asked == ["/alone"]
    assert (waiting.status, waiting.message) == (RunStatus.QUEUED, "2 items wait: the domain docs is paused")
    assert (ended.status, ended.counts["visited"]) == (RunStatus.SUCCEEDED, 3)


async def test_paused_reindexing_is_told(paused: Context, site: Site) -> None:
    """Also where it is not the domain but the run, or all reindexing, that is paused."""
    request = ReindexRequest(name=site.url("/alone"))
    await control_of(paused).pause_kind(RunKind.REINDEX)
    by_kind = await reindex(paused, request)
    await control_of(paused).resume_kind(RunKind.REINDEX)
    await control_of(paused).pause(by_kind.run_id)
    by_run = await reindex(paused, request)

    assert (by_kind.waiting, by_kind.jobs, by_run.waiting, by_run.jobs) == (1, 0, 1, 0)
    command = "python -m scripts.runs resume"
    assert by_kind.paused == f"1 item waits: reindexing is paused; `{command} reindex` goes on with it."
    assert by_run.paused == f"1 item waits: {by_run.run_id} is paused; `{command} {by_run.run_id}` goes on with it."


async def test_everyone_is_told(
    paused: Context, adopted: None, site: Site, api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script, the API, Python, whoever adds a known URL again; a job of someone's own waits as well."""
    url = site.url("/a")
    answer = (await api.post("/api/ReindexItem", json={"source": url})).json
    added = await UrlAdder(paused.settings, paused.client, paused.keys).add(url)
    again = (await api.post("/v2/crawler/process_data?domain_id=docs")).json
    await reindex_script(ReindexRequest(name=url))
    printed = capsys.readouterr().out
    called = await asyncio.to_thread(python_api.reindex, url)
    own = await start_reindex(paused, [url], force=False)
    listed = (await api.get("/v2/jobs?domain=docs&kind=reindex")).json["jobs"]

    for sentence in (answer["paused"], again["message"], called.paused, added.next_step):
        assert "the domain docs is paused" in sentence
    assert f"the domain docs is paused; `{RESUME}`" in printed
    assert [job["id"] for job in listed] == [answer["run_id"]] == [own.run.id if own.run else ""]
    assert site.web.paths == []


async def test_run_is_listed_with_its_domain(paused: Context, site: Site) -> None:
    """If all that it is about belongs to one; then it is a run of its own beside others."""
    await control_of(paused).resume_domain("docs")
    requests = [
        ReindexRequest(name=site.url("/a")),
        ReindexRequest(domain="docs"),
        ReindexRequest(source=SID),
        ReindexRequest(name=site.url("/alone")),
        ReindexRequest(all=True),
    ]
    results = [await reindex(paused, request) for request in requests]
    domains = [(await read(paused, result.run_id)).domain for result in results]
    wanted = RunFilter(kind=RunKind.REINDEX, domain="docs")
    of_docs = (await RunList(paused.client, paused.keys).page(wanted, 0.0, 9)).runs

    assert domains == ["docs", "docs", "docs", "", ""]
    assert [run.id for run in of_docs] == [results[0].run_id]
    assert len(await runs_of(paused, RunKind.REINDEX)) == 2


async def test_a_damaged_status_does_not_keep_a_page_from_being_added(paused: Context, site: Site) -> None:
    """What a person wrote into the record is read as everywhere: an unknown status is Pending."""
    adder = UrlAdder(paused.settings, paused.client, paused.keys)
    known = await adder.add(site.url("/alone"))
    await paused.client.hset(paused.keys.item(known.id), "status", "Foo")

    assert (await adder.add(site.url("/alone"))).status is Status.PENDING
