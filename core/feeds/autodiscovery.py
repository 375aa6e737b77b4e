"""Find the feeds that a page's HTML names, and the URLs worth a try when it names none. Fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import urljoin, urlsplit

from lxml import etree

from core.feeds.encoding import is_utf_8
from core.feeds.xml_names import without_unstorable
from core.models import DiscoveredFeed

_MAX_HTML_BYTES = 2_000_000
_MAX_FEEDS = 50
_MAX_ANCHORS = 5000
_FEED_TYPES = frozenset(
    ("text/xml", *(f"application/{kind}" for kind in ("rss+xml", "atom+xml", "rdf+xml", "feed+json", "json", "xml")))
)
_FEED_PATH = re.compile(
    r"/(?:feeds?|rss|atom)/?$|[/._-](?:rss|atom|rdf)(?:\.xml|\.php|\.json)?$|/(?:feed|index)\.(?:xml|rdf|json|rss|atom)$",
    re.IGNORECASE,
)
# Attributes in one tag are quadratic in libxml2's HTML parser: 890 KB of them took 13 s.
_LONG_TAG = re.compile(rb"<[A-Za-z][^<>]{16384,}")
_COMMENTS = re.compile(r"comment|respon[ds]|replies", re.IGNORECASE)
# In the order of how often they answer: WordPress, then static site generators, then news sitemaps.
_USUAL_PATHS = (
    *("feed", "rss.xml", "atom.xml", "feed.xml", "index.xml", "rss", "feed.json", "feeds", "index.rdf"),
    *("sitemap_news.xml", "news-sitemap.xml", "sitemap-news.xml", "sitemap.xml", "sitemap_index.xml"),
)


def linked_feeds(html: bytes, url: str) -> list[DiscoveredFeed]:
    """Return the feeds this page names, declared ones first, feeds of comments last, each once."""
    html = _LONG_TAG.sub(b"", html[:_MAX_HTML_BYTES])
    encoding = "utf-8" if is_utf_8(html) else None
    parser = etree.HTMLParser(
        encoding=encoding, no_network=True, remove_comments=True, remove_pis=True, huge_tree=False
    )
    try:
        root = etree.fromstring(html, parser)
    except etree.XMLSyntaxError:
        return []
    if root is None:
        return []
    base = root.find(".//base[@href]")
    base_url = (_joined(url, str(base.get("href"))) if base is not None else "") or url
    feeds: dict[str, DiscoveredFeed] = {}
    for feed in _named_feeds(root, base_url):
        if feed.url and len(feeds) < _MAX_FEEDS:
            feeds.setdefault(feed.url, feed)
    return sorted(feeds.values(), key=lambda feed: bool(_COMMENTS.search(f"{feed.url} {feed.title}")))


def _named_feeds(root: etree._Element, base_url: str) -> Iterator[DiscoveredFeed]:
    for link in root.iter("link"):
        href, relations = link.get("href") or "", (link.get("rel") or "").lower().split()
        kind = (link.get("type") or "").partition(";")[0].strip().lower()
        # WordPress declares its REST and oEmbed endpoints as plain JSON or XML alternates.
        is_api = "/wp-json/" in href or "oembed" in href
        # `rel=feed` was HTML5's own word for it for a while, and needs no type.
        if "feed" in relations or ("alternate" in relations and kind in _FEED_TYPES and not is_api):
            yield DiscoveredFeed(_joined(base_url, href), _title(link.get("title") or ""), kind)
    for anchor in islice(root.iter("a"), _MAX_ANCHORS):
        target = _joined(base_url, anchor.get("href") or "")
        if target and _FEED_PATH.search(urlsplit(target).path):
            yield DiscoveredFeed(target, _title("".join(str(text) for text in anchor.itertext())))


def common_feed_urls(url: str) -> list[str]:
    """Return URLs where feeds usually are: beside the page first, then at the root of its site."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return []
    site = f"{parts.scheme}://{parts.netloc}/"
    folder = urljoin(url, parts.path if parts.path.endswith("/") else f"{parts.path}/")
    beside = [urljoin(folder, name) for name in _USUAL_PATHS[:3]] if folder != site else []
    return list(dict.fromkeys([*beside, *(site + name for name in _USUAL_PATHS)]))


def _joined(base: str, href: str) -> str:
    """Return the absolute http URL without its fragment; empty for everything else. `feed:` stands for http."""
    href = re.sub(r"^feed:(?://)?(?=https?:)", "", href.strip(), flags=re.IGNORECASE)
    href = re.sub(r"^feed:", "http:", href, flags=re.IGNORECASE)
    try:
        joined = urljoin(base, href).partition("#")[0] if href else ""
        parts = urlsplit(joined)
    except ValueError:
        return ""
    return joined if parts.scheme in ("http", "https") and parts.netloc else ""


def _title(text: str) -> str:
    return " ".join(without_unstorable(text).split())[:200]
