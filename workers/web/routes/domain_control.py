"""A whole domain over HTTP: its state; pause, resume and cancel its runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import Field

from core.runs.io.state_store import KbStateStore
from core.runs.knowledge_base_state import SECTIONS, KbState
from core.runs.run import Run
from core.sources.io.source_losses import approve_losses
from workers.web.errors import as_conflict
from workers.web.job_models import ApprovalAnswer, DomainJobs, job_of
from workers.web.models import SourceName, shown
from workers.web.routes.domains import DomainRequest, take_up_domain
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("domains")


def _show_state_classes() -> None:
    for kind in (KbState, *SECTIONS.values()):
        shown(kind, kind.__name__)


_show_state_classes()


@ROUTES.add("GET", "/v2/domains/{id}/state")
async def show_state(call: Call, asked: DomainRequest) -> KbState:
    """The unified state of a domain: job, crawl, processing, metrics."""
    await take_up_domain(call, asked.id)
    return await KbStateStore(call.client, call.keys).require(asked.id, await call.now())


@ROUTES.add("POST", "/v2/domains/{id}/pause", is_destructive=True)
async def pause_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Pause everything of a domain, also what would start later, until it is resumed."""
    return await _changed(call, call.services.run_control.pause_domain, asked)


@ROUTES.add("POST", "/v2/domains/{id}/resume", is_destructive=True)
async def resume_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Go on with everything of a domain."""
    return await _changed(call, call.services.run_control.resume_domain, asked)


@ROUTES.add("POST", "/v2/domains/{id}/cancel", is_destructive=True)
async def cancel_domain(call: Call, asked: DomainRequest) -> DomainJobs:
    """Cancel the runs of a domain; what is done stays."""
    return await _changed(call, call.services.run_control.cancel_domain, asked)


class ApproveRequest(DomainRequest):
    """Whose losses are approved."""

    source_id: SourceName | None = Field(default=None, description="Only those of this source.")


@ROUTES.add("POST", "/v2/domains/{id}/approve", is_destructive=True)
async def approve_removals(call: Call, asked: ApproveRequest) -> ApprovalAnswer:
    """Approve what the loss guard has stopped: remove it, now and within a day, by a crawl that begins now."""
    await take_up_domain(call, asked.id)
    sources = await approve_losses(call.client, call.keys, asked.id, asked.source_id)
    with as_conflict():
        run = await call.services.run_control.start_crawl(asked.id, source=asked.source_id, started_by="api")
    return ApprovalAnswer(domain_id=asked.id, sources=list(sources), job=job_of(run))


async def _changed(call: Call, change: Callable[[str], Awaitable[list[Run]]], asked: DomainRequest) -> DomainJobs:
    await take_up_domain(call, asked.id)
    with as_conflict():
        runs = await change(asked.id)
    return DomainJobs(domain_id=asked.id, jobs=[job_of(run) for run in runs])
