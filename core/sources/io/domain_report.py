"""Report on one domain: its last runs, what it refused, what is in error, what is not found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

from core.keys import Keys
from core.registry.io.item_queries import ItemQueries
from core.registry.record import Status
from core.runs.io.run_list import RunFilter, RunList
from core.runs.io.run_store import KEPT
from core.runs.run import Run, run_json
from core.settings import Settings
from core.sources.io.domain_overview import DomainOverview, read_domain
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_coverage import SourceCoverage, read_coverage
from core.sources.io.source_items import SourceItems
from core.sources.io.source_store import SourceStore
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.store import connect
from core.store.connect import Client
from core.urls.secrets import redact
from core.value_class import value_class

MOST_RUNS = 10
MOST_SHOWN = 20
"""Refused links of a source, and items in error."""


@value_class
class RefusedLinks:
    total: int
    examples: tuple[tuple[str, str], ...]
    """URL and reason."""


@value_class
class DomainReport:
    now: float
    overview: DomainOverview
    runs: tuple[Run, ...]
    """Newest first."""
    refused: Mapping[str, RefusedLinks]
    """By source, of those that refused something."""
    items: Mapping[str, int]
    """By status."""
    errors: tuple[tuple[str, str], ...]
    """URL and message of items in error or out of scope, some of them."""
    coverage: Mapping[str, SourceCoverage]
    """By source, of those of SharePoint."""


async def read_report(settings: Settings, client: Client, keys: Keys, domain_id: str) -> DomainReport:
    """Return the report; raise NotFound if there is no such domain."""
    domain = await DomainStore(client, keys).require(domain_id)
    now = await connect.now(client)
    refused = {sid: await _refused(client, keys, sid) for sid in domain.sources}
    items, troubled = await _items(client, keys, domain.sources)
    errors = await SourceItems(client, keys).errors_of(troubled)
    overview = await read_domain(client, keys, domain)
    runs = (await RunList(client, keys).page(RunFilter(domain=domain_id), now, KEPT)).runs
    storage, coverage = CrawlerStorage.of(settings), {}
    for source in overview.sources:
        if found := await read_coverage(storage, domain_id, source.id, source.kind, runs):
            coverage[source.id] = found
    return DomainReport(
        now=now,
        overview=overview,
        runs=runs[:MOST_RUNS],
        refused={sid: links for sid, links in refused.items() if links.total},
        items=dict(sorted(items.items())),
        errors=tuple((redact(shown), redact(message)) for shown, message in errors),
        coverage=coverage,
    )


def report_json(report: DomainReport) -> dict[str, object]:
    """Return the report as plain values, as `freshet domain report --json` and the API print it."""
    return {
        **asdict(report.overview),
        "items": dict(report.items),
        "runs": [run_json(run) for run in report.runs],
        "refused": {
            sid: {"total": links.total, "examples": [{"url": url, "reason": reason} for url, reason in links.examples]}
            for sid, links in report.refused.items()
        },
        "errors": [{"url": url, "message": message} for url, message in report.errors],
        "coverage": {sid: asdict(one) for sid, one in report.coverage.items()},
    }


async def _refused(client: Client, keys: Keys, sid: str) -> RefusedLinks:
    total, some = await SourceStore(client, keys).refused(sid, MOST_SHOWN)
    return RefusedLinks(total, tuple((redact(link), reason) for link, reason in some))


async def _items(client: Client, keys: Keys, sources: tuple[str, ...]) -> tuple[Counter[str], list[str]]:
    """Return how many items there are by status, and some of those in error or out of scope."""
    counts: Counter[str] = Counter()
    troubled: list[str] = []
    queries = ItemQueries(client, keys)
    async for item_ids in queries.of_sources(sources):
        rows = await queries.summaries(item_ids)
        counts.update(row.status for row in rows)
        room = MOST_SHOWN - len(troubled)
        troubled += [row.item_id for row in rows if row.status in (Status.ERROR, Status.OUT_OF_SCOPE)][:room]
    return counts, troubled
