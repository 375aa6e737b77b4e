"""Turn a sitemap tree into entries, and a sitemap index into the sitemaps it names.

Sitemaps list whole sites in no order. So where they say when a page changed, the newest come first.
"""

from __future__ import annotations

from itertools import islice

from lxml import etree

from core.feeds.dates import parse_date
from core.feeds.xml_names import ElementNames, plain_text, resolve_link, title_text
from core.models import FeedEntry, FeedKind, ParsedFeed

MAX_LISTED = 50_000
"""The protocol's own limit (sitemaps.org); a file beyond it is read as far as this."""
NEWS_SAMPLE = 2_000
"""A news sitemap has a news element among this many first pages."""


def parse_sitemap(root: etree._Element, names: ElementNames, url: str) -> ParsedFeed | None:
    """Return the sitemap under this root; None when the root is no sitemap's."""
    name = names(root)
    if name not in ("sitemapindex", "urlset"):
        return None
    wanted = "sitemap" if name == "sitemapindex" else "url"
    elements = (child for child in root.iterchildren("*") if names(child) == wanted)
    # sorted() is stable: within a day and among the undated, the order of the file stays.
    entries = sorted((_entry(child, names, url) for child in islice(elements, MAX_LISTED)), key=_age)
    left_out = sum(1 for _ in elements)
    if name == "sitemapindex":
        children = tuple(entry.link for entry in entries if entry.link)
        return ParsedFeed(kind=FeedKind.SITEMAP_INDEX, children=children, left_out=left_out)
    has_news = any(names(grandchild) == "news:news" for child in islice(root, NEWS_SAMPLE) for grandchild in child)
    kind = FeedKind.NEWS_SITEMAP if has_news else FeedKind.SITEMAP
    return ParsedFeed(kind=kind, entries=tuple(entries), left_out=left_out)


def _age(entry: FeedEntry) -> float:
    changed_ts = entry.updated_ts if entry.updated_ts is not None else entry.published_ts
    return float("inf") if changed_ts is None else -changed_ts


def _entry(element: etree._Element, names: ElementNames, base: str) -> FeedEntry:
    children = names.children(element)
    news = names.children(children.get("news:news"))
    link = plain_text(children.get("loc"))
    link = resolve_link(base, link) if link else ""
    return FeedEntry(
        link=link,
        id=link,
        title=title_text(news["news:title"]) if "news:title" in news else "",
        published_ts=parse_date(plain_text(news.get("news:publication_date"))),
        updated_ts=parse_date(plain_text(children.get("lastmod"))),
    )
