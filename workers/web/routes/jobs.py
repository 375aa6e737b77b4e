"""Runs over HTTP, where they are called jobs: list, look, follow."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from core.registry import time_parsing
from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import Run, RunKind, RunStatus
from core.store import connect
from workers.web.job_models import FailedJobItem, FailedJobItems, Job, JobLog, JobPage
from workers.web.job_stream import stream_jobs
from workers.web.models import DomainId, JobId, Limit, Offset, RequestModel
from workers.web.routing import EVENT_STREAM, Call, RouteTable, StoreCall

ROUTES = RouteTable("jobs")


class JobsRequest(RequestModel):
    """Which jobs."""

    kind: RunKind | None = None
    domain: DomainId | None = None
    status: RunStatus | None = None
    limit: Limit = 50
    offset: Offset = 0


class JobRequest(RequestModel):
    """One job."""

    id: JobId


class FailedRequest(JobRequest):
    """Which failed items of a job."""

    code: str | None = Field(default=None, max_length=40, description="Only these.", examples=["FAIL_TIMEOUT"])
    since: str | None = Field(default=None, max_length=40, description="Failed since: 2h, 3d or a date.")


class FailedListRequest(FailedRequest):
    """Which failed items of a job, and how many."""

    limit: Limit = 1000


@ROUTES.add("GET", "/v2/jobs", "The last runs, newest first.")
async def list_jobs(call: StoreCall, asked: JobsRequest) -> JobPage:
    """Return jobs, newest first."""
    services = call.services
    wanted = RunFilter(asked.kind, asked.domain, asked.status)
    runs = RunList(services.client, services.keys)
    page = await runs.page(wanted, await connect.now(services.client), asked.limit, asked.offset)
    next_offset = asked.offset + asked.limit if page.has_more else None
    return JobPage(jobs=[Job.of(run) for run in page.runs], next_offset=next_offset)


@ROUTES.add("GET", "/v2/jobs/{id}", "One run.")
async def show_job(call: StoreCall, asked: JobRequest) -> Job:
    """Return one job."""
    return Job.of(await _require(call, asked.id))


@ROUTES.add("GET", "/v2/jobs/{id}/log", "The last lines of a run's log.")
async def show_log(call: StoreCall, asked: JobRequest) -> JobLog:
    """Return the end of a job's log."""
    await _require(call, asked.id)
    return JobLog(id=asked.id, lines=await call.services.context.runs.log_lines(asked.id))


@ROUTES.add("GET", "/v2/jobs/{id}/failed", "The items that failed in a run, with their reasons.")
async def list_failed(call: StoreCall, asked: FailedListRequest) -> FailedJobItems:
    """Return items that failed."""
    run, now = await _require(call, asked.id), await connect.now(call.services.client)
    failed_since = await since_ts(call, asked.since)
    items = await call.services.context.runs.all_failed_items(
        run, now, code=asked.code, since_ts=failed_since, most=asked.limit
    )
    return FailedJobItems(id=asked.id, items=[FailedJobItem.of(item) for item in items])


@ROUTES.add(
    "GET",
    "/v2/jobs/{id}/stream",
    "A run as server-sent events until its end: job, log, end.",
    other_types=(EVENT_STREAM,),
    seconds=None,
)
async def follow_job(call: Call, asked: JobRequest) -> web.StreamResponse:
    """Send the progress of a job until its end."""
    await _require(call, asked.id)
    return await stream_jobs(call, [asked.id])


async def _require(call: StoreCall, job_id: str) -> Run:
    return await call.services.context.runs.require(job_id, await connect.now(call.services.client))


async def since_ts(call: StoreCall, word: str | None) -> float | None:
    """Return the point in time that a request names, if it names one."""
    return None if word is None else time_parsing.parse_moment(word, await connect.now(call.services.client))
