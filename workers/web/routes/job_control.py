"""Pause, resume, cancel and retry runs over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from core.runs.run import Run, RunKind
from workers.web.errors import as_conflict
from workers.web.job_models import Job, JobPage, RetryAnswer
from workers.web.models import RequestModel
from workers.web.routes.jobs import FailedRequest, JobRequest, since_ts
from workers.web.routing import Call, RouteTable, StoreCall

ROUTES = RouteTable("jobs")


@ROUTES.add(
    "POST",
    "/v2/jobs/{id}/pause",
    "Pause a run: pausing while items are in flight, then paused, also after a restart.",
    is_destructive=True,
)
async def pause_job(call: StoreCall, asked: JobRequest) -> Job:
    """Pause a job."""
    return await _changed(call.services.run_control.pause, asked)


@ROUTES.add("POST", "/v2/jobs/{id}/resume", "Go on with a run from where it stopped.", is_destructive=True)
async def resume_job(call: StoreCall, asked: JobRequest) -> Job:
    """Resume a job."""
    return await _changed(call.services.run_control.resume, asked)


@ROUTES.add("POST", "/v2/jobs/{id}/cancel", "End a run before its time; what is done stays.", is_destructive=True)
async def cancel_job(call: StoreCall, asked: JobRequest) -> Job:
    """Cancel a job."""
    return await _changed(call.services.run_control.cancel, asked)


@ROUTES.add("POST", "/v2/jobs/{id}/retry", "Visit the failed items of a run again.", is_destructive=True)
async def retry_job(call: Call, asked: FailedRequest) -> RetryAnswer:
    """Visit failed items again."""
    failed_since = await since_ts(call, asked.since)
    with as_conflict():
        result = await call.services.run_control.retry(asked.id, code=asked.code, since_ts=failed_since)
    return RetryAnswer(job=Job.of(result.run), items=result.items)


class KindRequest(RequestModel):
    """All runs of a kind."""

    kind: RunKind


@ROUTES.add(
    "POST",
    "/v2/jobs/kinds/{kind}/pause",
    "Pause all runs of a kind, also those that would start later.",
    is_destructive=True,
)
async def pause_kind(call: Call, asked: KindRequest) -> JobPage:
    """Pause all runs of a kind."""
    runs = await call.services.run_control.pause_kind(asked.kind)
    return JobPage(jobs=[Job.of(run) for run in runs], next_offset=None)


@ROUTES.add("POST", "/v2/jobs/kinds/{kind}/resume", "Go on with all runs of a kind.", is_destructive=True)
async def resume_kind(call: Call, asked: KindRequest) -> JobPage:
    """Resume all runs of a kind."""
    with as_conflict():
        runs = await call.services.run_control.resume_kind(asked.kind)
    return JobPage(jobs=[Job.of(run) for run in runs], next_offset=None)


async def _changed(change: Callable[[str], Awaitable[Run]], asked: JobRequest) -> Job:
    with as_conflict():
        return Job.of(await change(asked.id))
