"""Parse a feed of any format into entries.

RSS, Atom, RDF, CDF and sitemaps go through lxml, JSON Feed through json, and what lxml cannot make sense of through
feedparser. Opens nothing, knows no clock; whatever is no feed raises NotAFeed with a sentence that says what it is.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from lxml import etree

from core.errors import Damaged, NotAFeed
from core.feeds import feedparser_fallback, json_feed, rss_atom, sitemap
from core.feeds.xml_names import ElementNames
from core.feeds.xml_tree import parse_xml
from core.models import ParsedFeed
from core.pages.documents.decompress import GZIP_MAGIC, gunzip

MAX_ENTRIES = 2000
"""Limit for a feed; a sitemap lists a whole site and has the limit of its protocol."""
MAX_INFLATED_BYTES = 50_000_000

_HTML_PAGE = "This is an HTML page, not a feed"
_SPACE = b" \t\r\n\x0b\x0c\x00"
_WRAPPED = frozenset(("rss", "feed", "rdf:rdf", "urlset", "sitemapindex"))


def parse_feed(body: bytes, url: str, content_type: str = "") -> ParsedFeed:
    """Return the feed in this body, links made absolute against `url`; NotAFeed when there is none."""
    body = decompress_body(body)
    start = body[:2048].removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)[:1024].lower()
    if not start:
        raise NotAFeed("The body is empty")
    if start.startswith((b"{", b"[")):
        return json_feed.parse_json_feed(body, url, MAX_ENTRIES)
    if start.startswith((b"<!doctype html", b"<html")):
        raise NotAFeed(_HTML_PAGE)
    return _from_xml(body, url, content_type)


def _from_xml(body: bytes, url: str, content_type: str) -> ParsedFeed:
    """Return lxml's result where nothing was lost; else feedparser's, or lxml's where feedparser has none."""
    tree, names = parse_xml(body, content_type), ElementNames()
    feed = _from_tree(tree.root, names, url) if tree else None
    if tree and tree.is_sound:
        if feed:
            return feed
        root_name = names(tree.root).rpartition(":")[2]
        is_html = root_name == "html"
        raise NotAFeed(_HTML_PAGE if is_html else f"This is XML, but not a feed: its root is <{root_name[:40]}>")
    try:
        lenient = feedparser_fallback.parse_leniently(body, url, content_type, MAX_ENTRIES)
    except NotAFeed:
        if feed is None:
            raise
        return feed
    if feed is None:
        return lenient
    # feedparser knows no skipHours; what libxml2 saved of the feed's head does.
    return feed if len(feed.entries) > len(lenient.entries) else replace(lenient, hints=feed.hints)


def _from_tree(root: etree._Element, names: ElementNames, url: str) -> ParsedFeed | None:
    # Some servers wrap the feed in an envelope of their own, never nested deeply.
    for element in islice(root.iter("*"), 20) if names(root) not in ("html", "xhtml:html") else ():
        if element is root or names(element) in _WRAPPED:
            feed = rss_atom.parse_rss_atom(element, names, url, MAX_ENTRIES)
            feed = feed or sitemap.parse_sitemap(element, names, url)
            if feed:
                return feed
    return None


def decompress_body(body: bytes, kind: str = "feed") -> bytes:
    """Return what a gzip file holds, and any other body as it is: HTTP delivers a `.xml.gz` without unpacking it."""
    if not body.startswith(GZIP_MAGIC):
        return body
    try:
        inflated = gunzip(body, MAX_INFLATED_BYTES)
    except Damaged as exc:
        raise NotAFeed("This is a damaged gzip file") from exc
    if len(inflated) > MAX_INFLATED_BYTES:
        raise NotAFeed(f"The compressed {kind} is too large")
    return inflated
