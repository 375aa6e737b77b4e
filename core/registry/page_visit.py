"""What a visit learnt of a page that it could read, and the fields of its record that this sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from core.registry.record import content_group, iso
from core.value_class import value_class

NO_REDIRECTS = "[]"
"""An empty chain of redirects, as records have it."""


@value_class
class PageVisit:
    """What a visit learnt of a page that it could read."""

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
    body_hash: str = ""
    image_count: int = 0
    is_file: bool = False
    """A file of a folder or a blob; it has `file…` fields beside the `http…` ones."""


def visited_fields(visit: PageVisit) -> dict[str, str]:
    """Return the fields that a visit with a text sets."""
    file_fields = {
        "fileEtag": visit.etag,
        "fileLastModified": iso_of_http_date(visit.last_modified),
        "fileLength": str(visit.content_length),
        "fileContentType": visit.mime_type,
    }
    return (file_fields if visit.is_file else {}) | {
        "httpEtag": visit.etag,
        "httpLastModified": visit.last_modified,
        "validatorsUrl": visit.fetched_url,
        "httpContentLength": str(visit.content_length),
        "httpStatusCode": str(visit.http_status),
        "httpRedirectChain": redirects_json(visit.redirects),
        "httpRobotsAllowed": "true",
        "httpCanonicalUrl": visit.canonical_url,
        "contentHash": visit.content_hash,
        "textHash": visit.content_hash,
        "bodyHash": visit.body_hash,
        "contentGroupId": content_group(visit.canonical_url or visit.normalised),
        "language": visit.language,
        "mimeType": visit.mime_type,
        "extractorVersion": visit.extractor_version,
        "imageCount": str(visit.image_count),
        "errorMessage": "",
        "aliasOf": "",
    }


def redirects_json(redirects: Sequence[str]) -> str:
    """Return a chain of redirects as records have it."""
    return json.dumps(list(redirects)) if redirects else NO_REDIRECTS


def iso_of_http_date(http_date: str) -> str:
    """Return an HTTP date as records have times; empty if it is none."""
    try:
        return iso(parsedate_to_datetime(http_date).timestamp())
    except (TypeError, ValueError, OverflowError):
        return ""
