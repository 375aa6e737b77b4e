"""The crawler over HTTP: crawl a domain, or take one step of it alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from core.runtime.api_results import RunState
from core.sources.crawl_parameters import CrawlParameters, StepName
from core.sources.io.crawl_runs import TOOK_OVER
from core.sources.io.domain_steps import DomainSteps, NoSharePointSource, StepResult
from workers.web.crawler_models import CrawlerAnswer, CrawlerRequest
from workers.web.errors import ApiError, as_conflict
from workers.web.job_models import job_of
from workers.web.job_stream import stream_jobs
from workers.web.plain_pages import crawl_page
from workers.web.routing import EVENT_STREAM, HTML, Call, RouteTable

NOTHING_CHANGED = "Nothing was changed."
DRY_RUN_SECONDS = 600.0
"""Listing a site keeps to the gaps between requests."""
Work = Callable[[Call, CrawlerRequest], Awaitable[CrawlerAnswer]]
ROUTES = RouteTable("crawler")


async def _answered(call: Call, asked: CrawlerRequest, work: Work) -> CrawlerAnswer | web.StreamResponse:
    """Do the work and answer in the format that was asked for."""
    with as_conflict():
        answer = await work(call, asked)
    if asked.format == "stream":
        return await stream_jobs(call, [job.id for job in answer.jobs], answer)
    if asked.format == "html":
        return web.Response(text=crawl_page(answer), content_type=HTML)
    return answer


async def crawl(call: Call, asked: CrawlerRequest, step: StepName | None = None) -> CrawlerAnswer:
    """Crawl a domain: list its sources, fetch what is new or changed, remove what is gone."""
    steps, parameters = DomainSteps(call.context), asked.parameters(step)
    action = f"{step}_data" if step else "crawl"
    chosen = await steps.select(asked.domain_id, parameters)
    if asked.dry_run:
        return await _preview(steps, chosen.sids, action, asked)
    jobs = [await _start(call, asked, parameters)]
    message = f"GET /v2/jobs/{jobs[0].id} shows how it goes. {_taken_over(jobs[0])}".strip()
    return _answer(action, asked, message, job=jobs[0], jobs=jobs)


async def download_data(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Download what SharePoint sources have. Web sites, folders and repositories are crawled: one step does it all."""
    return await crawl(call, asked, StepName.DOWNLOAD)


async def process_data(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Process what SharePoint sources have downloaded; check what others have, with mode=full read it again."""
    steps = DomainSteps(call.context)

    async def read_again(sids: Sequence[str]) -> StepResult:
        return await steps.read_again(sids, force=asked.mode == "full", dry_run=asked.dry_run)

    return await _step(call, asked, StepName.PROCESS, read_again)


async def embed_data(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Embed the files of SharePoint sources, and the texts of others that wait."""
    steps = DomainSteps(call.context)

    async def embed_waiting(sids: Sequence[str]) -> StepResult:
        return await steps.embed_waiting(asked.domain_id, sids, dry_run=asked.dry_run)

    return await _step(call, asked, StepName.EMBED, embed_waiting)


async def _step(
    call: Call, asked: CrawlerRequest, step: StepName, others: Callable[[Sequence[str]], Awaitable[StepResult]]
) -> CrawlerAnswer:
    """Take one step: in a run of its own where sources have steps, as `others` does it where they have none."""
    steps, action, parameters = DomainSteps(call.context), f"{step}_data", asked.parameters(step)
    chosen = await steps.select(asked.domain_id, parameters)
    if step is StepName.EMBED and chosen.stepped:
        await steps.require_store(asked.domain_id)
    result = await others(chosen.others) if chosen.others else StepResult(0, 0)
    if asked.dry_run:
        preview = (await _preview(steps, chosen.stepped, action, asked)).preview
        return _answer(action, asked, NOTHING_CHANGED, items=result.items, preview=preview)
    now, runs = await call.now(), call.context.runs
    jobs = [await _start(call, asked, parameters)] if chosen.stepped else []
    jobs += [job_of(await runs.require(run_id, now)) for run_id in result.run_ids]
    sent = f"Jobs that were sent: {result.jobs + bool(chosen.stepped)}."
    told = (sent, result.problem, _taken_over(jobs[0]) if chosen.stepped else "")
    message = " ".join(text for text in told if text)
    return _answer(action, asked, message, items=result.items, job=next(iter(jobs), None), jobs=jobs)


async def _start(call: Call, asked: CrawlerRequest, parameters: CrawlParameters) -> RunState:
    start = call.services.run_control.start_crawl
    return job_of(await start(asked.domain_id, asked.mode, source=asked.source_id, started_by="api", asked=parameters))


def _taken_over(job: RunState) -> str:
    """Return a note that a run does the work of another one too, which waited when it was asked for."""
    run_id = job.parameters.get(TOOK_OVER)
    return f"It took over {run_id}, which had not ended, and does what both were asked for." if run_id else ""


async def _preview(steps: DomainSteps, sids: Sequence[str], action: str, asked: CrawlerRequest) -> CrawlerAnswer:
    async with asyncio.timeout(DRY_RUN_SECONDS):
        reports = await steps.preview(sids, asked.mode)
    return _answer(action, asked, NOTHING_CHANGED, preview=[report.to_json() for report in reports])


async def cleanup_metadata(call: Call, asked: CrawlerRequest) -> CrawlerAnswer:
    """Clean files_metadata.json, which only SharePoint sources have."""
    try:
        done = await DomainSteps(call.context).clean_metadata(asked.domain_id, dry_run=asked.dry_run)
    except NoSharePointSource as error:
        hint = "Nothing has to be done for this domain."
        raise ApiError(409, "no_sharepoint_source", str(error), hint) from None
    message = NOTHING_CHANGED if asked.dry_run else f"Removed {done['removed']:,}; {done['remaining']:,} remain."
    return _answer("cleanup_metadata", asked, message, **done)


def _answer(action: str, asked: CrawlerRequest, message: str, **more: object) -> CrawlerAnswer:
    fields = {"action": action, "domain_id": asked.domain_id, "mode": asked.mode, "dry_run": asked.dry_run}
    return CrawlerAnswer.model_validate({**fields, "message": message, **more})


def _add_routes() -> None:
    for work in (crawl, download_data, process_data, embed_data, cleanup_metadata):
        _add_route(work)


def _add_route(work: Work) -> None:
    @ROUTES.add(
        "POST",
        f"/v2/crawler/{work.__name__}",
        summary=work.__doc__,
        other_types=(EVENT_STREAM, HTML),
        is_destructive=True,
        seconds=None,
    )
    async def handle(call: Call, asked: CrawlerRequest) -> CrawlerAnswer | web.StreamResponse:
        return await _answered(call, asked, work)


_add_routes()
