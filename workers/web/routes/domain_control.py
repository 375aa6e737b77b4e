"""A whole domain over HTTP: its state; pause, resume and cancel its runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from core.runs.io.state_store import KbStateStore
from core.runs.kb_state import KbState
from core.runs.run import Run
from core.store import connect
from workers.web.errors import as_conflict
from workers.web.job_models import DomainJobs, Job
from workers.web.models import DomainId, RequestModel
from workers.web.routing import Call, Route

TAG = "domains"


class DomainRequest(RequestModel):
    """One domain."""

    id: DomainId


async def show_state(call: Call, asked: DomainRequest) -> KbState:
    """Return the unified state of a domain."""
    services = call.services
    return await KbStateStore(services.client, services.keys).require(asked.id, await connect.now(services.client))


async def pause_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Pause everything of a domain."""
    return await _changed(call.services.run_control.pause_domain, asked)


async def resume_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Resume everything of a domain."""
    return await _changed(call.services.run_control.resume_domain, asked)


async def cancel_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Cancel the runs of a domain."""
    return await _changed(call.services.run_control.cancel_domain, asked)


async def _changed(change: Callable[[str], Awaitable[list[Run]]], asked: DomainRequest) -> DomainJobs:
    with as_conflict():
        runs = await change(asked.id)
    return DomainJobs(domain_id=asked.id, jobs=[Job.of(run) for run in runs])


ROUTES = (
    Route(
        method="GET",
        path="/v2/domains/{id}/state",
        summary="The unified state of a domain: job, crawl, processing, metrics.",
        tag=TAG,
        request=DomainRequest,
        handler=show_state,
        answer=KbState,
    ),
    Route(
        method="POST",
        path="/v2/domains/{id}/pause",
        summary="Pause everything of a domain, also what would start later, until it is resumed.",
        tag=TAG,
        request=DomainRequest,
        handler=pause_domain,
        answer=DomainJobs,
        is_destructive=True,
    ),
    Route(
        method="POST",
        path="/v2/domains/{id}/resume",
        summary="Go on with everything of a domain.",
        tag=TAG,
        request=DomainRequest,
        handler=resume_domain,
        answer=DomainJobs,
        is_destructive=True,
    ),
    Route(
        method="POST",
        path="/v2/domains/{id}/cancel",
        summary="Cancel the runs of a domain; what is done stays.",
        tag=TAG,
        request=DomainRequest,
        handler=cancel_domain,
        answer=DomainJobs,
        is_destructive=True,
    ),
)
