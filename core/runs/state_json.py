"""The state of a knowledge base as JSON: `state.json`, `scripts.status --kb` and the API. At most 10 kB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from core.registry import field_parsing
from core.runs import state_fields
from core.runs.knowledge_base_state import MOST_PENDING, SECTIONS, CrawlState, JobState, KbState

MOST_BYTES = 10_000
"""Whatever the size of the crawl."""
_TEXT_BYTES = {"kb_id": 300, "message": 600, "error": 1_200, "start_url": 1_500, "url_prefix": 1_500}
_OTHER_TEXT_BYTES = 100
_CUT = "…"
S = TypeVar("S", JobState, CrawlState, KbState)


def to_json(state: KbState) -> str:
    """Return the state as people and programs read it: indented JSON of at most `MOST_BYTES`."""
    return _json(fitted(state))


def from_json(kb_id: str, text: str) -> KbState:
    """Return the state from `state.json`; a missing section or value has its default.

    Raises ValueError if it is not a JSON object or a value is of another type.
    """
    read = json.loads(text)
    if not isinstance(read, dict):
        raise ValueError("it is not a JSON object")
    sections = {}
    for section, kind in SECTIONS.items():
        values = {} if read.get(section) is None else read[section]
        if not isinstance(values, dict):
            raise ValueError(f"{section} is not a JSON object")
        known = {one.name: values[one.name] for one in fields(kind) if values.get(one.name) is not None}
        sections[section] = known | ({"pending_urls": _urls(known)} if "pending_urls" in known else {})
    return state_fields.build(kb_id, read.get("updated_at"), sections)


def _urls(values: Mapping[str, Any]) -> tuple[str, ...]:
    urls = values["pending_urls"]
    if not isinstance(urls, list):
        raise ValueError("pending_urls is no list")
    return tuple(url for url in urls if isinstance(url, str))[:MOST_PENDING]


# ── the limit ──


def fitted(state: KbState) -> KbState:
    """Return the state within `MOST_BYTES`: texts cut, and of the pending URLs as many as there is room for."""
    job = _with_cut_texts(state.job)
    crawl = _with_cut_texts(replace(state.crawl, pending_urls=()))
    bare = replace(_with_cut_texts(state), job=job, crawl=crawl)
    room = MOST_BYTES - len(_json(bare).encode()) - len("\n    ")
    urls = []
    for url in state.crawl.pending_urls[:MOST_PENDING]:
        needed = _bytes_of(url) + len(",\n      ")
        if needed <= room:
            room -= needed
            urls.append(url)
    return replace(bare, crawl=replace(crawl, pending_urls=tuple(urls)))


def _json(state: KbState) -> str:
    return json.dumps(asdict(state), indent=2, ensure_ascii=False)


def _with_cut_texts(section: S) -> S:
    texts = {one.name: value for one in fields(section) if isinstance(value := getattr(section, one.name), str)}
    cut: dict[str, Any] = {name: _cut(value, _TEXT_BYTES.get(name, _OTHER_TEXT_BYTES)) for name, value in texts.items()}
    return replace(section, **cut)


def _cut(text: str, most_bytes: int) -> str:
    text = field_parsing.text(text)
    if _bytes_of(text) <= most_bytes:
        return text
    low, high = 0, len(text)
    while low < high:  # the most characters whose JSON fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _bytes_of(text[:middle] + _CUT) <= most_bytes else (low, middle - 1)
    return text[:low] + _CUT


def _bytes_of(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())
