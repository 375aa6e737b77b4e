"""The tools for runs: run_status and run_control."""

from __future__ import annotations

from workers.mcp.models import RunControlRequest, RunsAnswer, RunStatusRequest
from workers.web.job_models import Job
from workers.web.routes import job_control, jobs
from workers.web.routes.jobs import FailedListRequest, JobRequest
from workers.web.routing import StoreCall

MOST_LOG_LINES = 20
MOST_FAILED = 20

_ACTIONS = {"pause": job_control.pause_job, "resume": job_control.resume_job, "cancel": job_control.cancel_job}


async def show_runs(call: StoreCall, asked: RunStatusRequest) -> RunsAnswer:
    """Return one run with its log and failures, or the last runs."""
    if asked.id is None:
        page = await jobs.list_jobs(call, asked)
        return RunsAnswer(runs=page.jobs, next_offset=page.next_offset, log=[], failed=[])
    one = JobRequest(id=asked.id)
    run, log = await jobs.show_job(call, one), await jobs.show_log(call, one)
    failed = await jobs.list_failed(call, FailedListRequest(id=asked.id, limit=MOST_FAILED))
    return RunsAnswer(runs=[run], next_offset=None, log=log.lines[-MOST_LOG_LINES:], failed=failed.items)


async def control_run(call: StoreCall, asked: RunControlRequest) -> Job:
    """Pause, resume or cancel a run."""
    return await _ACTIONS[asked.action](call, JobRequest(id=asked.id))
