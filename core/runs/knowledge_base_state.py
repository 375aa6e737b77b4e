"""The unified state of a knowledge base (a domain): what its job, its crawl and its indexing have done so far.

One model is the schema of everything: the fields of the hash `kb:<id>:state`, `state.json`, `scripts.status --kb` and
the API. docs/state.md explains each field. Reads no clock, opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal

from core.value_class import value_class

MOST_PENDING = 200


@value_class
class JobState:
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


@value_class
class CrawlState:
    """What was crawled, and what waits to be."""

    last_doc_id: int = 0
    """Documents stored: documents are counted, not numbered, and a changed one is not counted again. Never falls."""
    pages_crawled: int = 0
    """Visits since the newest crawl began, failed ones among them."""
    pages_queued: int = 0
    """Items that are due or that a run or a job has picked."""
    pages_failed: int = 0
    """How many of the visits failed."""
    pending_urls: tuple[str, ...] = ()
    """The first of the queued ones, as many as fit; all of them are in `source:<sid>:due`."""
    start_url: str = ""
    url_prefix: str = ""


@value_class
class ProcessingState:
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


@value_class
class KbMetrics:
    """Figures that follow from the other sections, as of the last save."""

    documents_per_batch: int = 0
    avg_chunks_per_doc: int = 0
    total_chars_ingested: int = 0
    """Characters of all texts stored since the beginning, as Markdown."""
    crawl_rate_pages_per_min: int = 0
    """Since the run was started or last resumed."""


@value_class
class KbState:
    """The whole state."""

    kb_id: str
    version: Literal[1] = 1
    updated_at: str | None = None
    job: JobState = JobState()
    crawl: CrawlState = CrawlState()
    processing: ProcessingState = ProcessingState()
    metrics: KbMetrics = KbMetrics()


SECTIONS: Mapping[str, type[JobState | CrawlState | ProcessingState | KbMetrics]] = {
    "job": JobState,
    "crawl": CrawlState,
    "processing": ProcessingState,
    "metrics": KbMetrics,
}
PENDING = "crawl.pending_urls"
INTEGER_FIELDS = frozenset(
    f"{section}.{one.name}" for section, kind in SECTIONS.items() for one in fields(kind) if one.type == "int"
)
"""The fields of the hash that hold the list of URLs, and whole numbers."""
