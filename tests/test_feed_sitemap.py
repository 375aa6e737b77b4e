"""Sitemaps: order, caps, news and indexes."""

from __future__ import annotations

from pathlib import Path

from core.feeds.parse import parse_feed
from core.models import FeedKind

DATA = Path(__file__).parent / "data" / "feeds"


def test_newest_pages_come_first() -> None:
    """Pages are ordered by when they changed, undated ones last."""
    feed = parse_feed((DATA / "sitemap.xml").read_bytes(), "https://map.example/sitemap.xml")
    assert feed.kind is FeedKind.SITEMAP
    assert [entry.link.rpartition("/")[2] for entry in feed.entries] == ["new", "old", "undated"]


def test_a_sitemap_is_not_cut_like_a_feed() -> None:
    """Fifty thousand pages, as many as the protocol allows, are read; of more the rest is counted."""
    pages = "".join(f"<url><loc>http://a.example/{n}</loc></url>" for n in range(50_007))
    feed = parse_feed(f"<urlset>{pages}</urlset>".encode(), "http://a.example/")
    assert (len(feed.entries), feed.left_out) == (50_000, 7)
    assert feed.entries[-1].link == "http://a.example/49999"


def test_news_have_titles_and_dates() -> None:
    """A Google News sitemap gives the story's title, date and publication under any prefix."""
    (story,) = parse_feed((DATA / "news_sitemap.xml").read_bytes(), "").entries
    assert (story.title, story.published_ts) == ("Water rises", 1736121600.0)


def test_an_index_names_its_sitemaps() -> None:
    """A sitemap index has children, newest first, and no entries."""
    feed = parse_feed((DATA / "sitemap_index.xml").read_bytes(), "")
    assert feed.kind is FeedKind.SITEMAP_INDEX
    assert feed.children == ("https://map.example/2025.xml", "https://map.example/2023.xml")
    assert feed.entries == ()


def test_pages_without_an_address_are_kept_for_a_reason() -> None:
    """A page without `loc` is an entry without a link, which a later step rejects by name."""
    (entry,) = parse_feed(b"<urlset><url><lastmod>2025-01-01</lastmod></url></urlset>", "http://a.example/").entries
    assert entry.link == ""
