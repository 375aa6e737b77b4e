"""The reports of crawls over HTTP: list, read, download."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Self

from aiohttp import web
from pydantic import Field

from core.outputs.vector_store.crawl_report import TYPE
from core.outputs.vector_store.io.report_archive import ReportArchive, StoredReport, entry_json
from workers.web.models import AnswerModel, DomainId, Limit, Offset, RequestModel
from workers.web.routing import JSON, Call, RouteTable

EXAMPLE = "2025-01-15_14-25-00_TEST01_all_full"
Name = Annotated[str, Field(max_length=200, examples=[EXAMPLE])]


class ReportsRequest(RequestModel):
    """Which reports."""

    domain_id: DomainId | None = Field(default=None, description="Only those of this domain.")
    limit: Limit = 100
    offset: Offset = 0


class ReportRequest(RequestModel):
    """One report, by its id."""

    id: Name = Field(description=f"With or without {TYPE}/ in front; in a path its slash is %2F.")


class NamedReportRequest(RequestModel):
    """One report, by its id as it is: the slash is one of the path."""

    name: Name


class DownloadRequest(ReportRequest):
    """A report, or a file of it."""

    file: str = Field(default="", max_length=1_000, description="Only this file, as `report.json` names it.")


class NamedDownloadRequest(NamedReportRequest):
    """The same."""

    file: str = Field(default="", max_length=1_000, description="Only this file, as `report.json` names it.")


class ReportEntry(AnswerModel):
    """A report that is there."""

    id: str = Field(examples=[f"{TYPE}/{EXAMPLE}"])
    domain_id: str
    scope: str
    mode: str
    created_at: str = Field(description="ISO 8601.")
    bytes: int

    @classmethod
    def of(cls, report: StoredReport) -> Self:
        """Return a report as the API lists it."""
        return cls.model_validate(entry_json(report))


class ReportsAnswer(AnswerModel):
    """Some reports, newest first."""

    reports: list[ReportEntry]
    next_offset: int | None = Field(description="Where the next page begins; null if this is the last one.")


ROUTES = RouteTable("reports")
ZIP = "application/zip"
CSV = "text/csv"
CHUNK_BYTES = 256 * 1024
READ, DOWNLOAD = "The report of a crawl.", "The archive of a report, or one file of it."
ONE_PART = "Its id is one part of the path here, with %2F."
_download = partial(ROUTES.add, "GET", other_types=(ZIP, CSV, JSON), seconds=None)


def archive_of(call: Call) -> ReportArchive:
    return ReportArchive(call.settings)


@ROUTES.add("GET", "/v2/reports")
async def list_reports(call: Call, asked: ReportsRequest) -> ReportsAnswer:
    """Reports of crawls, newest first."""
    found: Sequence[StoredReport] = await asyncio.to_thread(archive_of(call).list, asked.domain_id)
    end = asked.offset + asked.limit
    return ReportsAnswer(
        reports=[ReportEntry.of(one) for one in found[asked.offset : end]],
        next_offset=end if len(found) > end else None,
    )


@ROUTES.add("GET", "/v2/reports/{id}", summary=f"{READ} {ONE_PART}", request=ReportRequest, other_types=(JSON,))
@ROUTES.add("GET", f"/v2/reports/{TYPE}/{{name}}", summary=READ, request=NamedReportRequest, other_types=(JSON,))
async def show_report(call: Call, asked: ReportRequest | NamedReportRequest) -> web.Response:
    """Return report.json."""
    return web.json_response(await asyncio.to_thread(archive_of(call).read, _id(asked)))


@_download("/v2/reports/{id}/download", summary=f"{DOWNLOAD} {ONE_PART}", request=DownloadRequest)
@_download(f"/v2/reports/{TYPE}/{{name}}/download", summary=DOWNLOAD, request=NamedDownloadRequest)
async def download(call: Call, asked: DownloadRequest | NamedDownloadRequest) -> web.StreamResponse:
    """Return the zip of a report, or one file of it."""
    archive, report_id = archive_of(call), _id(asked)
    if asked.file:
        return await _send_file(call, archive, report_id, asked.file)
    path = await asyncio.to_thread(archive.path, report_id)
    return web.FileResponse(path, headers={"Content-Type": ZIP, **_attachment(path.name)})


async def _send_file(call: Call, archive: ReportArchive, report_id: str, name: str) -> web.StreamResponse:
    is_json = name.endswith(".json")
    with archive.open_file(report_id, name) as file:
        headers = {
            "Content-Type": JSON if is_json else f"{CSV}; charset=utf-8",
            **_attachment(PurePosixPath(name).name),
        }
        response = web.StreamResponse(headers=headers)
        await response.prepare(call.http)
        while not call.is_head and (chunk := await asyncio.to_thread(file.read, CHUNK_BYTES)):
            await response.write(chunk)
        await response.write_eof()
    return response


def _attachment(name: str) -> dict[str, str]:
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name)
    return {"Content-Disposition": f'attachment; filename="{plain}"'}


def _id(asked: ReportRequest | NamedReportRequest) -> str:
    return asked.id if isinstance(asked, ReportRequest) else f"{TYPE}/{asked.name}"
