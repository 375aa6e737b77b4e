"""A whole domain over HTTP: its state; pause, resume and cancel its runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import Field

from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import KbState
from core.runs.run import Run
from core.sources.io.loss_approval import approve_losses
from core.store import connect
from workers.web.domain_files import take_up_domain
from workers.web.errors import as_conflict
from workers.web.job_models import ApprovalAnswer, DomainJobs, Job
from workers.web.models import DomainId, RequestModel, SourceName
from workers.web.routing import Call, Route

TAG = "domains"


class DomainRequest(RequestModel):
    """One domain."""

    id: DomainId


async def show_state(call: Call, asked: DomainRequest) -> KbState:
    """Return the unified state of a domain."""
    services = call.services
    await take_up_domain(call, asked.id)
    return await KbStateStore(services.client, services.keys).require(asked.id, await connect.now(services.client))


async def pause_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Pause everything of a domain."""
    return await _changed(call, call.services.run_control.pause_domain, asked)


async def resume_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Resume everything of a domain."""
    return await _changed(call, call.services.run_control.resume_domain, asked)


async def cancel_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Cancel the runs of a domain."""
    return await _changed(call, call.services.run_control.cancel_domain, asked)


class ApproveRequest(DomainRequest):
    """Whose losses are approved."""

    source_id: SourceName | None = Field(default=None, description="Only those of this source.")


async def approve_removals(call: Call, asked: ApproveRequest) -> ApprovalAnswer:
    """Let a domain lose more than the loss guard lets it, for a day, and crawl it."""
    services = call.services
    await take_up_domain(call, asked.id)
    sources = await approve_losses(services.client, services.keys, asked.id, asked.source_id)
    with as_conflict():
        run = await services.run_control.start_crawl(asked.id, source=asked.source_id, started_by="api")
    return ApprovalAnswer(domain_id=asked.id, sources=list(sources), job=Job.of(run))


async def _changed(call: Call, change: Callable[[str], Awaitable[list[Run]]], asked: DomainRequest) -> DomainJobs:
    await take_up_domain(call, asked.id)
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
    Route(
        method="POST",
        path="/v2/domains/{id}/approve",
        summary="Approve what the loss guard has stopped: remove it, now and within a day, by a crawl that begins now.",
        tag=TAG,
        request=ApproveRequest,
        handler=approve_removals,
        answer=ApprovalAnswer,
        is_destructive=True,
    ),
)
