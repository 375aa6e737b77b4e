"""Find when an article was published: what the page states, then what its address and its text suggest.

Reads no clock: the caller doubts dates in the future. Guesses from the visible text are made by htmldate.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from copy import copy
from functools import lru_cache
from itertools import chain
from typing import cast

from lxml import etree

from core.feeds.dates import parse_date
from core.pages import json_ld
from core.pages.dated_texts import keep_dates_of_page
from core.pages.metadata import PageMetadata
from core.pages.time_elements import (
    MAX_LINE_CHARS,
    SENTENCE_TAGS,
    Attributes,
    is_class_of_change,
    is_class_of_others,
    is_line_with_date,
    is_marked_as_published,
    tells_of_change,
)
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
_NO_DATE_IN = (
    *("pre", "code", "samp", "kbd", "table", "nav", "footer", "aside", "form", "blockquote", "style"),
    *("svg", "picture", "video", "audio", "iframe", "object", "select", "option", "button", "textarea"),
)
_PAGE_TAGS = frozenset(("html", "head", "body", "main", "article", "meta", "link", "title", "h1"))
_HEADINGS = frozenset(("h2", "h3", "h4", "h5", "h6"))
_CLASS_OF_FOOTER = re.compile(r"(?:^|\s)(?:site-|page-|global-)?footer(?:$|\s)", re.IGNORECASE)
_CLASS_OF_EXAMPLE = re.compile(r"(?:^|[\s_-])(?:example|sample|placeholder|date-format)(?:$|[\s_-])", re.IGNORECASE)
_VERSION = re.compile(r"(?:^|[\s(\[v])\d{1,3}\.\d{1,3}(?:\.\d{1,3})?(?![.\d])")
_WITH_YEAR = re.compile(r"(?:19|20)\d\d")
# Text by text: to ask each element for its texts takes a quarter longer.
_DATED = etree.XPath("/descendant::text()[contains(., '20') or contains(., '19')]/..")
_STATED_ANYHOW = etree.XPath("boolean(//script[contains(., '\"datePublished\"')])")
_MAX_CACHED = 10_000
_MAX_TITLES = 10


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
    """Return the day of publication that the page shows, or None.

    htmldate gets the page without scripts, code, tables, quotations and sentences, in which it finds dates of builds,
    examples and versions; of the short lines it gets datelines. Where none is left, it would take that of an image.
    Its extensive search costs seven times as much, and what it adds is mostly the first of some January.
    """
    from htmldate import find_date

    rest = copy(root)
    for script in list(rest.iter("script")):
        if script.get("type") != "application/ld+json":
            script.text = None
    etree.strip_elements(rest, *_NO_DATE_IN, with_tail=False)
    dated = _with_year(rest)
    if not dated:
        return None
    around_title = {above for title in list(rest.iter("h1"))[:_MAX_TITLES] for above in title.iterancestors()}
    for element in list(rest.iter(etree.Element)):
        if element.tag not in _PAGE_TAGS and _holds_no_date(element, around_title, dated):
            tail = element.tail
            element.clear()
            element.tail = tail
    # JSON-LD that no parser reads may still state a date.
    if not keep_dates_of_page(rest) and not _STATED_ANYHOW(rest):
        return None
    try:
        # As text: it insists on elements of `lxml.html`.
        html = etree.tostring(rest, encoding="unicode", method="html")
        day = find_date(html, original_date=True, extensive_search=False)
    except Exception:  # noqa: BLE001 - it was not made for hostile pages, and no date is worth losing one
        return None
    return parse_date(day) if day else None


def _with_year(root: etree._Element) -> set[etree._Element]:
    """Return the elements whose own text has a year, and their parents: all other text needs no look."""
    own = cast("list[etree._Element]", _DATED(root))
    return {one for element in own for one in (element, element.getparent()) if one is not None}


def _holds_no_date(
    element: etree._Element, around_title: Container[etree._Element], dated: Container[etree._Element]
) -> bool:
    """Return whether no date in this can be that of the page: in sentences, footers, comments, versions, examples."""
    name = element.get("class") or ""
    if element.tag == "time" and _WITH_YEAR.search(element.get("datetime") or ""):
        return True  # else the page would state it
    if name and _is_class_without_date(str(element.tag), name):
        return element not in around_title
    if element.tag not in SENTENCE_TAGS and element not in dated:
        return False
    words = _short_text(element)
    if element.tag in SENTENCE_TAGS and (words is None or not is_line_with_date(words)):
        return True
    if not words or not _WITH_YEAR.search(words) or len(words) > MAX_LINE_CHARS:
        return False
    is_release = element.tag in _HEADINGS and _VERSION.search(words)
    return bool(is_release or _CLASS_OF_EXAMPLE.search(name)) or is_class_of_change(name) or tells_of_change(words)


@lru_cache(maxsize=_MAX_CACHED)  # half of a page's classes stand at several elements
def _is_class_without_date(tag: str, name: str) -> bool:
    return bool(_CLASS_OF_FOOTER.search(name)) or is_class_of_others(tag, name)


def _short_text(element: etree._Element) -> str | None:
    """Return the text in one line, None if there is much of it."""
    if not len(element):  # as most lines are: no iterator is made
        line = str(element.text or "")
        return " ".join(line.split()) if len(line) < 4 * MAX_LINE_CHARS else None
    text = ""
    for piece in map(str, element.itertext()):
        text += f" {piece}"
        if len(text) > 4 * MAX_LINE_CHARS:
            return None
    return " ".join(text.split())


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
