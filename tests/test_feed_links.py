"""A feed's entries become clean links, in order, once each; the rest is counted and explained."""

from __future__ import annotations

import pytest

from core.feeds.feed_links import extract_links
from core.models import FeedEntry, FeedKind, ParsedFeed, PublisherHints, RejectedUrl

TRACKING_PARAMS = ("utm_", "session")


def feed(*links: str) -> ParsedFeed:
    return ParsedFeed(FeedKind.RSS, entries=tuple(FeedEntry(link=link) for link in links))


def test_links_are_cleaned_in_order_without_repeats() -> None:
    """Two spellings of one link are one link, at the place of the first."""
    found = extract_links(
        feed(
            "https://example.com/b?utm_source=rss",
            "https://example.com/a?session=1#top",
            "https://www.google.com/url?q=https%3A%2F%2Fexample.com%2Fb",
            "HTTPS://EXAMPLE.com/b",
            "https://example.com/b/",
        ),
        TRACKING_PARAMS,
    )
    assert found.links == ("https://example.com/b", "https://example.com/a", "https://example.com/b/")
    assert (found.rejected, found.rejected_count) == ((), 0)


def test_the_feeds_own_facts_pass_through() -> None:
    """Kind, title, hints, children, parser and truncation are those of the feed."""
    hints = PublisherHints(ttl_seconds=60.0)
    found = extract_links(
        ParsedFeed(FeedKind.SITEMAP_INDEX, "T", (), hints, "feedparser", ("https://a/",), 7), TRACKING_PARAMS
    )
    assert (found.kind, found.title, found.hints) == (FeedKind.SITEMAP_INDEX, "T", hints)
    assert (found.children, found.parser, found.left_out) == (("https://a/",), "feedparser", 7)


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("", "no_link"),
        (" \n", "no_link"),
        ("mailto:a@example.com", "scheme"),
        ("https://u:p@example.com/", "credentials"),
        ("/relative", "unparsable"),
        ("https://news.google.com/rss/articles/CBMi", "aggregator_opaque"),
        ("https://www.google.com/url?q=javascript:x", "aggregator_target"),
    ],
)
def test_rejections_carry_their_reason(link: str, reason: str) -> None:
    """What is turned away says why, with the link as the feed had it."""
    found = extract_links(feed(link), TRACKING_PARAMS)
    assert found.links == ()
    assert found.rejected == (RejectedUrl(link.strip() and link, reason),)


def test_an_opaque_entry_names_its_publisher() -> None:
    """Google News hides the article, but the entry's source tells whose feed to add instead."""
    entry = FeedEntry(link="https://news.google.com/rss/articles/CBMi", source_url="https://www.bbc.co.uk")
    found = extract_links(ParsedFeed(FeedKind.RSS, entries=(entry,)), TRACKING_PARAMS)
    assert found.rejected[0].reason == "aggregator_opaque (source www.bbc.co.uk)"


def test_all_rejections_are_counted_and_a_few_kept() -> None:
    """Ten examples at most, each at most 200 characters; the count is of all."""
    found = extract_links(
        feed(*(f"ftp://example.com/{n}/" + "x" * 500 for n in range(25)), "https://example.com/"), TRACKING_PARAMS
    )
    assert found.rejected_count == 25
    assert len(found.rejected) == 10
    assert {len(example.url) for example in found.rejected} == {200}
    assert found.links == ("https://example.com/",)


PRIVATE = [
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://127.1./",
    "http://10.1.2.3:8080/",
    "http://169.254.169.254/latest/meta-data",
    "http://0.0.0.0/",
    "http://100.64.0.1/",
    "http://224.0.0.1/",
    "http://[::1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://localhost:8000/",
    "http://LOCALHOST./",
    "http://a.localhost/",
    "http://printer.local/",
    "http://metadata.google.internal/",
    "https://www.google.com/url?q=http://127.0.0.1/",
]


@pytest.mark.parametrize("link", PRIVATE)
def test_private_places_are_refused(link: str) -> None:
    """No spelling of a private address, wrapped or not, enters the link set."""
    assert extract_links(feed(link), TRACKING_PARAMS).rejected == (RejectedUrl(link, "private_address"),)


@pytest.mark.parametrize("link", ["http://8.8.8.8/", "http://[2606:4700::1111]/", "https://localhost.example.com/"])
def test_public_addresses_pass(link: str) -> None:
    """An address or a name is refused for what it is, not for what it looks like."""
    assert extract_links(feed(link), TRACKING_PARAMS).links == (link,)


@pytest.mark.parametrize(
    ("allowed", "link", "enters"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/", True),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/", True),
        ("127.0.0.1:9000", "http://127.0.0.1:9001/", False),
        ("127.0.0.1:80", "http://127.0.0.1/", True),
        ("LocalHost", "http://localhost/", True),
        ("localhost", "http://127.0.0.1/", False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://192.168.0.1/", False),
        ("10.0.0.0/8", "http://printer.local/", False),
        ("[::1]:8080", "http://[::1]:8080/", True),
        ("::1", "http://[::1]/", True),
        ("127.0.0.1", "https://www.google.com/url?q=http://127.0.0.1/", True),
    ],
)
def test_allowed_hosts_may_be_private(allowed: str, link: str, enters: bool) -> None:
    """Host, host and port, or range: exactly what the user allowed, also behind an aggregator."""
    found = extract_links(feed(link), allowed_hosts=(allowed,))
    assert bool(found.links) is enters
