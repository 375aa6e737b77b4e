"""A dry run as a page: what a crawl would add, change and remove, and the button that approves it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from workers.web.crawl_models import CrawlerRequest, SourcePreview
from workers.web.dashboard.pages import page
from workers.web.domain_models import OneDomainRequest
from workers.web.errors import as_conflict, explained_request
from workers.web.models import DomainId, Flag, RequestModel, SourceName
from workers.web.routes import crawler, domains
from workers.web.routing import Call

GROUPS = ("removed", "added", "changed", "refused")
"""What a person should look at first."""
COUNTED = (*GROUPS, "unchanged", "requests")


class DryRunRequest(RequestModel):
    """Of what; without `now` the page comes at once and asks for the result itself."""

    id: DomainId
    source: SourceName | None = None
    mode: Literal["incremental", "full"] = "incremental"
    now: Flag = False


async def show_dry_run(call: Call, asked: DryRunRequest) -> dict[str, Any]:
    """Show what a crawl would do; nothing is changed."""
    domain = (await domains.show_domain(call, OneDomainRequest(id=asked.id))).domain
    reports, problem = await _previews(call, asked) if asked.now else ([], "")
    return {
        "title": f"Dry run of {domain.name or domain.id}",
        "domain": domain,
        "asked": asked,
        "reports": reports,
        "problem": problem,
        "groups": GROUPS,
        "totals": {
            name: sum(getattr(one, name) or 0 for one in reports) for name in (*GROUPS, "unchanged", "requests")
        },
    }


async def _previews(call: Call, asked: DryRunRequest) -> tuple[list[SourcePreview], str]:
    """Return what each source would do, or why that cannot be told."""
    wanted = CrawlerRequest(domain_id=asked.id, mode=asked.mode, source_id=asked.source, dry_run=True)
    try:
        with as_conflict():
            return (await crawler.crawl(call, wanted)).preview, ""
    except TimeoutError:
        minutes, command = crawler.DRY_RUN_SECONDS / 60, f"freshet domain crawl {asked.id} --dry-run"
        return [], f"Listing took more than {minutes:.0f} minutes. Look at one source at a time, or use `{command}`."
    except Exception as error:
        problem = explained_request(call.http, error)
        if problem.status >= 500:
            raise
        return [], f"{problem.detail.message} {problem.detail.hint}".strip()


ROUTES = (
    replace(
        page("/domains/{id}/dry-run", "Dry run", "dry_run.html", show_dry_run, DryRunRequest),
        seconds=crawler.DRY_RUN_SECONDS + 60,
    ),
)
