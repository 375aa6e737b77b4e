"""Report on one domain: its last runs, what it refused, what is in error, what is not found.

What a SharePoint source has that cannot be searched is told by its last runs and by the disk.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field

from core.keys import Keys
from core.registry.io.item_queries import ItemQueries
from core.registry.record import Status
from core.runs.io.run_list import RunFilter, RunList
from core.runs.io.run_store import KEPT
from core.runs.run import Run, run_json
from core.settings import Settings
from core.sources.crawl_parameters import CrawlParameters, StepName
from core.sources.io.domain_overview import DomainOverview, read_domain
from core.sources.io.domain_store import DomainStore
from core.sources.io.source_items import SourceItems
from core.sources.io.source_store import SourceStore
from core.sources.sharepoint.coverage import Coverage
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource
from core.sources.source_record import SOURCES_SUFFIX
from core.store import connect
from core.store.connect import Client
from core.urls.secrets import redact
from core.value_class import value_class

_COUNTED_BY = {"file_types": StepName.DOWNLOAD, "columns": StepName.DOWNLOAD, "web_parts": StepName.PROCESS}


@value_class
class SourceCoverage:
    unread: Coverage = field(default_factory=Coverage)
    failed_files: int = 0
    """Files in its folder 03_failed: they could not be embedded."""


async def read_coverage(
    storage: CrawlerStorage, domain_id: str, sid: str, kind: str, runs: Iterable[Run]
) -> SourceCoverage | None:
    """Return the coverage of a source, by the runs of its domain, newest first; None: it is not of SharePoint."""
    if f"{kind}{SOURCES_SUFFIX}" not in set(SharePointType):
        return None
    source_type = SharePointType(f"{kind}{SOURCES_SUFFIX}")
    source = StoredSource(domain_id, sid.removeprefix(f"{domain_id}."), source_type, "")
    folder = storage.source_folder(source) / CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER
    failed = await asyncio.to_thread(lambda: sum(len(files) for _, _, files in os.walk(folder)))
    return SourceCoverage(_unread([run for run in runs if run.source == sid]), failed)


def _unread(runs: Iterable[Run]) -> Coverage:
    """Return what was not read, each kind by the last run that took the step which counts it."""
    found: dict[str, dict[str, int]] = {}
    for run in runs:
        told = run.statistics.get("coverage")
        if not isinstance(told, dict) or run.statistics.get("error"):
            continue
        steps = CrawlParameters.of(run.parameters).steps
        for name, step in _COUNTED_BY.items():
            if step in steps and isinstance(told.get(name), dict):
                found.setdefault(name, told[name])
    return Coverage(**found)


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
