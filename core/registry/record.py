"""The registry record of an item: its fields in Redis, and the `Item` that a visit works with.

Values only: what a record says and what to write, not how (docs/architecture.md#registry-record).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Any

from core import ids
from core.registry import field_parsing, http_headers
from core.urls.normalise import split_url

ARTICLES_SOURCE = "rss"
"""The source of everything that feeds list."""
URLS_SOURCE = "urls"
"""The source of single URLs and files that someone registered."""
BASE_INTERVAL_SECONDS = 86_400
ERROR_CHARS = 1_024


class Status(StrEnum):
    """The status of an item."""

    PENDING = "Pending"
    CRAWLED = "Crawled"
    INDEXED = "Indexed"
    ERROR = "Error"
    OUT_OF_SCOPE = "OutOfScope"
    GONE = "Gone"


MAY_HAVE_TEXT = (Status.CRAWLED, Status.INDEXED, Status.ERROR, Status.OUT_OF_SCOPE)
"""An item that is out of scope or in error may keep the text it had."""


@dataclass(slots=True)  # not frozen: that costs three times as much to make, and a refresh makes thousands
class Item:
    """A record as a visit needs it; never changed in place, see `dataclasses.replace`."""

    id: str
    type: str = "url"
    source: str = ""
    """Its identity: the normalised URL or path. Never fetched."""
    fetch_url: str = ""
    """What is fetched: a clean URL, or an absolute path."""
    status: Status = Status.PENDING
    sources: tuple[str, ...] = ()
    """Ids of the sources that list it."""
    stored_status: str = "0"
    stored_sources: str = "0"
    """Status and sources exactly as stored; `0`: there is no such field, or no record."""
    article_uid: str = ""
    article_url: str = ""
    """The link of its article, as it is in the link set."""
    article_categories: str = ""
    has_text: bool = False
    """Whether the text that its validators belong to is still in the store."""
    text_hash: str = ""
    """The content hash of its own document; empty: it has none, or its text is an article's."""

    etag: str = ""
    last_modified: str = ""
    validators_url: str = ""
    """Where the validators came from; they are sent to no other URL (docs/architecture.md#validators)."""
    http_status: int = 0
    content_length: int = 0
    mime_type: str = ""
    language: str = ""
    canonical_url: str = ""
    redirect_chain: str = ""
    content_hash: str = ""
    body_hash: str = ""
    extractor_version: str = ""
    indexed_hash: str = ""
    """The content hash that search has."""
    listed_version: str = ""
    """The version that its source lists now."""
    visited_version: str = ""
    """The version that was listed at its last finished visit."""

    generation: int = 0
    processed_generation: int = 0
    unchanged_streak: int = 0
    conditional_streak: int = 0
    """Checks in a row that were answered by 304."""
    failures: int = 0
    """In a row."""
    missing_checks: int = 0
    """404s in a row."""
    missing_since: float = 0.0
    attempts: int = 0
    checked_ts: float = 0.0
    changed_ts: float = 0.0
    first_seen: str = ""
    next_crawl_at: str = ""
    file_signature: str = ""
    """Signature of the command that registered a single file (`core.sources.io.read_permission`)."""
    alias_of: str = ""
    links_hash: str = ""

    @property
    def next_ts(self) -> float | None:
        """When it is checked next; None: not before a reindex."""
        return field_parsing.iso_timestamp(self.next_crawl_at)

    @property
    def validators(self) -> dict[str, str]:
        """The headers that ask for a 304, byte for byte as they came."""
        return http_headers.validators(self.etag, self.last_modified)

    @property
    def is_forced(self) -> bool:
        """Must it be read again, whatever its validators say?"""
        return self.generation > self.processed_generation


