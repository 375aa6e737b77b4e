"""The crawler over HTTP: crawl a domain, or take one step of it alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aiohttp import web

from core.sources.domain_schema import SourceRecord
from core.sources.io.domain_steps import DomainSteps, NoSharePointSource, StepResult
from core.store import connect
from workers.web.crawl_models import CrawlerAnswer, CrawlerRequest, SourcePreview
from workers.web.crawl_page import crawl_page
from workers.web.errors import ApiError, as_conflict
from workers.web.job_models import Job
from workers.web.job_stream import stream_jobs
from workers.web.routing import EVENT_STREAM, HTML, Call, Route

DRY_RUN_SECONDS = 600.0
"""Listing a site keeps to the gaps between requests."""
Work = Callable[[Call, CrawlerRequest], Awaitable[CrawlerAnswer]]


async def _answered(call: Call, asked: CrawlerRequest, work: Work) -> CrawlerAnswer | web.StreamResponse:
    """Do the work and answer in the format that was asked for."""
    with as_conflict():
        answer = await work(call, asked)
    if asked.format == "stream":
        return await stream_jobs(call, [job.id for job in answer.jobs], answer)
    if asked.format == "html":
        return web.Response(text=crawl_page(answer), content_type=HTML)
    return answer


async def crawl(call: Call, asked: CrawlerRequest, action: str = "crawl") -> CrawlerAnswer:
    """Start a crawl of the domain, or of some of its sources."""
    sources = await _selected(call, asked)
    if asked.dry_run:
        async with asyncio.timeout(DRY_RUN_SECONDS):
            reports = await DomainSteps(call.services.context).preview(sources, asked.mode)
        preview = [SourcePreview.of(report) for report in reports]
        return _answer(action, asked, "Nothing was changed.", preview=preview)
    is_whole = asked.source_id is None and asked.source_type is None and asked.scope == "all"
    names = [None] if is_whole else [record.sid for record in sources]
    start = call.services.run_control.start_crawl
    runs = [await start(asked.domain_id, asked.mode, source=name, started_by="api") for name in names]
    jobs = [Job.of(run) for run in runs]
    return _answer(action, asked, f"GET /v2/jobs/{jobs[0].id} shows how it goes.", job=jobs[0], jobs=jobs)


async def process_data(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Check what is known of the sources, or with mode=full read it again, without listing them."""
    sources, steps = await _selected(call, asked), DomainSteps(call.services.context)
    result = await steps.read_again(sources, force=asked.mode == "full", dry_run=asked.dry_run)
    return _step_answer("process_data", asked, result, await _jobs(call, result))


async def embed_data(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Embed the texts of the sources that wait for it."""
    sources, steps = await _selected(call, asked), DomainSteps(call.services.context)
    result = await steps.embed_waiting(asked.domain_id, sources, dry_run=asked.dry_run)
    return _step_answer("embed_data", asked, result, await _jobs(call, result))


async def _jobs(call: Call, result: StepResult) -> list[Job]:
    now = await connect.now(call.services.client)
    return [Job.of(await call.services.context.runs.require(run_id, now)) for run_id in result.run_ids]


async def cleanup_metadata(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Clean files_metadata.json, which only SharePoint sources have."""
    try:
        await DomainSteps(call.services.context).require_sharepoint(asked.domain_id)
    except NoSharePointSource as error:
        hint = "Nothing has to be done for this domain."
        raise ApiError(409, "no_sharepoint_source", str(error), hint) from None
    raise AssertionError("this version has no SharePoint sources")


async def _selected(call: Call, asked: CrawlerRequest) -> list[SourceRecord]:
    return await DomainSteps(call.services.context).select(
        asked.domain_id, source=asked.source_id, source_type=asked.source_type, scope=asked.scope
    )


def _answer(action: str, asked: CrawlerRequest, message: str, **more: object) -> CrawlerAnswer:
    fields = {"action": action, "domain_id": asked.domain_id, "mode": asked.mode, "dry_run": asked.dry_run}
    return CrawlerAnswer.model_validate({**fields, "message": message, **more})


def _step_answer(action: str, asked: CrawlerRequest, result: StepResult, jobs: Sequence[Job] = ()) -> CrawlerAnswer:
    sentence = "Nothing was changed." if asked.dry_run else f"Jobs that were sent: {result.jobs}."
    message = f"{sentence} {result.problem}".strip()
    return _answer(action, asked, message, items=result.items, job=next(iter(jobs), None), jobs=list(jobs))


def _route(name: str, summary: str, work: Work) -> Route[CrawlerRequest]:
    async def handle(call: Call, asked: CrawlerRequest) -> CrawlerAnswer | web.StreamResponse:
        return await _answered(call, asked, work)

    return Route(
        method="POST",
        path=f"/v2/crawler/{name}",
        summary=summary,
        tag="crawler",
        request=CrawlerRequest,
        handler=handle,
        answer=CrawlerAnswer,
        other_types=(EVENT_STREAM, HTML),
        is_destructive=True,
        seconds=None,
    )


ROUTES = (
    _route("crawl", "Crawl a domain: list its sources, fetch what is new or changed, remove what is gone.", crawl),
    _route(
        "download_data",
        "The same for web sites, folders and repositories: what they list is fetched and read in one step.",
        partial(crawl, action="download_data"),
    ),
    _route("process_data", "Check every known item of a domain; with mode=full read each again.", process_data),
    _route("embed_data", "Embed the texts of a domain that wait for it.", embed_data),
    _route("cleanup_metadata", "Clean files_metadata.json, which only SharePoint sources have.", cleanup_metadata),
)
