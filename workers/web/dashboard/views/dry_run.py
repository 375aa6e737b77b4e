"""A dry run as a page: what a crawl would add, change and remove, and the button that approves it."""

from __future__ import annotations

from typing import Any

from core.registry.io.loss_guard import KEPT
from core.sources.io.domain_overview import SourceOverview
from core.sources.io.item_counts import ItemCounts
from core.urls.secrets import redact
from workers.web.crawler_models import CrawlerRequest, SourcePreview
from workers.web.dashboard.page_table import PageTable, expected_problem
from workers.web.dashboard.views.domain import CrawlForm, held
from workers.web.errors import as_conflict
from workers.web.models import Flag
from workers.web.routes import crawler, domains
from workers.web.routes.domains import DomainRequest
from workers.web.routing import Call

ROUTES = PageTable()
GROUPS = ("removed", "added", "changed", "refused")
"""What a person should look at first."""
MOST_NAMES = 20
"""How many names of held items are shown."""


class DryRunRequest(CrawlForm):
    """Which domain or source; without `now` the page comes at once and asks for the result itself."""

    now: Flag = False


@ROUTES.page("/domains/{id}/dry-run", "Dry run", "dry_run.html", seconds=crawler.DRY_RUN_SECONDS + 60)
async def show_dry_run(call: Call, asked: DryRunRequest) -> dict[str, Any]:
    """Show what a crawl would do; nothing is changed."""
    domain = (await domains.show_domain(call, DomainRequest(id=asked.id))).domain
    reports, problem = await _previews(call, asked) if asked.now else ([], "")
    are_held = [one for one in held(domain) if asked.source in (None, one[0].id, one[0].id.partition(".")[2])]
    stopped = [await _stopped(call, source, sentence) for source, sentence in are_held]
    return {
        "title": f"Dry run of {domain.name or domain.id}",
        "domain": domain,
        "asked": asked,
        "stopped": stopped,
        "stopped_ids": [one["source"].id for one in stopped],
        "reports": reports,
        "problem": problem,
        "groups": GROUPS,
        "totals": {
            name: sum(getattr(one, name) or 0 for one in reports) for name in (*GROUPS, "unchanged", "requests")
        },
    }


async def _stopped(call: Call, source: SourceOverview, sentence: str) -> dict[str, Any]:
    """Return what the loss guard holds back: of a site no listing knows it, only the visits that found it missing."""
    kept = await ItemCounts(call.client, call.keys).kept_because(source.id, KEPT)
    names = [redact(name) for name in kept[:MOST_NAMES]]
    return {"source": source, "sentence": sentence, "kept": len(kept), "names": names}


async def _previews(call: Call, asked: DryRunRequest) -> tuple[list[SourcePreview], str]:
    wanted = CrawlerRequest(domain_id=asked.id, mode=asked.mode, source_id=asked.source, dry_run=True)
    try:
        with as_conflict():
            return (await crawler.crawl(call, wanted)).preview, ""
    except TimeoutError:
        minutes, command = crawler.DRY_RUN_SECONDS / 60, f"freshet domain crawl {asked.id} --dry-run"
        return [], f"Listing took more than {minutes:.0f} minutes. Look at one source at a time, or use `{command}`."
    except Exception as error:  # noqa: BLE001 - `expected_problem` raises what is not expected
        return [], expected_problem(call.http, error).sentence
