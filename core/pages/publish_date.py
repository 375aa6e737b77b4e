"""Find when an article was published: what the page states, then what its address and its text suggest.

Reads no clock: the caller doubts dates in the future. The visible text is read by `shown_date`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from lxml import etree

from core.feeds.dates import parse_date
from core.pages import json_ld
from core.pages.day_in_line import day_in_line
from core.pages.metadata import PageMetadata
from core.pages.shown_date import shown_publish_date
from core.pages.time_elements import Attributes, is_marked_as_published
from core.urls.normalise import split_url

# Meta names for the time of publication (not of change), most exact first.
_METAS = (
    *("article:published_time", "og:article:published_time", "article:published", "og:published_time"),
    *("datepublished", "parsely-pub-date", "sailthru.date", "dc.date.issued", "dcterms.issued", "dcterms.created"),
    *("dc.date.created", "dc.date", "dc:date", "dcterms.date", "citation_publication_date", "citation_date"),
    *("publish-date", "publish_date", "publishdate", "publication_date", "publicationdate", "published_time"),
    *("pubdate", "ptime", "article_date_original", "cxenseparse:recs:publishtime", "bt:pubdate", "timestamp"),
    *("rnews:datepublished", "date", "created", "originalpublicationdate", "displaydate", "eomportal-lastupdate"),
)
_IN_PATH = re.compile(r"/((?:19|20)\d\d)/([01]?\d)/([0-3]?\d)(?:/|$)")
# At the beginning or end of the last segment: further up it is the version of an interface, or an archive's.
_IN_SLUG = re.compile(
    r"(?:^|[_-])((?:19|20)\d\d)-([01]\d)-([0-3]\d)(?:\.\w+)?$|^((?:19|20)\d\d)-([01]\d)-([0-3]\d)[_-]"
)
_PARENT_OF_VERSIONS = re.compile(
    r"/(?:apis?|rest|v\d[\w.]*|versions?|docs?|documentation|reference|schemas?|specs?)/", re.IGNORECASE
)
_WITH_YEAR = re.compile(r"(?:19|20)\d\d")
_IN_BROKEN_JSON = re.compile(r'"datePublished"\s*:\s*"([^"]{8,40})"')


def stated_publish_date(metadata: PageMetadata) -> float | None:
    """Return seconds since 1970 UTC, or None if the page states no time of publication."""
    stated = chain(
        [json_ld.text(metadata.article, "datePublished", "dateCreated", "uploadDate")],
        map(metadata.meta, _METAS),
        (_moment(time) for time in metadata.times if is_marked_as_published(time)),
    )
    return _first_date(stated)


def suggested_publish_date(metadata: PageMetadata) -> float | None:
    """Return the day that the address names, else the first time in the page's head; for pages that state none."""
    named = date_in_path(metadata.url) or date_in_path(metadata.canonical_url)
    return named or _first_date(map(_moment, metadata.times[:1]))


def guess_publish_date(root: etree._Element) -> float | None:
    """Return the day of publication that the page shows, else one in JSON-LD that no parser reads, or None."""
    shown = shown_publish_date(root)
    if shown is not None:
        return shown
    scripts = (str(script.text or "") for script in root.iter("script") if script.get("type") == "application/ld+json")
    broken = (_IN_BROKEN_JSON.search(script) for script in scripts)
    return next((day for match in broken if match and (day := day_in_line(match[1])) is not None), None)


def date_in_path(url: str) -> float | None:
    """Return the day that an address names: `/2019/11/18/story` or `/2019-11-18-story`; not the version of an API."""
    parts = split_url(url[:500])
    path = parts.path.rstrip("/") if parts else ""
    if _PARENT_OF_VERSIONS.search(path):
        return None
    match = _IN_PATH.search(path) or _IN_SLUG.search(path.rpartition("/")[2])
    year, month, day = filter(None, match.groups()) if match else ("", "0", "")
    return parse_date(f"{year}-{month:0>2}-{day:0>2}") if 1 <= int(month) <= 12 else None


def _moment(time: Attributes) -> str:
    return (time.get("datetime") or time.get("content") or "").strip()


def _first_date(texts: Iterable[str]) -> float | None:
    dates = (parse_date(text) for text in texts if _WITH_YEAR.search(text))
    return next((date for date in dates if date is not None), None)
