"""Report what a SharePoint source has that cannot be searched, from its last runs and from the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import field

from core.runs.run import Run
from core.sources.crawl_parameters import CrawlParameters
from core.sources.sharepoint.coverage import Coverage
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_names import StepName
from core.sources.sharepoint.stored_source import StoredSource
from core.sources.source_record import SOURCES_SUFFIX
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
