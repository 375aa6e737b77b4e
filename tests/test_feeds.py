"""Feeds of every format, well and badly made, through the one door `feeds.parse`."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CutShort, NotAFeed
from core.feeds.parse import MAX_ENTRIES, MAX_INFLATED_BYTES, parse_feed
from core.models import FeedEntry, FeedKind, ParsedFeed, PublisherHints

DATA = Path(__file__).parent / "data" / "feeds"
URL = "https://base.example/x/feed"
SIX_JAN_9_UTC = 1736154000.0


def sample(name: str) -> ParsedFeed:
    return parse_feed((DATA / name).read_bytes(), URL)


def rss(inside: str, head: str = "") -> ParsedFeed:
    return parse_feed(f"{head}<rss><channel>{inside}</channel></rss>".encode(), URL)


def item(inside: str) -> FeedEntry:
    return rss(f"<item>{inside}</item>").entries[0]


def atom_entry(inside: str) -> FeedEntry:
    body = f'<feed xmlns="http://www.w3.org/2005/Atom"><entry>{inside}</entry></feed>'
    return parse_feed(body.encode(), URL).entries[0]


# ── formats ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "kind", "title", "links"),
    [
        ("rss090.rdf", FeedKind.RSS, "Older still", ["http://older.example/1"]),
        ("rss091.xml", FeedKind.RSS, "Old mill\xa0news", ["http://old.example/1"]),
        ("rss10.rdf", FeedKind.RSS, "Triples", ["http://rdf.example/1"]),
        ("atom03.xml", FeedKind.ATOM, "Early atom", ["http://early.example/1"]),
        ("atom10.xml", FeedKind.ATOM, "Weir notes", ["https://atom.example/blog/2025/one.html"]),
        ("feed.json", FeedKind.JSON, "Mill in JSON", ["https://base.example/json/1", "https://elsewhere.example/"]),
        ("channel.cdf", FeedKind.CDF, "Active channel", ["http://cdf.example/items/1.html"]),
        ("news_sitemap.xml", FeedKind.NEWS_SITEMAP, "", ["https://news.example/1"]),
    ],
)
def test_reads_every_format(name: str, kind: FeedKind, title: str, links: list[str]) -> None:
    """Each format gives its kind, its title and its links, without feedparser."""
    feed = sample(name)
    assert (feed.kind, feed.title, [entry.link for entry in feed.entries]) == (kind, title, links)
    assert feed.parser == "fast"


def test_reads_all_of_an_rss_item() -> None:
    """Every field of an RSS item arrives, the long text rather than the short, the enclosure nowhere."""
    full, guid_only, sound_only = sample("rss20.xml").entries
    assert full == FeedEntry(
        link="https://base.example/stories/1?a=1&b=2",
        id="story-1",
        title="Water & wheel",
        published_ts=SIX_JAN_9_UTC,
        author="Ada Miller",
        content="<p>The long text of the story.</p>",
        source_url="https://origin.example/rss",
    )
    assert (guid_only.link, guid_only.author) == ("https://mill.example/stories/2", "Ben Brook")
    assert sound_only.link == ""


def test_reads_all_of_an_atom_entry() -> None:
    """Every field of an Atom entry arrives, bases inherited, XHTML as HTML, the HTML alternate as link."""
    assert sample("atom10.xml").entries == (
        FeedEntry(
            link="https://atom.example/blog/2025/one.html",
            id="urn:uuid:1",
            title="Up <b>stream</b>",
            published_ts=SIX_JAN_9_UTC,
            updated_ts=SIX_JAN_9_UTC,
            author="Ada Miller",
            content="<p>Long &amp; <em>rich</em></p>",
            source_url="https://spring.example/",
        ),
    )


def test_unwraps_only_a_lone_div() -> None:
    """The div around XHTML goes when it holds everything; text beside it is kept with it."""
    div = '<div xmlns="http://www.w3.org/1999/xhtml">a &lt; b</div>'
    assert atom_entry(f'<content type="xhtml"> {div} </content>').content == "a &lt; b"
    assert atom_entry(f'<content type="xhtml"> {div} beside</content>').content == "<div>a &lt; b</div> beside"


def test_reads_json_with_wrong_types() -> None:
    """Numbers, nulls, NUL and lone surrogates in a JSON Feed become plain text."""
    first, second = sample("feed.json").entries
    assert (first.id, first.title, first.author, first.content) == ("7", "One", "Ada Miller", "<p>Text</p>")
    assert (second.author, second.content) == ("Ben", "")


def test_reads_publisher_hints() -> None:
    """ttl, period, hours and days are understood; hour 24 is midnight, nonsense is left out."""
    assert sample("rss20.xml").hints == PublisherHints(
        ttl_seconds=2700.0, update_period_seconds=21600.0, skip_hours=(0, 3), skip_days=(0, 6)
    )


def test_foreign_prefixes_and_cases_do_not_matter() -> None:
    """Upper-case tags, odd prefixes, misspelt and missing namespaces are read like the usual ones."""
    body = """<RSS xmlns:d="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom/wrong"><CHANNEL>
      <ITEM><LINK>http://a.example/1</LINK><d:Date>2025-01-06T09:00:00Z</d:Date></ITEM>
      <item><atom:link href="http://a.example/2"/><content:encoded>undeclared</content:encoded></item>
    </CHANNEL></RSS>"""
    first, second = parse_feed(body.encode(), URL).entries
    assert (first.link, first.updated_ts) == ("http://a.example/1", SIX_JAN_9_UTC)
    assert (second.link, second.content) == ("http://a.example/2", "undeclared")


# ── links ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "inside", "link"),
    [
        ("relative", "<link>../1</link>", "https://base.example/1"),
        ("own base", '<link xml:base="http://b.example/d/">1</link>', "http://b.example/d/1"),
        ("script base", '<link xml:base="javascript:">1</link>', "https://base.example/x/1"),
        ("three slashes", "<link>http:///a.example/1</link>", "http://a.example/1"),
        ("unparsable host", "<link>http://a[.example/</link>", "http://a[.example/"),
        ("twice escaped", "<link>http://a.example/?a=1&amp;amp;b=2</link>", "http://a.example/?a=1&b=2"),
        ("empty link", "<link/><guid>http://a.example/g</guid>", "http://a.example/g"),
        ("guid is none", '<guid isPermaLink="false">http://a.example/g</guid>', ""),
        ("guid is a word", "<guid>abc123</guid>", "abc123"),
        ("in CDATA", "<link><![CDATA[ http://a.example/?a&b ]]></link>", "http://a.example/?a&b"),
        ("inside an image", "<image><link>http://a.example/logo</link></image>", ""),
        (
            "FeedBurner's original",
            '<link>http://fb.example/~r</link><f:origLink xmlns:f="http://rssnamespace.org/feedburner/ext/1.0">'
            "http://a.example/o</f:origLink>",
            "http://a.example/o",
        ),
    ],
)
def test_finds_the_link_of_an_item(name: str, inside: str, link: str) -> None:
    """The article's address is found, resolved and otherwise left as written."""
    assert item(inside).link == link


