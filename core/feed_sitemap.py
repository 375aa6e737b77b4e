"""A sitemap tree into entries, a sitemap index into the sitemaps it names.

Sitemaps list whole sites in no order. So where they say when a page changed, the newest come first, and a cap cuts
off the oldest.
"""

from __future__ import annotations

from itertools import islice

from lxml import etree

from core import feed_dates, feed_links
from core.feed_names import Names
from core.feed_text import line, plain
from core.models import Entry, FeedKind, ParsedFeed

# The protocol's own limit (sitemaps.org); a file beyond it is read as far as this.
_MAX_LISTED = 50_000


def read(root: etree._Element, names: Names, url: str, limit: int) -> ParsedFeed | None:
    """The sitemap under this root; None when the root is no sitemap's."""
    name = names(root)
    if name == "sitemapindex":
        listed = _newest_first([_entry(child, names, url) for child in _listed(root, names, "sitemap")])
        children = tuple(entry.link for entry in listed[:limit] if entry.link)
        return ParsedFeed(kind=FeedKind.SITEMAP_INDEX, children=children, truncated=len(listed) > limit)
    if name != "urlset":
        return None
    listed = _newest_first([_entry(child, names, url) for child in _listed(root, names, "url")])
    has_news = any(names(grandchild) == "news:news" for child in islice(root, limit) for grandchild in child)
    return ParsedFeed(
        kind=FeedKind.NEWS_SITEMAP if has_news else FeedKind.SITEMAP,
        entries=tuple(listed[:limit]),
        truncated=len(listed) > limit,
    )


def _listed(root: etree._Element, names: Names, wanted: str) -> list[etree._Element]:
    return list(islice((child for child in root.iterchildren("*") if names(child) == wanted), _MAX_LISTED))


def _newest_first(entries: list[Entry]) -> list[Entry]:
    """Dated ones first; the order of the file within a day and among the undated."""
    return sorted(entries, key=_age)


def _age(entry: Entry) -> float:
    moment = entry.updated_ts if entry.updated_ts is not None else entry.published_ts
    return float("inf") if moment is None else -moment


def _entry(element: etree._Element, names: Names, base: str) -> Entry:
    found = {names(child): child for child in element.iterchildren("*")}
    link = _text(found.get("loc"))
    link = feed_links.resolve(base, link) if link else ""
    news = found.get("news:news")
    story = {names(child): child for child in news.iterchildren("*")} if news is not None else {}
    publication = story.get("news:publication")
    publisher = {names(child): child for child in publication.iterchildren("*")} if publication is not None else {}
    return Entry(
        link=link,
        id=link,
        title=line(story["news:title"]) if "news:title" in story else "",
        published_ts=feed_dates.to_epoch(_text(story.get("news:publication_date"))),
        updated_ts=feed_dates.to_epoch(_text(found.get("lastmod"))),
        source_title=_text(publisher.get("news:name")),
    )


def _text(element: etree._Element | None) -> str:
    return plain(element) if element is not None else ""
