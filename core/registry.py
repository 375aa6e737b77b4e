"""The registry record of an item, field by field as spec 000 §4 names them, flattened.

Values only: what to write, not how.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from core import ids, urls

ARTICLES_SOURCE = "rss"
BASE_INTERVAL_SECONDS = 86_400


class Status(StrEnum):
    """Where an item stands."""

    PENDING = "Pending"
    CRAWLED = "Crawled"
    INDEXED = "Indexed"
    ERROR = "Error"
    OUT_OF_SCOPE = "OutOfScope"
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class PageVisit:
    """What a successful visit of a page learnt."""

    normalised: str
    fetched_url: str
    http_status: int
    etag: str
    last_modified: str
    content_length: int
    redirects: Sequence[str]
    canonical_url: str
    content_hash: str
    language: str
    mime_type: str
    extractor_version: str


def iso(ts: float) -> str:
    """A time as spec 000 writes it."""
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_check_at(item_id: str, now: float) -> float:
    """A day later, ± 10 %: items stored together are not checked together. Which way, its id decides."""
    chance = int.from_bytes(item_id.encode()[-4:], "big") % 1_000 / 999
    return now + BASE_INTERVAL_SECONDS * (0.9 + 0.2 * chance)


def first_record(visit: PageVisit, article_uid: str, now: float, strategy: str = "host") -> dict[str, str]:
    """The record of an item whose first visit stored an article; not yet indexed, so `Crawled`."""
    item_id = ids.item_id("url", visit.normalised)
    host = urls.host_of(visit.normalised)
    return {
        "id": item_id,
        "type": "url",
        "PartitionKey": host if strategy == "host" else visit.normalised.partition(":")[0],
        "RowKey": item_id.partition("_")[2],
        "normalizedSource": visit.normalised,
        "displaySource": urls.display(visit.fetched_url),
        "sourceHost": host,
        "fetchUrl": visit.fetched_url,
        "parentPageId": "",
        "status": str(Status.CRAWLED),
        "reindexRequested": "false",
        "reindexGeneration": "0",
        "processedGeneration": "0",
        "httpEtag": visit.etag,
        "httpLastModified": visit.last_modified,
        "httpContentLength": str(visit.content_length),
        "httpStatusCode": str(visit.http_status),
        "httpRedirectChain": json.dumps(list(visit.redirects)),
        "httpRobotsAllowed": "true",
        "httpCanonicalUrl": visit.canonical_url,
        "fileEtag": "",
        "fileLastModified": "",
        "fileLength": "",
        "fileContentType": "",
        "contentHash": visit.content_hash,
        "textHash": visit.content_hash,
        "language": visit.language,
        "mimeType": visit.mime_type,
        "extractorVersion": visit.extractor_version,
        "articleUid": article_uid,
        "lastIndexedDocId": "",
        "imageCount": "0",
        "firstSeen": iso(now),
        "lastChecked": iso(now),
        "lastChanged": iso(now),
        "lastIndexed": "",
        "crawlAttempts": "1",
        "errorMessage": "",
        "nextCrawlAt": iso(first_check_at(item_id, now)),
        "crawlIntervalSeconds": str(BASE_INTERVAL_SECONDS),
        "lockedUntil": "",
    }