@pytest.mark.parametrize(
    ("name", "inside", "link"),
    [
        ("no rel", '<link href="/1"/>', "https://base.example/1"),
        ("only an enclosure", '<link rel="enclosure" href="/1"/>', ""),
        ("only comments", '<link rel="replies" href="/1"/>', ""),
        (
            "html wins",
            '<link type="text/html" href="/1"/><link type="application/pdf" href="/2"/>',
            "https://base.example/1",
        ),
        ("other type", '<link rel="alternate" type="application/pdf" href="/2"/>', "https://base.example/2"),
        ("id without content", "<id>http://a.example/1</id>", ""),
        ("id with content", "<id>http://a.example/1</id><content>text</content>", "http://a.example/1"),
        ("id is a name", "<id>tag:a.example,2025:1</id><content>text</content>", ""),
    ],
)
def test_finds_the_link_of_an_entry(name: str, inside: str, link: str) -> None:
    """Atom's alternate is the article, in HTML if possible; an id only where an entry may lack a link."""
    assert atom_entry(inside).link == link


# ── damage ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "inside", "title"),
    [
        ("HTML entity", "Caf&eacute;&nbsp;x", "Café\xa0x"),
        ("bare ampersand", "R & D &co", "R & D &co"),
        ("unknown entity", "a &foo; b", "a &foo; b"),
        ("surrogate reference", "a&#xD800;b", "ab"),
        ("huge reference", "a&#99999999999999999999;b", "a&#99999999999999999999;b"),
        ("control character", "a\x01b", "ab"),
        ("upper-case hex", "a&#X41;b", "aAb"),
        ("entity in CDATA", "<![CDATA[a &amp; b]]> &nbsp;", "a &amp; b"),
        ("C1 punctuation", "a &#150; b", "a – b"),
    ],
)
def test_mends_titles(name: str, inside: str, title: str) -> None:
    """The usual slips against XML cost nothing but themselves."""
    feed = rss(f"<item><title>{inside}</title><link>http://a.example/</link></item>")
    assert (feed.entries[0].title, feed.entries[0].link, feed.parser) == (title, "http://a.example/", "fast")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("space first", "\n\n <?xml version='1.0'?>{}"),
        ("warnings first", "Notice: undefined index in /var/www\n<?xml version='1.0'?>{}"),
        ("text last", "{}<!-- served in 3 ms --> bye"),
        ("unknown encoding", "<?xml version='1.0' encoding='bogus'?>{}"),
        ("wrong encoding", "<?xml version='1.0' encoding='utf-16'?>{}"),
        ("in an envelope", "<soap><body>{}</body></soap>"),
        ("XML 1.1", "<?xml version='1.1'?>{}"),
    ],
)
def test_reads_past_what_surrounds_the_feed(name: str, body: str) -> None:
    """Junk around a good feed does not hide it."""
    good = "<rss><channel><item><link>http://a.example/é</link></item></channel></rss>"
    assert [entry.link for entry in parse_feed(body.format(good).encode(), URL).entries] == ["http://a.example/é"]


