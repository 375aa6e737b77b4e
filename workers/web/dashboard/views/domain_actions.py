"""The buttons of a domain: crawl, approve, pause, resume, cancel, remove."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from workers.web.crawl_models import CrawlerRequest
from workers.web.dashboard.pages import Done, PageTable
from workers.web.domain_models import RemoveDomainRequest
from workers.web.errors import ApiError, as_conflict
from workers.web.job_models import DomainJobs
from workers.web.models import DomainId, RequestModel, SourceName
from workers.web.routes import crawler, domain_control, domains
from workers.web.routes.domain_control import ApproveRequest, DomainRequest
from workers.web.routing import Call

ROUTES = PageTable()


class CrawlForm(RequestModel):
    """What is to be crawled."""

    id: DomainId
    mode: Literal["incremental", "full"] = "incremental"
    source: SourceName | None = None


class RemoveForm(RequestModel):
    """What is to go; `confirm` repeats the id."""

    id: DomainId
    confirm: str = Field(default="", max_length=200)


@ROUTES.action("/domains/{id}/crawl", "Crawl a domain, or a source of it.")
async def crawl(call: Call, asked: CrawlForm) -> Done:
    """Begin a crawl now."""
    wanted = CrawlerRequest(domain_id=asked.id, mode=asked.mode, source_id=asked.source)
    with as_conflict():
        job = (await crawler.crawl(call, wanted)).jobs[0]
    return Done(f"The crawl of {job.source or job.domain} is {job.status}.", f"/runs/{job.id}")


@ROUTES.action("/domains/{id}/approve", "Approve what the loss guard stopped.")
async def approve(call: Call, asked: ApproveRequest) -> Done:
    """Let it lose what is missing, and crawl."""
    answer = await domain_control.approve_removals(call, asked)
    names = ", ".join(answer.sources)
    return Done(f"Approved for a day: {names}. The crawl that removes it is {answer.job.status}.")


@ROUTES.action("/domains/{id}/pause", "Pause a domain.")
async def pause(call: Call, asked: DomainRequest) -> Done:
    """Pause everything of a domain."""
    jobs = await domain_control.pause_domain(call, asked)
    return Done(f"{asked.id} is paused, also after a restart, until you resume it. {_runs(jobs)}".strip())


@ROUTES.action("/domains/{id}/resume", "Go on with a domain.")
async def resume(call: Call, asked: DomainRequest) -> Done:
    """Go on with everything of a domain."""
    return Done(f"{asked.id} goes on. {_runs(await domain_control.resume_domain(call, asked))}".strip())


@ROUTES.action("/domains/{id}/cancel", "Cancel the runs of a domain.")
async def cancel(call: Call, asked: DomainRequest) -> Done:
    """Cancel its runs."""
    return Done(f"Cancelled; what is done stays. {_runs(await domain_control.cancel_domain(call, asked))}".strip())


def _runs(answer: DomainJobs) -> str:
    return " ".join(f"{job.source or job.domain} is {job.status}." for job in answer.jobs)


@ROUTES.action("/domains/{id}/remove", "Remove a domain.", seconds=None)
async def remove(call: Call, asked: RemoveForm) -> Done:
    """Remove a domain with all its items."""
    if asked.confirm.strip() != asked.id:
        raise ApiError(422, "invalid", "Nothing was removed.", f"Write {asked.id} into the field to confirm.")
    answer = await domains.delete_domain(call, RemoveDomainRequest(id=asked.id))
    counts = ", ".join(f"{count:,} {name}" for name, count in answer.removed.items() if count)
    return Done(f"{asked.id} is removed: {counts or 'it had nothing'}.", "/domains")
