"""Feeds found through a page."""

from __future__ import annotations

import pytest

from core.feeds.autodiscovery import common_feed_urls, linked_feeds
from core.models import DiscoveredFeed

URL = "https://site.example/blog/post"
PAGE = b"""<!doctype html><html><head>
<base href="/base/">
<link rel="alternate" type="application/rss+xml" title="Comments on this" href="/comments/feed/">
<LINK REL="Alternate Home" TYPE="Application/RSS+XML; charset=utf-8" TITLE="All&nbsp; posts" HREF="rss.xml">
<link rel="alternate" type="application/atom+xml" href="https://other.example/atom#top">
<link rel="alternate" type="application/feed+json" href="feed.json">
<link rel="alternate" type="application/json" href="/wp-json/wp/v2/posts/1">
<link rel="alternate" hreflang="de" href="/de/">
<link rel="stylesheet" type="text/css" href="/feed">
<!-- <link rel="alternate" type="application/rss+xml" href="/hidden"> -->
</head><body>
<a href="/news/rss"><b>News</b> by RSS</a> <a href="rss.xml">again</a> <a href="/feedback">no</a>
<a href="feed:https://pod.example/feed.xml">Pod</a> <a href="javascript:feed">no</a> <a href="http://[/feed">no</a>
</body></html>"""


def test_finds_declared_and_linked_feeds() -> None:
    """Declared feeds come first, then links that look like feeds, then comments; each once, with its base."""
    assert linked_feeds(PAGE, URL) == [
        DiscoveredFeed("https://site.example/base/rss.xml", "All posts", "application/rss+xml"),
        DiscoveredFeed("https://other.example/atom", "", "application/atom+xml"),
        DiscoveredFeed("https://site.example/base/feed.json", "", "application/feed+json"),
        DiscoveredFeed("https://site.example/news/rss", "News by RSS", ""),
        DiscoveredFeed("https://pod.example/feed.xml", "Pod", ""),
        DiscoveredFeed("https://site.example/comments/feed/", "Comments on this", "application/rss+xml"),
    ]


@pytest.mark.parametrize("html", [b"", b" ", b"\0", b"plain text", b"<html>", b"\xff\xfe<"])
def test_finds_nothing_in_nothing(html: bytes) -> None:
    """Pages without feeds, or without being pages, give an empty list."""
    assert linked_feeds(html, URL) == []


@pytest.mark.parametrize(
    ("name", "html"),
    [
        ("attributes", b"<a " + b" ".join(b"a%d=1" % n for n in range(100_000)) + b">"),
        ("links", b"<a href=/feed>" * 100_000),
        ("depth", b"<div>" * 100_000),
    ],
)
@pytest.mark.usefixtures("no_runaway")
def test_survives_floods(name: str, html: bytes) -> None:
    """No page we know costs more than a moment, or more feeds than a page may have."""
    assert len(linked_feeds(html, URL)) <= 50


def test_guesses_beside_the_page_and_at_the_root() -> None:
    """The usual paths are tried beside the page first, then at the root; nothing twice."""
    found = common_feed_urls("https://site.example/blog?page=2#top")
    assert found[0] == "https://site.example/blog/feed"
    assert {"https://site.example/rss.xml", "https://site.example/sitemap_news.xml"} <= set(found)
    assert len(found) == len(set(found))
    assert common_feed_urls("https://site.example/")[0] == "https://site.example/feed"
    assert common_feed_urls("file:///etc/") == []