@pytest.mark.parametrize(
    ("name", "body", "content_type"),
    [
        ("declared", b"<?xml version='1.0' encoding='iso-8859-1'?>{}", ""),
        ("by the header", b"{}", "text/xml; charset=ISO-8859-1"),
        ("by nobody", b"{}", ""),
        ("wrongly", b"<?xml version='1.0' encoding='utf-8'?>{}", ""),
    ],
)
def test_reads_windows_1252_however_it_is_declared(name: str, body: bytes, content_type: str) -> None:
    """Latin-1 means Windows-1252, declared or not."""
    feed = "<rss><channel><title>“Café”</title></channel></rss>".encode("cp1252")
    assert parse_feed(body.replace(b"{}", feed), URL, content_type).title == "“Café”"


@pytest.mark.parametrize(
    "codec", ["utf-16", "utf-16-le", "utf-32", "cp037", "utf-8-sig", "koi8-r", "shift_jis", "gb2312"]
)
def test_reads_other_encodings(codec: str) -> None:
    """Encodings are recognised by their first bytes or their declaration."""
    text = f"<?xml version='1.0' encoding='{codec}'?><rss><channel><title>abc</title></channel></rss>"
    assert parse_feed(text.encode(codec), URL).title == "abc"


def test_falls_back_to_feedparser_for_mismatched_tags() -> None:
    """What lxml cannot put right goes to feedparser, and loses no item."""
    feed = sample("mismatched_tags.xml")
    assert feed.parser == "feedparser"
    assert [entry.link for entry in feed.entries] == ["http://spilt.example/1", "http://spilt.example/2"]


