"""What the crawler routes are asked and answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from core.runtime.api_results import RunState
from core.sources.crawl_parameters import ALL_STEPS, MOST_RETRY_BATCHES, RETRY_BATCHES, CrawlParameters, StepName
from workers.web.models import AnswerModel, DomainId, Flag, RequestModel, SourceName


class CrawlerRequest(RequestModel):
    """Which sources of which domain, and how."""

    domain_id: DomainId
    mode: Literal["full", "incremental"] = Field(
        default="incremental", description="incremental: check what is known; full: read everything again."
    )
    scope: Literal["all", "files", "lists", "sitepages"] = Field(
        default="all", description="Other scopes than all are for SharePoint sources."
    )
    source_id: SourceName | None = Field(default=None, description="Only this source.")
    source_type: str | None = Field(
        default=None,
        pattern=r"^[a-z]{1,20}_sources$",
        description="Only sources of this type, by their name in domain.json.",
        examples=["web_sources"],
    )
    dry_run: Flag = Field(default=False, description="true: tell what would be done, and change nothing.")
    retry_batches: int = Field(
        default=RETRY_BATCHES,
        ge=1,
        le=MOST_RETRY_BATCHES,
        description="How often SharePoint sources try what failed, the first time included. Others have a backoff.",
    )
    format: Literal["json", "stream", "html"] = Field(
        default="json",
        description="json: answer at once; stream: server-sent events until the end; html: a page to read.",
    )

    def parameters(self, step: StepName | None = None) -> CrawlParameters:
        """Return what a run is asked to do: all steps, or this one."""
        return CrawlParameters(
            steps=frozenset({step} if step else ALL_STEPS),
            scope=self.scope,
            source_id=self.source_id or "",
            source_type=self.source_type or "",
            retry_batches=self.retry_batches,
        )


class SourcePreview(AnswerModel):
    """What a crawl of one source would do."""

    source: str
    kind: str
    added: int
    changed: int
    removed: int | None = Field(description="null: not known before the pages are fetched.")
    unchanged: int
    refused: int
    requests: int
    listing: str = Field(description="How the listing ended.")
    held: str = Field(description="Why so many would not be removed without approval.")
    download_bytes: int = Field(description="What would be downloaded, where the listing tells sizes.")
    uploads: int = Field(description="Files that a vector store would get.")
    names: dict[str, list[str]] = Field(
        description="The first that would be added, changed or removed; the first that are refused, with the reason."
    )


class CrawlerAnswer(AnswerModel):
    """What a crawler route has set going, or would."""

    action: str = Field(examples=["crawl"])
    domain_id: str
    mode: str
    dry_run: bool
    message: str
    job: RunState | None = Field(default=None, description="The run; null if this has none.")
    jobs: list[RunState] = Field(default=[], description="All runs, where several sources were asked for.")
    items: int | None = Field(default=None, description="Items that are due, or that wait to be embedded.")
    removed: int | None = Field(default=None, description="Of cleanup_metadata: entries that no store or map has.")
    remaining: int | None = Field(default=None, description="Of cleanup_metadata: entries that stay.")
    preview: list[SourcePreview] = Field(default=[], description="Of a dry run, one for each source.")
