"""The health of the store: what checks found, what was repaired, what only a person can change."""

from __future__ import annotations

from collections import Counter
from typing import Any

from core.doctor.invariants import Problem
from core.runs.run import RunKind
from core.store import redis_health
from core.store.quarantine import quarantined_keys
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.models import Flag, NoParameters, RequestModel
from workers.web.routes import jobs, maintenance
from workers.web.routes.jobs import JobsRequest
from workers.web.routes.maintenance import DoctorRequest
from workers.web.routing import Call

ROUTES = PageTable()
SAMPLE = 200
MOST_RUNS = 5
MOST_EVENTS = 1_000
MOST_SHOWN = 20
INVARIANTS = {str(problem): problem.invariant for problem in Problem}


class DoctorPageRequest(RequestModel):
    """Should a sample be checked now?"""

    check: Flag = False


@ROUTES.page("/doctor", "Doctor", "doctor.html")
async def show_doctor(call: Call, asked: DoctorPageRequest) -> dict[str, Any]:
    """Show the last checks and repairs; check a sample on request, which changes nothing."""
    report = await maintenance.check_sample(call, DoctorRequest(sample=SAMPLE)) if asked.check else None
    healed = [one for one in await call.services.events.stream.newest(MOST_EVENTS) if one.type == "healed"]
    past = await jobs.list_jobs(call, JobsRequest(kind=RunKind.DOCTOR, limit=MOST_RUNS))
    return {
        "report": report,
        "found": Counter(one.problem for one in report.findings) if report else {},
        "invariants": INVARIANTS,
        "warnings": report.warnings if report else await redis_health.dangers(call.client),
        "healed": healed[:MOST_SHOWN],
        "healed_by_kind": Counter(one.fields.get("wrong", "a lost record") for one in healed),
        "quarantined": await quarantined_keys(call.client, call.keys, MOST_SHOWN),
        "runs": past.jobs,
        "most_events": MOST_EVENTS,
    }


@ROUTES.action("/doctor/repair")
async def repair_sample(call: Call, _: NoParameters) -> Done:
    report = await maintenance.check_sample(call, DoctorRequest(sample=SAMPLE, fix=True))
    found = len(report.findings)
    if not found:
        return Done(f"{report.checked:,} names checked, nothing is wrong.", "/doctor")
    return Done(f"{report.checked:,} names checked, {found:,} problems found and repaired.", "/doctor?check=true")