@pytest.mark.parametrize(
    ("name", "body", "sentence"),
    [
        ("nothing", b"", "empty"),
        ("space", b" \n\0", "empty"),
        ("HTML", b"<!DOCTYPE HTML><title>404</title>", "HTML page"),
        ("XHTML", b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'/>", "HTML page"),
        ("other XML", b"<catalog><book/></catalog>", "<catalog>"),
        ("other JSON", b'{"a": 1}', "not a JSON Feed"),
        ("half JSON", b'{"version": "https://jsonfeed.org/version/1", "items": [', "cannot be read as JSON"),
        ("deep JSON", b"[" * 100_000, "cannot be read as JSON"),
        ("a path", b"/etc/hostname", "not a feed"),
        ("broken gzip", b"\x1f\x8b\x08 no", "damaged gzip"),
        ("gzip bomb", gzip.compress(bytes(MAX_INFLATED_BYTES + 1)), "too large"),
    ],
)
def test_says_what_is_no_feed(name: str, body: bytes, sentence: str) -> None:
    """What is no feed raises NotAFeed, with a sentence that says what it is instead."""
    with pytest.raises(NotAFeed, match=sentence):
        parse_feed(body, URL)


def test_inflates_gzip_files() -> None:
    """A sitemap.xml.gz is read like the file inside."""
    assert parse_feed(gzip.compress((DATA / "sitemap.xml").read_bytes()), URL) == sample("sitemap.xml")


def test_caps_the_number_of_entries() -> None:
    """Of an endless feed the first entries are read, and the rest is admitted to."""
    feed = rss("<item><link>http://a.example/</link></item>" * (MAX_ENTRIES + 7))
    assert (len(feed.entries), feed.left_out) == (MAX_ENTRIES, 7)


# ── hostility ───────────────────────────────────────────────────────────────────────────────────


def laughs(codec: str = "utf-8") -> bytes:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 9))
    text = f'<!DOCTYPE rss [<!ENTITY a0 "ha">{entities}]><rss a="&a8;"><channel><title>&a8;</title></channel></rss>'
    return text.encode(codec)


@pytest.mark.parametrize(
    ("name", "body", "title"),
    [
        ("billion laughs", laughs(), "&a8;"),
        ("in UTF-16", laughs("utf-16"), "&a8;"),
        ("behind a comment", b"<!--" + b"x" * 20_000 + b"-->" + laughs(), "&a8;"),
        (
            "a file",
            b'<!DOCTYPE rss [<!ENTITY e SYSTEM "file:///etc/hostname">]><rss><channel><title>&e;</title></channel></rss>',
            "&e;",
        ),
        (
            "a short name",
            b'<!DOCTYPE rss [<!ENTITY e "mill">]><rss><channel><title>&e;</title></channel></rss>',
            "mill",
        ),
    ],
)
def test_expands_no_dangerous_entity(name: str, body: bytes, title: str) -> None:
    """Entities that nest, grow or read files stay as they are; short flat ones are read."""
    assert parse_feed(body, URL).title == title


# Each of these took feedparser between 2 and 43 seconds, or made it raise.
FLOODS = {
    "comments": "<!--" * 50_000,
    "comments in text": "<description><![CDATA[" + "<!--" * 50_000 + "]]></description>",
    "attributes": "<x " + " ".join(f'a{n}="1"' for n in range(20_000)) + ">",
    "author": "<author><![CDATA[" + "a" * 100_000 + "]]></author>",
    "authors": ("<dc:creator>" + "a" * 3_900 + "</dc:creator>") * 100,
    "bases": '<x xml:base="a/">' * 20_000,
    "open tags": "<a>" * 100_000,
    "half tags": "<a" * 100_000,
    "ampersands": "&" * 200_000,
    "references": "&#" * 100_000,
    "sections": "<![CDATA[" * 50_000,
    "surrogates": "&#xD800;" * 1000,
}


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("damage", ["", "<b></i>"])
def test_survives_floods(flood: str, damage: str) -> None:
    """No shape of damage we know costs more than a moment, and the item before it is still found."""
    feed = rss(f"<item><link>http://a.example/</link>{damage}{FLOODS[flood]}</item>")
    assert feed.entries[0].link == "http://a.example/"


@given(st.binary(max_size=200), st.sampled_from([b"<rss><channel>", b"<feed>", b"{", b"<urlset>", b"", b"<!DOCTYPE ["]))
def test_never_raises_anything_but_not_a_feed(body: bytes, start: bytes) -> None:
    """Whatever the bytes, the answer is a feed or NotAFeed; CutShort for a gzip file that breaks off."""
    try:
        feed = parse_feed(start + body, URL)
    except (NotAFeed, CutShort):
        return
    assert all("\0" not in entry.title and entry.link.encode() is not None for entry in feed.entries)
