"""Keep the report of a crawl at its end: of a domain, or of one source that someone asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.outputs.vector_store.crawl_report import CrawledSource, ReportName, is_reported, report_json
from core.runs.io.run_worker import RunWorker
from core.runs.run import ENDED, Run, RunStatus
from core.runtime.context import Context
from core.sources.crawl_parameters import CrawlParameters

log = logging.getLogger("crawler")


def ended_as(run: Run, worker: RunWorker, now: float) -> Run:
    """Return a run as it will be when its worker has ended it."""
    problem, message, error = (worker.end_fields.get(name, "") for name in ("problem", "message", "error"))
    return replace(run, status=worker.end, ended_ts=now, problem=problem, message=message, error=error)


async def archive_crawl(
    context: Context, run: Run, end: RunStatus, sources: Sequence[CrawledSource], now: float
) -> None:
    """Write the report of a run that ends now, if it gets one; a disk that cannot be written is a warning."""
    if end not in ENDED or end is RunStatus.CANCELLED or not is_reported(run):
        return
    from core.outputs.vector_store.io.report_archive import ReportArchive  # here: only crawls that someone asked for

    archive = ReportArchive(context.settings)
    scope = CrawlParameters.of(run.parameters).shown_scope

    def write() -> str:
        maps = archive.maps_of(run.domain)

        def report(name: ReportName) -> Mapping[str, Any]:
            return report_json(name, run, end, now, sources, list(maps))

        return archive.write(ReportName(now, run.domain, scope, run.mode), run.id, maps, report)

    try:
        report_id = await asyncio.to_thread(write)
    except OSError as error:
        log.warning("⚠️ The report of %s cannot be written → %s", run.id, error.strerror or error)
        return
    log.info("🧾 Report → %s", report_id)
