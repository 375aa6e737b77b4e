"""Read the pages that a sitemap lists, or the sitemaps that an index names. Runs in a parse child.

Reads what sitemaps.org allows: XML, an index, a list of lines, a feed; each also as a gzip file. Titles and news
elements, for which `core.feeds.sitemap` reads the same files, are left aside: a site may list millions of pages.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from core.feeds.dates import parse_date
from core.models import RejectedUrl
from core.urls import tracking_parameters
from core.urls.normalise import join_url, public_url
from core.value_class import value_class

if TYPE_CHECKING:
    from lxml import etree

    from core.feeds.xml_names import ElementNames

MOST_LISTED = 50_000
MAX_BYTES = 50_000_000
"""Inflated. The protocol's limit (sitemaps.org), for the file and for what a gzip file holds."""
MOST_CHARS = 40_000_000
"""Limit for all addresses together: a result that the parse pool accepts, whatever a hostile file lists."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
Listed = tuple[str, float | None]


class SitemapTask(msgspec.Struct, frozen=True, array_like=True):
    """A sitemap's body and where it came from."""

    body: bytes
    url: str
    content_type: str = ""
    tracking_params: tuple[str, ...] = ()


@value_class
class SitemapResult:
    """Clean addresses, each once, with their `lastmod`; newest first, undated ones last."""

    pages: tuple[Listed, ...] = ()
    children: tuple[Listed, ...] = ()
    """The sitemaps that an index names."""
    is_truncated: bool = False
    """The sitemap lists more than was read."""


def read_sitemap(task: SitemapTask) -> SitemapResult:
    """Return what this sitemap lists; raise NotAFeed, with a sentence, when it is none."""
    from core.feeds.parse import decompress_body, parse_feed
    from core.feeds.xml_names import ElementNames
    from core.feeds.xml_tree import parse_xml

    body = decompress_body(task.body, "sitemap")
    start = body[:2_048].lstrip(_BLANK)[:8].lower()
    if start.startswith((b"http://", b"https://")):
        return _result(_lines(body), [], task)
    tree = parse_xml(body, task.content_type) if start.startswith(b"<") else None
    if tree is not None:
        names = ElementNames()
        name = names(tree.root)
        if name == "urlset":
            return _result(_listed(tree.root, names, "url"), [], task)
        if name == "sitemapindex":
            return _result([], _listed(tree.root, names, "sitemap"), task)
    feed = parse_feed(body, task.url, task.content_type)
    entries = [(entry.link, entry.updated_ts or entry.published_ts) for entry in feed.entries]
    return _result(entries, [(child, None) for child in feed.children], task)


def _result(pages: list[Listed], children: list[Listed], task: SitemapTask) -> SitemapResult:
    is_cut = max(len(pages), len(children)) > MOST_LISTED or _chars(pages) + _chars(children) > MOST_CHARS
    return SitemapResult(_newest_first(pages, task), _newest_first(children, task), is_cut)


def _chars(listed: list[Listed]) -> int:
    return sum(len(link) for link, _ in listed)


def _listed(root: etree._Element, names: ElementNames, wanted: str) -> list[Listed]:
    """Read one more than is kept, so that truncation shows."""
    elements = (element for element in root.iterchildren("*") if names(element) == wanted)
    listed: list[Listed] = []
    for element in islice(elements, MOST_LISTED + 1):
        texts = {names(child): child.text or "" for child in element.iterchildren("*")}
        listed.append((texts.get("loc", ""), parse_date(texts.get("lastmod", "").strip())))
    return listed


def _lines(body: bytes) -> list[Listed]:
    lines = body.strip(_BLANK).split(b"\n", MOST_LISTED + 1)
    return [(line.decode("utf-8", "replace"), None) for line in lines[: MOST_LISTED + 1]]


def _newest_first(listed: list[Listed], task: SitemapTask) -> tuple[Listed, ...]:
    matcher = tracking_parameters.tracker_matcher(task.tracking_params)
    dates: dict[str, float | None] = {}
    chars = 0
    for link, moment in sorted(listed, key=_age)[:MOST_LISTED]:
        cleaned = public_url(join_url(task.url, link), matcher) if link.strip() else RejectedUrl(link, "empty")
        if isinstance(cleaned, RejectedUrl):
            continue
        chars += len(cleaned)
        if chars > MOST_CHARS:
            break
        dates.setdefault(cleaned, moment)
    return tuple(dates.items())


def _age(listed: Listed) -> float:
    return float("inf") if listed[1] is None else -listed[1]
