"""Runs over HTTP, where they are called jobs: list, look, follow; pause, resume, cancel and retry them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from pydantic import Field

from core.registry import time_parsing
from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.api_results import RunState
from workers.web.errors import as_conflict
from workers.web.job_models import FailedJobItems, JobLog, JobPage, RetryAnswer, job_of
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


class KindRequest(RequestModel):
    """All runs of a kind."""

    kind: RunKind


@ROUTES.add("GET", "/v2/jobs")
async def list_jobs(call: StoreCall, asked: JobsRequest) -> JobPage:
    """The last runs, newest first."""
    wanted = RunFilter(asked.kind, asked.domain, asked.status)
    runs = RunList(call.client, call.keys)
    page = await runs.page(wanted, await call.now(), asked.limit, asked.offset)
    next_offset = asked.offset + asked.limit if page.has_more else None
    return JobPage(jobs=[job_of(run) for run in page.runs], next_offset=next_offset)


@ROUTES.add("GET", "/v2/jobs/{id}")
async def show_job(call: StoreCall, asked: JobRequest) -> RunState:
    """One run."""
    return job_of(await _require(call, asked.id))


@ROUTES.add("GET", "/v2/jobs/{id}/log")
async def show_log(call: StoreCall, asked: JobRequest) -> JobLog:
    """The last lines of a run's log."""
    await _require(call, asked.id)
    return JobLog(id=asked.id, lines=await call.context.runs.log_lines(asked.id))


@ROUTES.add("GET", "/v2/jobs/{id}/failed")
async def list_failed(call: StoreCall, asked: FailedListRequest) -> FailedJobItems:
    """The items that failed in a run, with their reasons."""
    run, now = await _require(call, asked.id), await call.now()
    failed_since = await _since_ts(call, asked.since)
    items = await call.context.runs.all_failed_items(run, now, code=asked.code, since_ts=failed_since, most=asked.limit)
    return FailedJobItems(id=asked.id, items=items)


@ROUTES.add("GET", "/v2/jobs/{id}/stream", other_types=(EVENT_STREAM,), seconds=None)
async def follow_job(call: Call, asked: JobRequest) -> web.StreamResponse:
    """A run as server-sent events until its end: job, log, end."""
    await _require(call, asked.id)
    return await stream_jobs(call, [asked.id])


@ROUTES.add("POST", "/v2/jobs/{id}/pause", is_destructive=True)
async def pause_job(call: StoreCall, asked: JobRequest) -> RunState:
    """Pause a run: pausing while items are in flight, then paused, also after a restart."""
    return await _changed(call.services.run_control.pause, asked)


@ROUTES.add("POST", "/v2/jobs/{id}/resume", is_destructive=True)
async def resume_job(call: StoreCall, asked: JobRequest) -> RunState:
    """Go on with a run from where it stopped."""
    return await _changed(call.services.run_control.resume, asked)


@ROUTES.add("POST", "/v2/jobs/{id}/cancel", is_destructive=True)
async def cancel_job(call: StoreCall, asked: JobRequest) -> RunState:
    """End a run before its time; what is done stays."""
    return await _changed(call.services.run_control.cancel, asked)


@ROUTES.add("POST", "/v2/jobs/{id}/retry", is_destructive=True)
async def retry_job(call: Call, asked: FailedRequest) -> RetryAnswer:
    """Visit the failed items of a run again."""
    failed_since = await _since_ts(call, asked.since)
    with as_conflict():
        result = await call.services.run_control.retry(asked.id, code=asked.code, since_ts=failed_since)
    return RetryAnswer(job=job_of(result.run), items=result.items)


@ROUTES.add("POST", "/v2/jobs/kinds/{kind}/pause", is_destructive=True)
async def pause_kind(call: Call, asked: KindRequest) -> JobPage:
    """Pause all runs of a kind, also those that would start later."""
    runs = await call.services.run_control.pause_kind(asked.kind)
    return JobPage(jobs=[job_of(run) for run in runs], next_offset=None)


@ROUTES.add("POST", "/v2/jobs/kinds/{kind}/resume", is_destructive=True)
async def resume_kind(call: Call, asked: KindRequest) -> JobPage:
    """Go on with all runs of a kind."""
    with as_conflict():
        runs = await call.services.run_control.resume_kind(asked.kind)
    return JobPage(jobs=[job_of(run) for run in runs], next_offset=None)


async def _since_ts(call: StoreCall, word: str | None) -> float | None:
    """Return the point in time that a request names, if it names one."""
    return None if word is None else time_parsing.parse_moment(word, await call.now())


async def _require(call: StoreCall, job_id: str) -> Run:
    return await call.context.runs.require(job_id, await call.now())


async def _changed(change: Callable[[str], Awaitable[Run]], asked: JobRequest) -> RunState:
    with as_conflict():
        return job_of(await change(asked.id))
