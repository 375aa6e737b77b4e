"""The unified state of a knowledge base (a domain): what its job, its crawl and its indexing have done so far.

One model is the schema of everything: the fields of the hash `kb:<id>:state`, `state.json`, `scripts.status --kb` and
the API. docs/state.md explains each field. Reads no clock, opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_PENDING = 200


class StateSection(BaseModel):
    """A part of the state; every value has a default."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class JobState(StateSection):
    """The newest run of the knowledge base that is not part of another."""

    status: str = "pending"
    """The status of the run: queued, running, pausing, paused, cancelling, cancelled, succeeded, partial, failed or
    interrupted; pending before the first."""
    phase: str = "crawling"
    """crawling, processing, indexing or done; indexing also after the run, while texts wait to be embedded."""
    progress: int = 0
    """Percent; never lower than before in the same run."""
    message: str = ""
    error: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    paused: bool = False
    """It is paused, or will be as soon as every worker has stopped; or the whole knowledge base is, without a run."""
    cancel_requested: bool = False


class CrawlState(StateSection):
    """What was crawled, and what waits to be."""

    last_doc_id: int = 0
    """Documents stored: documents are counted, not numbered, and a changed one is not counted again. Never falls."""
    pages_crawled: int = 0
    """Visits since the newest crawl began, failed ones among them."""
    pages_queued: int = 0
    """Items that are due or that a run or a job has picked."""
    pages_failed: int = 0
    """How many of the visits failed."""
    pending_urls: tuple[str, ...] = Field(default=(), max_length=MOST_PENDING)
    """The first of the queued ones, as many as fit; all of them are in `source:<sid>:due`."""
    start_url: str = ""
    url_prefix: str = ""


class ProcessingState(StateSection):
    """What became of the documents."""

    documents_saved: int = 0
    """Texts stored since the beginning: new documents and new versions of known ones."""
    last_chunked_id: int = 0
    """Always the same as `last_indexed_id`: chunks become visible and searchable in one step."""
    last_indexed_id: int = 0
    """Documents that search has had; as `last_doc_id`, each once. What waits is known by item, not by this number."""
    chunks_total: int = 0
    """Chunks in search now."""
    batches_processed: int = 0
    """Groups of documents that were embedded together."""


class KbMetrics(StateSection):
    """Figures that follow from the other sections, as of the last save."""

    documents_per_batch: int = 0
    avg_chunks_per_doc: int = 0
    total_chars_ingested: int = 0
    """Characters of all texts stored since the beginning, as Markdown."""
    crawl_rate_pages_per_min: int = 0
    """Since the run was started or last resumed."""


class KbState(StateSection):
    """The whole state."""

    kb_id: str
    version: Literal[1] = 1
    updated_at: str | None = None
    job: JobState = JobState()
    crawl: CrawlState = CrawlState()
    processing: ProcessingState = ProcessingState()
    metrics: KbMetrics = KbMetrics()


SECTIONS: Mapping[str, type[StateSection]] = {
    "job": JobState,
    "crawl": CrawlState,
    "processing": ProcessingState,
    "metrics": KbMetrics,
}
