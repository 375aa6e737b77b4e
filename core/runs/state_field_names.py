"""Fields of the hash `kb:<id>:state` that others than its models have to know: whole numbers, and the list of URLs.

Written out, since the models take pydantic and the timer, which checks stored fields, does without. A test compares.
"""

from __future__ import annotations

PENDING = "crawl.pending_urls"
INTEGER_FIELDS = frozenset(
    {
        "job.progress",
        *("crawl.last_doc_id", "crawl.pages_crawled", "crawl.pages_queued", "crawl.pages_failed"),
        *("processing.documents_saved", "processing.last_chunked_id", "processing.last_indexed_id"),
        *("processing.chunks_total", "processing.batches_processed"),
        *("metrics.documents_per_batch", "metrics.avg_chunks_per_doc", "metrics.total_chars_ingested"),
        "metrics.crawl_rate_pages_per_min",
    }
)
"""The hash fields that hold whole numbers."""
