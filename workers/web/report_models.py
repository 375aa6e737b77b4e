"""Request and response models of the routes of reports."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from core.outputs.vector_store.crawl_report import TYPE
from core.outputs.vector_store.io.report_archive import StoredReport, entry_json
from workers.web.models import AnswerModel, DomainId, Limit, Offset, RequestModel

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
