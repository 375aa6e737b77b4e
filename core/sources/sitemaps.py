"""A sitemap's bytes into the pages it lists, or the sitemaps that an index names. Runs in a parse child.

Reads what sitemaps.org allows: XML, an index, a list of lines, a feed; each also as a gzip file. Unlike a feed, which
is read for its newest entries, a sitemap is read up to the protocol's own 50,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from core.documents.decompress import GZIP_MAGIC, gunzip
from core.errors import Damaged, NotAFeed
from core.feeds.dates import parse_date
from core.models import RejectedUrl
from core.urls import trackers
from core.urls.normalise import join_url, public_url

if TYPE_CHECKING:
    from lxml import etree

MOST_LISTED = 50_000
MAX_BYTES = 50_000_000
"""Inflated. The protocol's limit (sitemaps.org), for the file and for what a gzip file holds."""
MOST_CHARS = 40_000_000
"""Of all addresses together: an answer that the pool takes, whatever a hostile file lists."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
Listed = tuple[str, float | None]


class SitemapTask(msgspec.Struct, frozen=True, array_like=True):
    """A sitemap's body and where it came from."""

    body: bytes
    url: str
    content_type: str = ""
    tracking_params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SitemapResult:
    """Clean addresses, each once, with their `lastmod`; newest first, undated ones last."""

    pages: tuple[Listed, ...] = ()
    children: tuple[Listed, ...] = ()
    """The sitemaps that an index names."""
    is_truncated: bool = False
    """More were there than we read."""


def read_sitemap(task: SitemapTask) -> SitemapResult:
    """What this sitemap lists; raises NotAFeed, with a sentence, when it is none."""
    from core.feeds.elements import ElementNames
    from core.feeds.parse import parse_feed
    from core.feeds.xml_tree import parse_xml

    body = _inflated(task.body) if task.body.startswith(GZIP_MAGIC) else task.body
    start = body[:2_048].lstrip(_BLANK)[:8].lower()
    if start.startswith((b"http://", b"https://")):
        return _result(_lines(body), [], task)
    tree = parse_xml(body, task.content_type) if start.startswith(b"<") else None
    if tree is not None:
        name = ElementNames()(tree.root)
        if name == "urlset":
            return _result(_listed(tree.root, "url"), [], task)
        if name == "sitemapindex":
            return _result([], _listed(tree.root, "sitemap"), task)
    feed = parse_feed(body, task.url, task.content_type)
    entries = [(entry.link, entry.updated_ts or entry.published_ts) for entry in feed.entries]
    return _result(entries, [(child, None) for child in feed.children], task)


def _result(pages: list[Listed], children: list[Listed], task: SitemapTask) -> SitemapResult:
    is_cut = max(len(pages), len(children)) > MOST_LISTED or _chars(pages) + _chars(children) > MOST_CHARS
    return SitemapResult(_newest_first(pages, task), _newest_first(children, task), is_cut)


def _chars(listed: list[Listed]) -> int:
    return sum(len(link) for link, _ in listed)


def _listed(root: etree._Element, wanted: str) -> list[Listed]:
    """One more than we keep, so that it shows."""
    from core.feeds.elements import ElementNames

    names = ElementNames()
    elements = (element for element in root.iterchildren("*") if names(element) == wanted)
    listed: list[Listed] = []
    for element in islice(elements, MOST_LISTED + 1):
        said = {names(child): child.text for child in element.iterchildren("*")}
        listed.append((said.get("loc") or "", parse_date((said.get("lastmod") or "").strip())))
    return listed


def _lines(body: bytes) -> list[Listed]:
    lines = body.strip(_BLANK).split(b"\n", MOST_LISTED + 1)
    return [(line.decode("utf-8", "replace"), None) for line in lines[: MOST_LISTED + 1]]


def _newest_first(listed: list[Listed], task: SitemapTask) -> tuple[Listed, ...]:
    matcher = trackers.tracker_matcher(task.tracking_params)
    found: dict[str, float | None] = {}
    chars = 0
    for link, moment in sorted(listed, key=_age)[:MOST_LISTED]:
        cleaned = public_url(join_url(task.url, link), matcher) if link.strip() else RejectedUrl(link, "empty")
        if isinstance(cleaned, RejectedUrl):
            continue
        chars += len(cleaned)
        if chars > MOST_CHARS:
            break
        found.setdefault(cleaned, moment)
    return tuple(found.items())


def _age(listed: Listed) -> float:
    return float("inf") if listed[1] is None else -listed[1]


def _inflated(body: bytes) -> bytes:
    """What a `.xml.gz` holds; HTTP delivers such files as they are."""
    try:
        inflated = gunzip(body, MAX_BYTES)
    except Damaged as exc:
        raise NotAFeed("This is a damaged gzip file") from exc
    if len(inflated) > MAX_BYTES:
        raise NotAFeed("The compressed sitemap is too large")
    return inflated
