"""One domain: its sources, what they refused, what the loss guard stopped."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, Literal

from pydantic import Field

from core.registry.record import Status
from core.runs.io.run_list import RunFilter, RunList
from core.runs.run import source_scope
from core.sources.io.domain_overview import DomainOverview, SourceOverview
from core.sources.io.item_counts import ItemCounts
from core.sources.io.source_losses import IF_RIGHT
from core.urls.secrets import redact
from workers.web.crawler_models import CrawlerRequest
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.dashboard.views.domains import domain_state, is_paused
from workers.web.errors import ApiError, as_conflict
from workers.web.job_models import DomainJobs
from workers.web.models import SourceName
from workers.web.routes import crawler, domain_control, domains
from workers.web.routes.domain_control import ApproveRequest
from workers.web.routes.domains import DomainRequest, RemoveDomainRequest
from workers.web.routes.reports import archive_of
from workers.web.routing import Call

ROUTES = PageTable()
MOST_RUNS = 8
MOST_REPORTS = 8
MOST_DETAILED = 8
"""Sources whose items and refusals are on the page; of the others one at a time."""
REFUSED_READ = 200
EXAMPLES = 5


class DomainPageRequest(DomainRequest):
    """Which domain; `source` to look at one of many sources."""

    source: SourceName | None = None


@ROUTES.page("/domains/{id}", "Domain", "domain.html")
async def show_domain(call: Call, asked: DomainPageRequest) -> dict[str, Any]:
    answer = await domains.show_domain(call, DomainRequest(id=asked.id))
    domain, now, runs = answer.domain, await call.now(), RunList(call.client, call.keys)
    opened = await runs.open(RunFilter(domain=domain.id), now)
    paused = (await call.context.runs.blocked()).paused
    found = await asyncio.to_thread(archive_of(call).list, domain.id)
    shown = [one for one in domain.sources if asked.source in (None, one.id, one.id.partition(".")[2])]
    return {
        "title": domain.name or domain.id,
        "domain": domain,
        "badge": domain_state(domain, paused, opened),
        "is_paused": is_paused(domain, paused) or any(source_scope(one.id) in paused for one in domain.sources),
        "opened": opened,
        "held": held(domain),
        "details": [await _details(call, source) for source in shown[:MOST_DETAILED]],
        "has_more": len(shown) > MOST_DETAILED or bool(asked.source),
        "state": await domain_control.show_state(call, DomainRequest(id=asked.id)),
        "runs": (await runs.page(RunFilter(domain=domain.id), now, MOST_RUNS)).runs,
        "reports": found[:MOST_REPORTS],
        "reports_total": len(found),
        "config": redact(json.dumps(answer.config, indent=2, ensure_ascii=False)),
    }


def held(domain: DomainOverview) -> list[tuple[SourceOverview, str]]:
    """Return the sources that the loss guard stopped, with the sentence, which ends before the command to type."""
    return [(source, source.held.partition(IF_RIGHT)[0].strip()) for source in domain.sources if source.held]


async def _details(call: Call, source: SourceOverview) -> dict[str, Any]:
    """Return the items of a source by status, some in error, and what it refused, by reason."""
    counts = ItemCounts(call.client, call.keys)
    refused, some = await call.context.sources.refused(source.id, REFUSED_READ)
    by_reason: dict[str, list[str]] = {}
    for url, reason in some:
        by_reason.setdefault(reason, []).append(redact(url))
    return {
        "source": source,
        "counts": await counts.by_status(source.id),
        "errors": [
            (redact(shown), redact(message))
            for shown, message in await counts.in_trouble(source.id, Status.ERROR, EXAMPLES)
        ],
        "refused": refused,
        "refused_read": len(some),
        "reasons": [
            (reason, count, by_reason[reason][:EXAMPLES])
            for reason, count in Counter({reason: len(urls) for reason, urls in by_reason.items()}).most_common()
        ],
    }


# ── the buttons ──


class CrawlForm(DomainRequest):
    """What is to be crawled."""

    mode: Literal["incremental", "full"] = "incremental"
    source: SourceName | None = None


class RemoveDomainForm(DomainRequest):
    """What is to go; `confirm` repeats the id."""

    confirm: str = Field(default="", max_length=200)


@ROUTES.action("/domains/{id}/crawl")
async def crawl(call: Call, asked: CrawlForm) -> Done:
    wanted = CrawlerRequest(domain_id=asked.id, mode=asked.mode, source_id=asked.source)
    with as_conflict():
        job = (await crawler.crawl(call, wanted)).jobs[0]
    return Done(f"The crawl of {job.source or job.domain} is {job.status}.", f"/runs/{job.id}")


@ROUTES.action("/domains/{id}/approve")
async def approve(call: Call, asked: ApproveRequest) -> Done:
    answer = await domain_control.approve_removals(call, asked)
    names = ", ".join(answer.sources)
    return Done(f"Approved for a day: {names}. The crawl that removes it is {answer.job.status}.")


@ROUTES.action("/domains/{id}/pause")
async def pause(call: Call, asked: DomainRequest) -> Done:
    jobs = await domain_control.pause_domain(call, asked)
    return Done(f"{asked.id} is paused, also after a restart, until you resume it. {_runs(jobs)}".strip())


@ROUTES.action("/domains/{id}/resume")
async def resume(call: Call, asked: DomainRequest) -> Done:
    return Done(f"{asked.id} goes on. {_runs(await domain_control.resume_domain(call, asked))}".strip())


@ROUTES.action("/domains/{id}/cancel")
async def cancel(call: Call, asked: DomainRequest) -> Done:
    return Done(f"Cancelled; what is done stays. {_runs(await domain_control.cancel_domain(call, asked))}".strip())


def _runs(answer: DomainJobs) -> str:
    return " ".join(f"{job.source or job.domain} is {job.status}." for job in answer.jobs)


@ROUTES.action("/domains/{id}/remove", seconds=None)
async def remove(call: Call, asked: RemoveDomainForm) -> Done:
    if asked.confirm.strip() != asked.id:
        raise ApiError(422, "invalid", "Nothing was removed.", f"Write {asked.id} into the field to confirm.")
    answer = await domains.delete_domain(call, RemoveDomainRequest(id=asked.id))
    counts = ", ".join(f"{count:,} {name}" for name, count in answer.removed.items() if count)
    return Done(f"{asked.id} is removed: {counts or 'it had nothing'}.", "/domains")
