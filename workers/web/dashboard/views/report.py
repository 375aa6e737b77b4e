"""The report of a crawl as a page, and its archive as a download."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from pydantic import Field

from core.errors import NotFound
from core.outputs.vector_store.crawl_report import TYPE, ReportName
from core.runs.run import COUNTERS
from workers.web.dashboard.page_table import PageTable
from workers.web.models import DomainId, RequestModel
from workers.web.routes import reports
from workers.web.routes.reports import Name, NamedDownloadRequest
from workers.web.routing import Call

ROUTES = PageTable()
STEPS = ("download", "process", "embed")


class ReportPageRequest(RequestModel):
    """Which report of which domain; `file` to take one file out of it."""

    id: DomainId
    name: Name
    file: str = Field(default="", max_length=1_000)


@ROUTES.page("/domains/{id}/reports/{name}", "Report", "report.html")
async def show_report(call: Call, asked: ReportPageRequest) -> dict[str, Any]:
    _require(asked)
    report = await asyncio.to_thread(reports.archive_of(call).read, f"{TYPE}/{asked.name}")
    try:
        sources = [_source(one) for one in report["sources"]]
        head = {name: report[name] for name in ("report_id", "run_id", "status", "ok", "parameters", "timing", "files")}
    except (KeyError, TypeError, AttributeError):
        raise NotFound(f"The report {asked.name} is none that Freshet wrote.") from None
    path = f"/domains/{asked.id}/reports/{asked.name}/download"
    return {"title": f"Report of {asked.id}", "report": head, "sources": sources, "path": path, "domain_id": asked.id}


def _source(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source with its counters, and what its steps did and left out, in words."""
    lines = [f"{step}: {_counted(told[step]) or 'nothing'}" for step in STEPS if told.get(step)]
    left_out = {what.replace("_", " "): _counted(counts) for what, counts in told.get("coverage", {}).items()}
    lines += [f"not indexed, {what}: {names}" for what, names in left_out.items() if names]
    counts = {name: told["counts"].get(name, 0) for name in COUNTERS}
    names = ("source_id", "source_type", "status", "problem", "message", "error")
    return {**{name: told[name] for name in names}, "counts": counts, "lines": lines}


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)


@ROUTES.page(
    "/domains/{id}/reports/{name}/download",
    "Archive",
    "report.html",
    other_types=(reports.ZIP, reports.CSV),
    seconds=None,
)
async def download(call: Call, asked: ReportPageRequest) -> web.StreamResponse:
    _require(asked)
    return await reports.download(call, NamedDownloadRequest(name=asked.name, file=asked.file))


def _require(asked: ReportPageRequest) -> None:
    name = ReportName.parse(asked.name)
    if name is None or name.domain_id != asked.id:
        raise NotFound(f"{asked.id} has no report {asked.name[:200]}.")
