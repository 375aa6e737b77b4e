"""Republished feeds as documents: what is put in comes out again, and whatever is put in, the document is valid."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.parse import parse_feed
from core.models import FeedEntry
from core.outputs.broken_feed_entry import broken_feed_entry
from core.outputs.feed_documents import write_feed
from core.outputs.published_feed import (
    MOST_TEXT_CHARS,
    FeedFormat,
    PublishedEntry,
    PublishedFeed,
    paragraphs_html,
    tag_uri,
    web_link,
)
from tests import hostile

NOW = 1_800_000_000.0
XML = (FeedFormat.RSS, FeedFormat.ATOM)
ENTRY = PublishedEntry(
    id=tag_uri("0123456789abcdef"),
    link="https://e.org/weir?a=1&b=2",
    title="The weir & the “old” lock",
    published_ts=NOW,
    updated_ts=NOW + 60,
    author="Ada Lock",
    summary="It was repaired; 3 < 4.",
    text="First paragraph.\n\nSecond, with\ntwo lines & a <tag>.",
    image="https://e.org/weir.jpg",
    language="en",
    categories=("world", "rivers"),
)
FEED = PublishedFeed(
    id=tag_uri("feeds/world"),
    title="Freshet: world",
    description="All of it.",
    home_url="http://127.0.0.1:8080/",
    self_url="http://127.0.0.1:8080/feeds/world.rss?limit=5&x=1",
    entries=(ENTRY,),
)
HTML = "<p>First paragraph.</p>\n<p>Second, with<br>two lines &amp; a &lt;tag&gt;.</p>"
HOSTILE = (
    "<script>alert(1)</script>",
    "]]><item><title>x</title></item>",
    "a\x00b\x0bc\x1fd\x7fe\x9ff",
    "lone \ud800 surrogate \udfff",
    "\ufffe\uffff\ufdd0",
    "&#0;&lt;&amp;&nosuch;",
    "</title><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>&e;",
    "\u202egnp.exe",
    "",
    " \n\t ",
    "x" * 100_000,
)
LINKS = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "/home/me/notes.md",
    "ftp://e.org/a",
    "http://",
    "https://[broken",
    " http:\n//x",
    "vbscript:x",
)


def one(values: PublishedEntry) -> PublishedFeed:
    return replace(FEED, entries=(values,))


def read_by_us(body: bytes) -> FeedEntry:
    (entry,) = parse_feed(body, FEED.self_url).entries
    return entry


def read_by_feedparser(body: bytes, **options: Any) -> Any:
    parsed = feedparser.parse(io.BytesIO(body), **options)
    assert not parsed.bozo, parsed.get("bozo_exception")
    return parsed


@pytest.mark.parametrize("ending", FeedFormat)
def test_our_own_parser_reads_what_was_put_in(ending: FeedFormat) -> None:
    """Id, link, title, author, both dates and the whole text, in each format."""
    entry = read_by_us(write_feed(FEED, ending))

    assert (entry.id, entry.link, entry.title, entry.author) == (ENTRY.id, ENTRY.link, ENTRY.title, ENTRY.author)
    assert (entry.published_ts, entry.updated_ts) == (ENTRY.published_ts, ENTRY.updated_ts)
    assert entry.content == HTML


@pytest.mark.parametrize("ending", XML)
def test_feedparser_reads_what_was_put_in(ending: FeedFormat) -> None:
    """The same by the parser of others, with summary, image and categories, and what the feed says of itself."""
    parsed = read_by_feedparser(write_feed(FEED, ending))
    (entry,) = parsed.entries

    assert (entry.id, entry.link, entry.title, entry.author) == (ENTRY.id, ENTRY.link, ENTRY.title, ENTRY.author)
    assert (entry.guidislink, entry.summary) == (False, "It was repaired; 3 &lt; 4.")
    assert entry.content[0].value.replace("<br />", "<br>") == HTML
    assert datetime(*entry.published_parsed[:6], tzinfo=UTC).timestamp() == ENTRY.published_ts
    assert datetime(*entry.updated_parsed[:6], tzinfo=UTC).timestamp() == ENTRY.updated_ts
    assert [tag.term for tag in entry.tags] == ["world", "rivers"]
    assert [(link.href, link.type) for link in entry.enclosures] == [(ENTRY.image, "image/jpeg")]
    assert (entry.media_content[0]["url"], entry.media_content[0]["medium"]) == (ENTRY.image, "image")
    assert (parsed.feed.title, parsed.feed.subtitle, parsed.feed.language) == (FEED.title, FEED.description, "en")
    assert {link.rel: link.href for link in parsed.feed.links} == {"alternate": FEED.home_url, "self": FEED.self_url}


def test_json_feed_has_every_value() -> None:
    """As jsonfeed.org/version/1.1 names them; what is not known is left out."""
    told = json.loads(write_feed(FEED, FeedFormat.JSON))
    bare = json.loads(write_feed(one(PublishedEntry("tag:x", "https://e.org/", "T", NOW, NOW)), FeedFormat.JSON))

    assert (told["version"], told["feed_url"]) == ("https://jsonfeed.org/version/1.1", FEED.self_url)
    assert told["items"] == [
        {
            "id": ENTRY.id,
            "url": ENTRY.link,
            "title": ENTRY.title,
            "content_html": HTML,
            "summary": ENTRY.summary,
            "image": ENTRY.image,
            "date_published": "2027-01-15T08:00:00Z",
            "date_modified": "2027-01-15T08:01:00Z",
            "authors": [{"name": "Ada Lock"}],
            "tags": ["world", "rivers"],
            "language": "en",
        }
    ]
    assert set(bare["items"][0]) == {"id", "url", "title", "content_html", "date_published"}


@pytest.mark.parametrize("ending", FeedFormat)
def test_same_feed_same_bytes(ending: FeedFormat) -> None:
    """No time of day gets in, also not into an empty feed, so that an ETag stays good."""
    empty = replace(FEED, entries=())

    assert write_feed(FEED, ending) == write_feed(FEED, ending)
    assert write_feed(empty, ending) == write_feed(empty, ending)
    assert parse_feed(write_feed(empty, ending), FEED.self_url).entries == ()
    assert b"20" not in write_feed(empty, ending).partition(b"pdated")[2][:20]


@pytest.mark.parametrize("ending", FeedFormat)
def test_hub_is_named_only_where_there_is_one(ending: FeedFormat) -> None:
    """WebSub subscribers find it in the feed; without a hub nothing speaks of one."""
    assert b"hub" not in write_feed(FEED, ending)
    assert b"https://hub.e.org/" in write_feed(replace(FEED, hub_url="https://hub.e.org/"), ending)


def test_rss_says_how_often_to_come() -> None:
    """Our own ingestor would keep to it too."""
    assert parse_feed(write_feed(FEED, FeedFormat.RSS), FEED.self_url).hints.ttl_seconds == 300


# ── hostile values ──


def check_valid(feed: PublishedFeed) -> None:
    """Every format can be read by strict parsers, and has as many entries as were put in."""
    for ending in XML:
        body = write_feed(feed, ending)
        root = etree.fromstring(body, etree.XMLParser(resolve_entities=False, recover=False))
        assert len(root.findall(".//item") or root.findall("{*}entry")) == len(feed.entries)
        read_by_feedparser(body)
    assert len(json.loads(write_feed(feed, FeedFormat.JSON))["items"]) == len(feed.entries)


def filled_with(text: str) -> PublishedEntry:
    """An entry that has this text wherever it can have one."""
    return PublishedEntry(tag_uri(text[:50]), text, text, NOW, NOW, text, text, text, text, text, (text,))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_values_are_text(text: str) -> None:
    """Tags, ends of CDATA, NUL, lone surrogates, entities: valid XML, and a title that is a tag stays text."""
    feed = replace(one(filled_with(text)), title=text, description=text)

    check_valid(feed)
    for ending in FeedFormat:
        body = write_feed(feed, ending)
        assert b"<script" not in body or ending is FeedFormat.JSON
        assert b"<script" not in json.dumps(read_by_us(body).content).encode()


def test_script_in_a_title_comes_out_as_it_was() -> None:
    """Escaped once: a reader that shows titles as text shows what the page said."""
    title = "<script>alert(1)</script> ]]>"
    for ending in FeedFormat:
        assert read_by_us(write_feed(one(replace(ENTRY, title=title)), ending)).title == title
    for ending in XML:
        parsed = read_by_feedparser(write_feed(one(replace(ENTRY, title=title)), ending), sanitize_html=False)
        assert parsed.entries[0].title == title


@hostile.needed
def test_hostile_bodies_as_values(full: bool) -> None:
    """Feeds and pages of the collection, as somebody could get them into the store as a title or a text."""
    make = hostile.maker()
    rows = [row.values[0] for row in hostile.rows("bodies.jsonl", "feed", "html")]
    bodies = [make(row["gen"])[: 50_000 if full else 5_000] for row in rows if row["gen"].get("op") != "server"]
    texts = [body.decode("utf-8", "surrogateescape") for body in bodies]

    assert len(texts) > 10
    check_valid(replace(FEED, entries=tuple(map(filled_with, texts))))


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.floats())
def test_any_text_and_time_gives_a_valid_feed(text: str, seconds: float) -> None:
    """Whatever is in the store."""
    entry = replace(filled_with(text), published_ts=seconds, updated_ts=seconds)

    check_valid(replace(one(entry), title=text, description=text))


@pytest.mark.parametrize("url", LINKS)
def test_only_links_of_the_web(url: str) -> None:
    """No script, no data, no path of this machine is ever a link or an image."""
    assert web_link(url) == ""
    assert web_link(url, "https://e.org/a") == "https://e.org/a"
    for ending in FeedFormat:
        body = write_feed(one(replace(ENTRY, link=url, image=url)), ending)
        assert read_by_us(body).link == ""
        assert not any(word in body for word in (b"media:content ", b"<enclosure", b'"image"', b"alert(1)"))


def test_links_have_no_secrets() -> None:
    """A republished feed is passed on."""
    assert web_link("https://me:pw@e.org/a?x=1&sig=0a1b2c3d4e5f&y=ä b") == "https://e.org/a?x=1&y=%C3%A4%20b"


def test_image_of_unknown_type_is_no_enclosure() -> None:
    """An enclosure must say its type; the image is still there as media."""
    entry = read_by_feedparser(
        write_feed(one(replace(ENTRY, image="https://e.org/image?id=5")), FeedFormat.RSS)
    ).entries[0]

    assert entry.enclosures == []
    assert entry.media_content[0]["url"] == "https://e.org/image?id=5"


def test_long_texts_are_cut() -> None:
    """A text of megabytes does not make a feed of megabytes."""
    entry = read_by_us(write_feed(one(replace(ENTRY, text="word " * MOST_TEXT_CHARS)), FeedFormat.ATOM))

    assert MOST_TEXT_CHARS - 100 < len(entry.content) < MOST_TEXT_CHARS + 100
    assert "…" in entry.content


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("", ""),
        ("\n\n \n", ""),
        ("one", "<p>one</p>"),
        ("one\n \t\n\n two", "<p>one</p>\n<p>two</p>"),
        ("a < b & c\n> d", "<p>a &lt; b &amp; c<br>&gt; d</p>"),
        ('"<img src=x onerror=alert(1)>', "<p>&quot;&lt;img src=x onerror=alert(1)&gt;</p>"),
    ],
)
def test_paragraphs(text: str, html: str) -> None:
    """Blank lines part paragraphs; everything else is text."""
    assert paragraphs_html(text) == html


# ── feeds that broke ──


def test_broken_feed_says_why_and_since_when() -> None:
    """One entry for a break, the same one after further failed polls, and another for the next break."""
    state = FeedState(
        "https://me:pw@news.example/feed",
        status=FeedStatus.ERROR,
        title="News",
        error_text="HTTP 500",
        error_class="soft",
        error_since_ts=NOW,
        last_poll_ts=NOW + 900,
    )
    entry = broken_feed_entry(state, ["world"], "http://127.0.0.1:8080/api/feeds/x")
    later = broken_feed_entry(replace(state, last_poll_ts=NOW + 9000), ["world"], "")
    again = broken_feed_entry(replace(state, error_since_ts=NOW + 86_400), ["world"], "")

    assert (entry.title, entry.summary, entry.published_ts) == ("Feed broken: News", "HTTP 500", NOW)
    assert "2027-01-15T08:00:00Z" in entry.text
    assert "HTTP 500" in entry.text
    assert entry.link == "https://news.example/feed"
    assert "pw" not in str(entry)
    assert later.id == entry.id != again.id
