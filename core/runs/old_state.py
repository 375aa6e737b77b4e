"""Convert between the unified state and the three files that held the state of a knowledge base before it.

A job file (status, phase, progress), a crawl checkpoint (ids, counts, queue) and an index checkpoint. Pure: takes and
returns what JSON holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from core.registry import field_parsing
from core.runs.knowledge_base_state import MOST_PENDING, CrawlState, JobState, KbMetrics, KbState, ProcessingState

ToUtc = Callable[[datetime], datetime]
"""Reads a time without a zone as the clock of the machine that wrote it did."""
JsonObject = Mapping[str, Any]


class OldFile(StrEnum):
    JOB = "job"
    CRAWL = "crawl_checkpoint"
    INDEX = "index_checkpoint"


def unified(kb_id: str, old: Mapping[OldFile, JsonObject], updated_at: str | None, to_utc: ToUtc) -> KbState:
    """Return the state that the old files describe; what is missing has its default."""
    processing = _processing(old.get(OldFile.INDEX, {}))
    average = round(processing.chunks_total / processing.last_indexed_id) if processing.last_indexed_id else 0
    return KbState(
        kb_id=kb_id,
        updated_at=updated_at,
        job=_job(old.get(OldFile.JOB, {}), to_utc),
        crawl=_crawl(old.get(OldFile.CRAWL, {})),
        processing=processing,
        metrics=KbMetrics(avg_chunks_per_doc=average),
    )


def _job(old: JsonObject, to_utc: ToUtc) -> JobState:
    """No worker has it here, so it can be neither paused nor cancelled."""
    default = JobState()
    return JobState(
        status=_text(old, "status") or default.status,
        phase=_text(old, "phase") or default.phase,
        progress=min(max(_count(old, "progress"), 0), 100),
        message=_text(old, "message"),
        error=_text(old, "error") or None,
        created_at=_time(old.get("created_at"), to_utc),
        started_at=_time(old.get("started_at"), to_utc),
        completed_at=_time(old.get("completed_at"), to_utc),
    )


def _crawl(old: JsonObject) -> CrawlState:
    queue = queued_urls(old)
    crawled = _count(old, "pages_crawled") if "pages_crawled" in old else len(_list(old, "visited"))
    return CrawlState(
        last_doc_id=_count(old, "last_id"),
        pages_crawled=crawled,
        pages_queued=len(queue),
        pages_failed=_count(old, "pages_failed"),
        pending_urls=queue[:MOST_PENDING],
        start_url=_text(old, "start_url"),
        url_prefix=_text(old, "url_prefix"),
    )


def _processing(old: JsonObject) -> ProcessingState:
    indexed = _count(old, "last_indexed_id")
    return ProcessingState(last_chunked_id=indexed, last_indexed_id=indexed, chunks_total=_count(old, "total_chunks"))


def queued_urls(old: JsonObject) -> tuple[str, ...]:
    """Return the whole queue of a crawl checkpoint."""
    return tuple(field_parsing.text(url) for url in _list(old, "to_visit") if isinstance(url, str))


# ── and back ────────────────────────────────────────────────────────────────────────────────────


def back(
    state: KbState, before: Mapping[OldFile, JsonObject], queue: Sequence[str], to_utc: ToUtc
) -> dict[OldFile, JsonObject]:
    """Return the old files that describe this state.

    `before`: the files as they are, which keep what a state has no place for, and stay as they are where they say the
    same. `queue`: all that is queued, of which the state has only the beginning.
    """
    known = unified(state.kb_id, before, None, to_utc)
    parts = {
        OldFile.JOB: (known.job == replace(state.job, paused=False, cancel_requested=False), _old_job),
        OldFile.CRAWL: (_is_same_crawl(known.crawl, state.crawl), _old_crawl),
        OldFile.INDEX: (_is_same_index(known.processing, state.processing), _old_index),
    }
    files: dict[OldFile, JsonObject] = {}
    for name, (is_same, make) in parts.items():
        old = before.get(name)
        files[name] = old if old is not None and is_same else {**(old or {}), **make(state)}
    if files[OldFile.CRAWL] is not before.get(OldFile.CRAWL):
        files[OldFile.CRAWL] = {**files[OldFile.CRAWL], "to_visit": list(queue or state.crawl.pending_urls)}
    return files


def _is_same_crawl(old: CrawlState, new: CrawlState) -> bool:
    """The state may have fewer of the queue's beginning than it had room for, and know where it began."""
    names = ("last_doc_id", "pages_crawled", "pages_queued", "pages_failed")
    is_counted = all(getattr(old, name) == getattr(new, name) for name in names)
    return is_counted and set(new.pending_urls) <= set(old.pending_urls)


def _is_same_index(old: ProcessingState, new: ProcessingState) -> bool:
    return (old.last_indexed_id, old.chunks_total) == (new.last_indexed_id, new.chunks_total)


def _old_job(state: KbState) -> dict[str, Any]:
    crawl, processing = state.crawl, state.processing
    metrics = {
        "pages_crawled": crawl.pages_crawled,
        "pages_queued": crawl.pages_queued,
        "last_doc_id": crawl.last_doc_id,
        "last_indexed_id": processing.last_indexed_id,
        "chunks_total": processing.chunks_total,
        "batches_processed": processing.batches_processed,
    }
    return {"kb_id": state.kb_id, **asdict(state.job), "metrics": metrics}


def _old_crawl(state: KbState) -> dict[str, Any]:
    crawl = state.crawl
    return {
        "last_id": crawl.last_doc_id,
        "pages_crawled": crawl.pages_crawled,
        "pages_failed": crawl.pages_failed,
        "start_url": crawl.start_url,
        "url_prefix": crawl.url_prefix,
    }


def _old_index(state: KbState) -> dict[str, Any]:
    processing = state.processing
    return {
        "last_chunked_id": processing.last_chunked_id,
        "last_indexed_id": processing.last_indexed_id,
        "total_chunks": processing.chunks_total,
    }


# ── values that anybody may have written ────────────────────────────────────────────────────────


def _text(old: JsonObject, name: str) -> str:
    value = old.get(name)
    return field_parsing.text(value) if isinstance(value, str | int | float) else ""


def _count(old: JsonObject, name: str) -> int:
    return int(field_parsing.number(old.get(name)))


def _list(old: JsonObject, name: str) -> Sequence[object]:
    value = old.get(name)
    return value if isinstance(value, list) else []


def _time(value: object, to_utc: ToUtc) -> str | None:
    """Return an ISO 8601 time in UTC; None if it cannot be read."""
    try:
        read = datetime.fromisoformat(str(value))
        at = to_utc(read) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    precision = "milliseconds" if at.microsecond else "seconds"
    return at.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
