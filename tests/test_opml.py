"""OPML in and out."""

from __future__ import annotations

import pytest

from core.errors import FeedFileError
from core.feeds.opml import parse_opml, write_opml

NESTED = b"""<?xml version="1.0"?>
<opml version="1.0"><head><title>mine</title></head><body>
  <outline text="Loose" type="rss" xmlUrl="http://a.example/loose"/>
  <outline text="News">
    <outline text="World" title="World"><outline type="rss" text="W" xmlUrl="http://a.example/w"/></outline>
    <outline type="rss" text="N" xmlurl=" http://a.example/n "/>
    <outline type="rss" text="again" xmlUrl="http://a.example/n"/>
  </outline>
  <outline type="rss" text="Tagged" category="/Tech/Web,/Other" xmlUrl="http://a.example/t"/>
  <outline text="Empty"/>
</body></opml>"""


def test_folders_become_categories() -> None:
    """Nested folders are one category, loose feeds are uncategorised, repeats are dropped."""
    assert parse_opml(NESTED) == {
        "uncategorised": ["http://a.example/loose"],
        "news_world": ["http://a.example/w"],
        "news": ["http://a.example/n"],
        "tech_web": ["http://a.example/t"],
    }


@pytest.mark.parametrize(
    ("name", "body", "sentence"),
    [
        ("nothing", b"", "not valid XML"),
        ("cut off", NESTED[:300], "not valid XML"),
        ("a feed", b"<rss/>", "its root is <rss>"),
        ("too deep", b"<opml>" + b"<outline text='a'>" * 1000, "not valid XML"),
    ],
)
def test_says_what_is_wrong(name: str, body: bytes, sentence: str) -> None:
    """A file that is no OPML is refused with a sentence."""
    with pytest.raises(FeedFileError, match=sentence):
        parse_opml(body)


def test_expands_no_dangerous_entity() -> None:
    """An OPML file cannot read files through entities."""
    body = b'<!DOCTYPE opml [<!ENTITY e SYSTEM "file:///etc/hostname">]><opml><outline xmlUrl="http://a/&e;"/></opml>'
    assert parse_opml(body) == {"uncategorised": ["http://a/&e;"]}


def test_written_lists_read_back_the_same() -> None:
    """What is written is OPML 2.0 in a stable order, and reads back as it was."""
    categories = {"b": ["http://a.example/2", "http://a.example/1?x=1&y=2"], "a": ["http://a.example/3"]}
    body = write_opml(categories, {"http://a.example/3": "R & D \x01\ud800"})
    assert parse_opml(body) == {name: sorted(urls) for name, urls in sorted(categories.items())}
    assert b'<opml version="2.0">' in body
    assert b'text="R &amp; D "' in body
    assert body == write_opml(dict(reversed(categories.items())), {"http://a.example/3": "R & D "})