_TEXTS = {
    "type": "type",
    "source": "normalizedSource",
    "fetch_url": "fetchUrl",
    "article_uid": "articleUid",
    "article_url": "articleUrl",
    "article_categories": "articleCategories",
    "etag": "httpEtag",
    "last_modified": "httpLastModified",
    "validators_url": "validatorsUrl",
    "mime_type": "mimeType",
    "language": "language",
    "canonical_url": "httpCanonicalUrl",
    "redirect_chain": "httpRedirectChain",
    "content_hash": "contentHash",
    "body_hash": "bodyHash",
    "extractor_version": "extractorVersion",
    "indexed_hash": "indexedHash",
    "listed_version": "listedVersion",
    "visited_version": "visitedVersion",
    "first_seen": "firstSeen",
    "next_crawl_at": "nextCrawlAt",
    "file_signature": "fileSignature",
    "alias_of": "aliasOf",
    "links_hash": "linksHash",
}
_INTEGERS = {
    "http_status": "httpStatusCode",
    "content_length": "httpContentLength",
    "generation": "reindexGeneration",
    "processed_generation": "processedGeneration",
    "unchanged_streak": "unchangedStreak",
    "conditional_streak": "conditionalStreak",
    "failures": "consecutiveFailures",
    "attempts": "crawlAttempts",
    "missing_checks": "missingChecks",
}
_TIMES = {"missing_since": "missingSinceTs", "checked_ts": "checkedTs", "changed_ts": "changedTs"}
FIELDS = ("status", "sources", *_TEXTS.values(), *_INTEGERS.values(), *_TIMES.values())
"""The fields of a record that `parse_record` reads, in its order."""
INTEGER_FIELDS = tuple(_INTEGERS.values())
TIME_FIELDS = tuple(_TIMES.values())
_INTEGERS_FROM, _TIMES_FROM = len(_TEXTS), len(_TEXTS) + len(_INTEGERS)
_READ = (*_TEXTS, *_INTEGERS, *_TIMES, "status", "sources", "stored_status", "stored_sources", "has_text", "text_hash")
_in_order_of_item = itemgetter(*(_READ.index(one.name) for one in fields(Item)[1:]))
_STATUSES = {str(status): status for status in Status}


def parse_record(
    item_id: str, values: Sequence[str | None], text_hash: str | None, via: str = "", damaged: set[str] | None = None
) -> Item | None:
    """Return the item from the values of `FIELDS`; None if there is no such record. `via` is one more source of it.

    `text_hash` is the content hash of the item's document, None without one. A field that cannot be read counts as
    empty, and the item is added to `damaged`.
    """
    if values[0] is None:
        return None
    # Thousands of times in a refresh: by position, since forty arguments by name take as long as all else here.
    status, stored_sources, *rest = values
    sources = listing_sources(stored_sources)
    if via and via not in sources:
        sources = (*sources, via)
    known_status = _STATUSES.get(str(status)) or parse_status(status, item_id, damaged)
    read: list[Any] = [value or "" for value in rest[:_INTEGERS_FROM]]
    read += [
        # Nearly all are small numbers, and a call for each would take longer than all else that is done to a field.
        int(value)
        if value and len(value) < 19 and value.isdecimal()
        else field_parsing.integer(value, 0, item_id, damaged)
        for value in rest[_INTEGERS_FROM:_TIMES_FROM]
    ]
    read += [field_parsing.timestamp(value, 0.0, item_id, damaged) for value in rest[_TIMES_FROM:]]
    stored = (str(known_status), "0" if stored_sources is None else stored_sources)
    read += (known_status, sources, *stored, text_hash is not None, text_hash or "")
    return Item(item_id, *_in_order_of_item(read))


@lru_cache(maxsize=256)  # the same for nearly all items of a batch
def listing_sources(stored: str | None) -> tuple[str, ...]:
    """Return the ids of the sources that list an item, from its `sources` field.

    A record without the field was written before there were other sources than feeds.
    """
    return (ARTICLES_SOURCE,) if stored is None else tuple(dict.fromkeys(filter(None, stored.split(","))))


def parse_status(value: object, item_id: str = "", damaged: set[str] | None = None) -> Status:
    """Return a status by its name; an unknown name is Pending."""
    try:
        return Status(str(value))
    except ValueError:
        if damaged is not None:
            damaged.add(item_id)
        return Status.PENDING


# ── values of fields ────────────────────────────────────────────────────────────────────────────


_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))


def iso(ts: float) -> str:
    """Return a time as records have it: `2026-01-31T12:00:00Z`."""
    # Scores are written with three decimals: 59.9996 is 60.000 there, so it has to be the next second here too.
    # By hand, because a refresh writes two for every page, and next checks lie in any second of a few days.
    days, seconds = divmod(int(round(ts, 3)), 86_400)
    hours, seconds = divmod(seconds, 3_600)
    return f"{_iso_day(days)}T{_TWO_DIGITS[hours]}:{_TWO_DIGITS[seconds // 60]}:{_TWO_DIGITS[seconds % 60]}Z"


@lru_cache(maxsize=256)
def _iso_day(days: int) -> str:
    return datetime.fromtimestamp(days * 86_400, UTC).isoformat()[:10]


def content_group(url: str) -> str:
    """Return one name for http, https and query variants: a hash of host and path."""
    parts = split_url(url)
    name = f"{parts.host}{parts.path.rstrip('/')}" if parts else url
    return ids.base32(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
