"""A sitemap tree into entries, a sitemap index into the sitemaps it names.

Sitemaps list whole sites in no order. So where they say when a page changed, the newest come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lxml import etree

from core.feeds import entry_links
from core.feeds.dates import parse_date
from core.feeds.elements import ElementNames
from core.feeds.text import line, plain
from core.models import Entry, FeedKind, ParsedFeed

MAX_LISTED = 50_000
"""The protocol's own limit (sitemaps.org); a file beyond it is read as far as this."""
NEWS_LOOK = 2_000
"""Among so many pages a news sitemap has shown that it is one."""


def parse_sitemap(root: etree._Element, names: ElementNames, url: str) -> ParsedFeed | None:
    """The sitemap under this root; None when the root is no sitemap's."""
    name = names(root)
    if name not in ("sitemapindex", "urlset"):
        return None
    elements = _listed(root, names, "sitemap" if name == "sitemapindex" else "url")
    listed = _newest_first([_entry(child, names, url) for child in islice(elements, MAX_LISTED)])
    left_out = sum(1 for _ in elements)
    if name == "sitemapindex":
        children = tuple(entry.link for entry in listed if entry.link)
        return ParsedFeed(kind=FeedKind.SITEMAP_INDEX, children=children, left_out=left_out)
    has_news = any(names(grandchild) == "news:news" for child in islice(root, NEWS_LOOK) for grandchild in child)
    kind = FeedKind.NEWS_SITEMAP if has_news else FeedKind.SITEMAP
    return ParsedFeed(kind=kind, entries=tuple(listed), left_out=left_out)


def _listed(root: etree._Element, names: ElementNames, wanted: str) -> Iterator[etree._Element]:
    return (child for child in root.iterchildren("*") if names(child) == wanted)


def _newest_first(entries: list[Entry]) -> list[Entry]:
    """Dated ones first; the order of the file within a day and among the undated."""
    return sorted(entries, key=_age)


def _age(entry: Entry) -> float:
    moment = entry.updated_ts if entry.updated_ts is not None else entry.published_ts
    return float("inf") if moment is None else -moment


def _entry(element: etree._Element, names: ElementNames, base: str) -> Entry:
    found = {names(child): child for child in element.iterchildren("*")}
    link = _text(found.get("loc"))
    link = entry_links.resolve(base, link) if link else ""
    news = found.get("news:news")
    story = {names(child): child for child in news.iterchildren("*")} if news is not None else {}
    publication = story.get("news:publication")
    publisher = {names(child): child for child in publication.iterchildren("*")} if publication is not None else {}
    return Entry(
        link=link,
        id=link,
        title=line(story["news:title"]) if "news:title" in story else "",
        published_ts=parse_date(_text(story.get("news:publication_date"))),
        updated_ts=parse_date(_text(found.get("lastmod"))),
        source_title=_text(publisher.get("news:name")),
    )


def _text(element: etree._Element | None) -> str:
    return plain(element) if element is not None else ""
