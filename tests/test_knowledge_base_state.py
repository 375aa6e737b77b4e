"""The schema of a knowledge base's state, its hash, its JSON and its limit."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ids import domain_of_source
from core.runs import state_fields, state_json
from core.runs.knowledge_base_state import CrawlState, JobState, KbMetrics, KbState, ProcessingState

SCHEMA: dict[str, Any] = {
    "kb_id": "caf",
    "version": 1,
    "updated_at": "2025-12-01T10:15:23.456Z",
    "job": {
        "status": "running",
        "phase": "crawling",
        "progress": 45,
        "message": "Crawling: 150/200 pages",
        "error": None,
        "created_at": "2025-12-01T10:00:00Z",
        "started_at": "2025-12-01T10:00:05Z",
        "completed_at": None,
        "paused": False,
        "cancel_requested": False,
    },
    "crawl": {
        "last_doc_id": 150,
        "pages_crawled": 150,
        "pages_queued": 50,
        "pages_failed": 5,
        "pending_urls": ["https://example.com/page1", "https://example.com/page2"],
        "start_url": "https://learn.microsoft.com/en-us/azure/caf/",
        "url_prefix": "https://learn.microsoft.com/en-us/azure/caf",
    },
    "processing": {
        "documents_saved": 145,
        "last_chunked_id": 150,
        "last_indexed_id": 150,
        "chunks_total": 1200,
        "batches_processed": 15,
    },
    "metrics": {
        "documents_per_batch": 10,
        "avg_chunks_per_doc": 8,
        "total_chars_ingested": 450000,
        "crawl_rate_pages_per_min": 12,
    },
}
"""A state with every section and value there is, in their order."""

texts = st.text(st.characters(codec="utf-8"), max_size=300) | st.text('\0\n"\\é€', max_size=4_000)
maybe = st.none() | texts.filter(bool)
numbers = st.integers(0, 2**63 - 1)
jobs = st.builds(
    JobState,
    status=texts,
    phase=texts,
    progress=st.integers(0, 100),
    message=texts,
    error=maybe,
    created_at=maybe,
    started_at=maybe,
    completed_at=maybe,
    paused=st.booleans(),
    cancel_requested=st.booleans(),
)
crawls = st.builds(
    CrawlState,
    last_doc_id=numbers,
    pages_crawled=numbers,
    pages_queued=numbers,
    pages_failed=numbers,
    pending_urls=st.lists(texts, max_size=200).map(tuple),
    start_url=texts,
    url_prefix=texts,
)
processings = st.builds(
    ProcessingState,
    documents_saved=numbers,
    last_chunked_id=numbers,
    last_indexed_id=numbers,
    chunks_total=numbers,
    batches_processed=numbers,
)
metrics = st.builds(
    KbMetrics,
    documents_per_batch=numbers,
    avg_chunks_per_doc=numbers,
    total_chars_ingested=numbers,
    crawl_rate_pages_per_min=numbers,
)
states = st.builds(
    KbState,
    kb_id=texts.filter(bool),
    updated_at=maybe,
    job=jobs,
    crawl=crawls,
    processing=processings,
    metrics=metrics,
)


def test_schema_has_every_value_and_no_other() -> None:
    """A state as JSON is what it was made of, in the same order."""
    text = json.dumps(SCHEMA)

    assert json.loads(state_json.to_json(state_json.from_json("caf", text))) == SCHEMA
    assert list(SCHEMA) == [one.name for one in fields(KbState)]
    assert state_json.to_json(state_json.from_json("caf", text)) == json.dumps(SCHEMA, indent=2)


def test_a_field_per_value() -> None:
    """The hash has one flat field for each, in words that redis-cli can show."""
    stored = state_fields.to_fields(state_json.from_json("caf", json.dumps(SCHEMA)))

    assert stored["job.status"] == "running"
    assert (stored["job.paused"], stored["job.error"], stored["crawl.pages_crawled"]) == ("false", "", "150")
    assert json.loads(stored["crawl.pending_urls"]) == SCHEMA["crawl"]["pending_urls"]
    assert len(stored) == 3 + sum(len(SCHEMA[name]) for name in ("job", "crawl", "processing", "metrics"))


@given(states)
def test_hash_and_back(state: KbState) -> None:
    """What is written as fields is read as it was."""
    assert state_fields.from_fields(state.kb_id, state_fields.to_fields(state)) == state


@given(states)
def test_never_more_than_ten_kilobytes(state: KbState) -> None:
    """Whatever is in it, the JSON fits; addresses are whole and in their order, and no other would have fitted."""
    text = state_json.to_json(state)
    kept = list(state_json.fitted(state).crawl.pending_urls)

    assert len(text.encode()) <= state_json.MOST_BYTES
    assert state_json.from_json(state.kb_id, text).crawl.pending_urls == tuple(kept)
    given_urls = iter(state.crawl.pending_urls)
    assert all(url in given_urls for url in kept)
    shortest = min((len(json.dumps(url, ensure_ascii=False).encode()) for url in given_urls), default=None)
    if shortest is not None and len(kept) < len(state.crawl.pending_urls):
        assert len(text.encode()) + shortest + len(",\n      \n    ") > state_json.MOST_BYTES


def test_as_many_addresses_as_fit() -> None:
    """Short ones all fit; of long ones as many as there is room for."""
    short = tuple(f"https://e.org/{number}" for number in range(200))
    long = tuple(f"https://e.org/{number:03}/{'a' * 100}" for number in range(200))

    assert _pending(short) == short
    assert _pending(long) == long[: len(_pending(long))]
    assert 60 < len(_pending(long)) < 80


def _pending(urls: tuple[str, ...]) -> tuple[str, ...]:
    return state_json.fitted(KbState(kb_id="docs", crawl=CrawlState(pending_urls=urls))).crawl.pending_urls


def test_fitted_state_fits_unchanged() -> None:
    """Cutting twice changes nothing: what Redis has is what every reader shows."""
    urls = tuple(f"https://e.org/{number:03}/{'é' * 90}" for number in range(200))
    state = KbState(kb_id="docs", job=JobState(message="m" * 5_000), crawl=CrawlState(pending_urls=urls))

    once = state_json.fitted(state)
    assert state_json.fitted(once) == once
    assert once.job.message.endswith("…")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"crawl": []}', '{"crawl": {"pages_crawled": "many"}}', '{"crawl": {"pending_urls": {}}}'],
)
def test_json_that_is_no_state(text: str) -> None:
    """It is refused; half a state is never guessed from it."""
    with pytest.raises(ValueError, match=r"."):
        state_json.from_json("docs", text)


def test_missing_sections_have_defaults() -> None:
    """A file of an earlier version may lack some."""
    state = state_json.from_json("docs", '{"job": {"status": "running", "progress": null}, "unknown": 1}')

    assert state == KbState(kb_id="docs", job=JobState(status="running"))


def test_damaged_fields_have_defaults() -> None:
    """What somebody wrote into the hash by hand does not keep anyone from reading the rest."""
    fields = {"job.progress": "half", "crawl.pending_urls": "{", "crawl.pages_crawled": "7", "job.message": "\udcff"}
    state = state_fields.from_fields("docs", fields)

    assert (state.job.progress, state.crawl.pending_urls, state.crawl.pages_crawled) == (0, (), 7)
    assert state.job.message == "?"


@pytest.mark.parametrize(("sid", "expected"), [("docs.site", "docs"), ("rss", ""), ("urls", "")])
def test_knowledge_base_of_a_source(sid: str, expected: str) -> None:
    """Feeds and single URLs belong to none."""
    assert domain_of_source(sid) == expected
