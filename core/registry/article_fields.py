"""The fields of a stored article and of a stored document, for first visits and corrections alike.

A new field of articles or documents is one line here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from core.models import DateSource, Document, Link
from core.registry.page_visit import PageVisit
from core.registry.record import Item
from core.urls.secrets import without_credentials

Value = str | int | float
FIRST_PAGE_TS = 662_688_000.0  # 1991-01-01
DAY_SECONDS = 86_400.0

NOTHING: Mapping[str, str] = {}


def article(
    link: Link, item: Item, document: Document, visit: PageVisit, before: Mapping[str, str], now: float
) -> dict[str, Value]:
    """Return every field of an article hash; `before` is the stored article, empty at its first visit."""
    otherwise = known_otherwise(link.entry, before)
    return {
        "uid": link.uid,
        "url": without_credentials(link.url),
        "category": before.get("category") or link.categories[0],
        "categories": before.get("categories") or ",".join(link.categories),
        "status": "success",
        "item_id": item.id,
        "feed": before.get("feed") or link.feed,
        "duplicate_of": before.get("duplicate_of") or link.duplicate_of,
        **_metadata(document, otherwise, now),
        "published_source": publication(document, otherwise, now)[1],
        "clean_text": document.clean_text,
        "markdown": document.markdown,
        "text_sha1": text_sha1(document.content_hash, document.markdown, document.clean_text),
        "language": document.language,
        "fetched_ts": before.get("fetched_ts") or round(now, 3),
        "raw_len": document.raw_len,
        "text_len": document.text_len,
        "final_url": visit.fetched_url,
        "canonical_url": document.canonical_url,
        "content_hash": document.content_hash,
        "etag": visit.etag,
        "last_modified": visit.last_modified,
        "extractor_version": document.extractor_version,
        "text_source": document.source,
    }


def document(item: Item, document: Document, now: float) -> dict[str, Value]:
    """Return the fields of a document that belong to its page; search adds its own."""
    return {
        "id": item.id,
        "url": item.fetch_url,
        **_metadata(document, NOTHING, now),
        "markdown": document.markdown,
        "text_sha1": text_sha1(document.content_hash, document.markdown),
        "language": document.language,
        "content_hash": document.content_hash,
        "text_len": document.text_len,
    }


def updated(now: float) -> dict[str, Value]:
    """Return the field that says when the text or metadata last changed; written only then."""
    return {"updated_ts": f"{now:.3f}"}


def text_sha1(content_hash: str, markdown: str, clean_text: str = "") -> str:
    """Return a checksum of a text as stored, by which the doctor sees that it was altered."""
    stored = "\n".join((content_hash, markdown, clean_text)).encode("utf-8", "surrogateescape")
    return hashlib.sha1(stored, usedforsecurity=False).hexdigest()


def known_otherwise(entry: Mapping[str, str], before: Mapping[str, str]) -> Mapping[str, str]:
    """Return what is known of an article beside its page: as it is stored, else as its feed says."""
    return before or {**entry, "published_source": DateSource.FEED}


def has_known_date(otherwise: Mapping[str, str], now: float) -> bool:
    """Return whether a feed or an earlier version of the page gave a date that no guess is better than."""
    is_sure = otherwise.get("published_source") in (DateSource.FEED, DateSource.PAGE)
    return is_sure and _is_possible(_number(otherwise.get("published_ts") or ""), now)


def _metadata(document: Document, otherwise: Mapping[str, str], now: float) -> dict[str, Value]:
    """Return what the page says of itself; where it says nothing, what its feed said or what is stored."""
    published, _ = publication(document, otherwise, now)
    return {
        "title": document.title or otherwise.get("title", ""),
        "author": document.author or otherwise.get("author", ""),
        "published_ts": "" if published is None else int(published),
        "image": document.image,
        "abstract": document.abstract,
    }


def publication(document: Document, otherwise: Mapping[str, str], now: float) -> tuple[float | None, str]:
    """Return the best date that can be true, and where it is from.

    What the page states comes first, what it only seems to say last: a date in a text or an address is often another
    one, and the feed's is the publisher's word. Articles stored before sources were noted have none, and are guessed.
    """
    of_page = document.published_ts, DateSource.GUESS if document.is_date_guessed else DateSource.PAGE
    known = _number(otherwise.get("published_ts") or ""), otherwise.get("published_source") or ""
    is_known_better = document.is_date_guessed and has_known_date(otherwise, now)
    for moment, source in (known, of_page) if is_known_better else (of_page, known):
        if _is_possible(moment, now):
            return moment, source
    return None, ""


def _is_possible(moment: float | None, now: float) -> bool:
    """Return whether this is neither in the future nor before the web."""
    return moment is not None and FIRST_PAGE_TS <= moment <= now + DAY_SECONDS


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def is_new_metadata(document: Document, before: Mapping[str, str], *, is_article: bool, now: float) -> bool:
    """Return whether storing this document would change what people see of the page, apart from its text."""
    metadata = _metadata(document, before if is_article else NOTHING, now)
    return any(str(value) != before.get(name, "") for name, value in metadata.items())


METADATA = tuple(_metadata(Document(), NOTHING, 0.0))
"""What may be corrected while the text stays: stored again, without new chunks or vectors."""
SHARED = ("content_hash", *METADATA, "markdown", "language", "text_len")
"""What an article and a page's own document have in common."""
ARTICLE_BEFORE = (
    *("status", "url", "category", "categories", "fetched_ts", "text_source", "text_len", "content_hash"),
    *("duplicate_of", "item_id", "final_url", "feed", "published_source", *METADATA),
)
"""What a visit reads of a stored article; `status` first, which is never missing."""
