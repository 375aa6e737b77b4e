"""When a page says it was published."""

from __future__ import annotations

import pytest
from lxml import etree

from core.models import Document
from core.pages.extract import extract_page
from core.pages.lxml_page import parse_html
from core.pages.metadata import MetadataElement
from core.pages.publish_date import guess_publish_date, stated_publish_date, suggested_publish_date
from tests.pages import URL, head, json_ld, link, meta

SIX_JAN = 1736121600.0
SIX_JAN_9_UTC = 1736154000.0


STORY = f"<p>{'The function returns a value that depends on its argument, a number from one to ten. ' * 8}</p>"


def cards_of_others(count: int) -> str:
    """Return as many other stories, each with its own date."""
    return "".join(
        f'<div class="card"><a>Other</a><span class="when">Posted on {day} January 2019</span></div>'
        for day in range(1, count + 1)
    )


def time_element(**attributes: str) -> MetadataElement:
    return MetadataElement("time", attributes)


@pytest.mark.parametrize(
    ("name", "elements", "url", "expected"),
    [
        ("JSON-LD", [json_ld('{"@type": "Article", "datePublished": "2025-01-06T10:00:00+01:00"}')], "", SIX_JAN_9_UTC),
        (
            "JSON-LD first",
            [meta("date", "2020-01-01"), json_ld('{"@type": "Article", "datePublished": "2025-01-06"}')],
            "",
            SIX_JAN,
        ),
        ("Open Graph", [meta("article:published_time", "2025-01-06T09:00:00Z")], "", SIX_JAN_9_UTC),
        ("not the time of change", [meta("article:modified_time", "2025-01-06T09:00:00Z")], "", None),
        ("meta", [meta("parsely-pub-date", "Mon, 06 Jan 2025 09:00:00 GMT")], "", SIX_JAN_9_UTC),
        ("unreadable, then readable", [meta("pubdate", "soon, 2025"), meta("date", "2025-01-06")], "", SIX_JAN),
        (
            "marked time",
            [time_element(datetime="2020-01-01"), time_element(datetime="2025-01-06", pubdate="")],
            "",
            SIX_JAN,
        ),
        ("not the address", [], "https://mill.example/2025/1/6/a", None),
        ("not any time", [time_element(datetime="2025-01-06T09:00Z")], "", None),
        ("nothing", [], "", None),
    ],
)
def test_stated(name: str, elements: list[MetadataElement], url: str, expected: float | None) -> None:
    """The best kept statement wins; a page that states nothing has no date."""
    assert stated_publish_date(head(*elements, url=url or "https://mill.example/a")) == expected


@pytest.mark.parametrize(
    ("name", "elements", "url", "expected"),
    [
        ("path before any time", [time_element(datetime="2020-01-01")], "https://mill.example/2025/1/6/a", SIX_JAN),
        (
            "first time",
            [time_element(datetime="2025-01-06T09:00Z"), time_element(datetime="2020-01-01")],
            "",
            SIX_JAN_9_UTC,
        ),
        ("dashed path", [], "https://mill.example/a-2025-01-06.html", SIX_JAN),
        ("path that begins with it", [], "https://mill.example/blog/2025-01-06-a", SIX_JAN),
        ("path that ends", [], "https://mill.example/2025/01/06/", SIX_JAN),
        ("version of an API", [], "https://mill.example/api/2025-01-06/orders", None),
        ("page about an API", [], "https://mill.example/docs/2025-01-06", None),
        ("path of a version", [], "https://mill.example/v2/2025/01/06/a", None),
        ("date of a query", [], "https://mill.example/a?from=2025-01-06", None),
        ("no date in a path", [], "https://mill.example/2025/99/99/a", None),
        ("nothing", [], "", None),
    ],
)
def test_suggested(name: str, elements: list[MetadataElement], url: str, expected: float | None) -> None:
    """A page that states nothing may still name a day in its address, or show a time in its head."""
    assert suggested_publish_date(head(*elements, url=url or "https://mill.example/a")) == expected


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize(
    ("head_of_page", "url", "expected"),
    [
        ('<meta name="date" content="2025-01-06">', "https://mill.example/2020/1/1/a", (SIX_JAN, False)),
        ("", "https://mill.example/2025/01/06/a", (SIX_JAN, True)),
        ("", "https://mill.example/a", (None, False)),
    ],
    ids=["stated", "address", "none"],
)
def test_a_guess_is_called_so(
    head_of_page: str, url: str, expected: tuple[float | None, bool], main_text: bool
) -> None:
    """Whoever knows the date otherwise must be able to tell a statement from a guess."""
    html = (
        f"<!doctype html><html lang=en><head><title>Water</title>{head_of_page}</head><body>{STORY * 2}</body></html>"
    )
    document = extract_page(html.encode(), url, "text/html", main_text=main_text).result
    assert isinstance(document, Document)
    assert (document.published_ts, document.is_date_guessed) == expected


@pytest.mark.parametrize(("has_known_date", "expected"), [(False, SIX_JAN), (True, None)])
def test_a_known_date_is_not_searched_for(has_known_date: bool, expected: float | None) -> None:
    """Where a feed said when it was published, the text is spared the search; what it states is read all the same."""
    body = f'<p class="date">6 January 2025</p>{STORY * 2}'
    html = f"<!doctype html><html lang=en><head><title>Water</title></head><body>{body}</body></html>"
    document = extract_page(html.encode(), URL, "text/html", has_known_date=has_known_date).result
    assert isinstance(document, Document)
    assert document.published_ts == expected


def test_guessed_from_what_is_shown() -> None:
    """A date that the page only shows is found, without a word about it in the head."""
    root = parse_html('<html><body><p class="date">6 January 2025</p><p>Words.</p></body></html>')
    assert root is not None
    assert guess_publish_date(root) == SIX_JAN


@pytest.mark.parametrize(
    "body",
    [
        "<h1>Dates</h1><p>Write <code>2024-03-05</code> or <code>March 5, 2024</code>, never anything else.</p>",
        "<h1>datetime</h1><pre>datetime(2002, 12, 4)  # 2002-12-04T00:00:00</pre><p>The constructor of a date.</p>",
        "<h1>Releases</h1><table><tr><td>3.11</td><td>2022-10-24</td></tr></table>",
        "<h1>Guide</h1><p>Words.</p><footer>Copyright 2019-2024. Last built on 2024-05-06.</footer>",
        "<h1>Storms</h1><p>" + "Many words about the weather of those years. " * 5 + "It began on 5 May 2019.</p>",
        '<h1>Guide</h1><p>Words.</p><div class="footer">Last updated on May 06, 2024.</div>',
        "<h1>Guide</h1><p>Words.</p><div>Last updated on May 06, 2024</div>",
        "<h1>Releases</h1><h2>1.2.3 (2024-05-06)</h2><p>Fixed things.</p>",
        '<h1>Input</h1><p class="example-date">6 January 2025</p><span class="date-format">2024-12-31</span>',
        '<h1>Guide</h1><p>Words.</p><div class="comment">Bob, <span class="date">6 May 2024</span></div>',
        '<h1>Diet</h1><p>Words.</p><script>var build = {"created": "2024-05-06T07:08:09"};</script>',
        "<h1>API</h1><dl><dt>created_at</dt><dd>When it was made, a time such as 2024-05-06T07:08:09Z.</dd></dl>",
        "<h1>API</h1><p>Default: 2012-06-02</p>",
        "<h1>API</h1><p>Default: <b>2012-06-02</b></p>",
        "<h1>API</h1><div>Default:</div><div>2012-06-02</div>",
        "<h1>API</h1><dl><dt>Default</dt><dd>2012-06-02</dd></dl>",
        "<h1>API</h1><p>A date such as 2012-06-02.</p>",
        "<h1>API</h1><p>Python 2012-06-02</p>",
        "<h1>API</h1><p>Settings 2012-06-02</p>",
        "<h1>API</h1><p>Vendor 2012-06-02</p>",
        "<h1>API</h1><p>Start Date: 2012-06-02</p>",
        "<h1>API</h1><p>created_at 2012-06-02</p>",
        '<h1>API</h1><div class="metadata">Copyright 2012-06-02</div>',
        "<h1>Changes</h1><h2>2012-06-02</h2><p>Words.</p><h2>2011-06-02</h2><p>Words.</p>",
        "<h1>API</h1><p>start = 2012-06-02</p>",
        "<h1>API</h1><dl><dd>e.g. 2012-06-02</dd></dl>",
        "<h1>API</h1><p>API version: 2012-06-02</p>",
        '<h1>API</h1><div class="meta">Version: 2012-06-02</div>',
        "<h1>API</h1><div>the time is 2012-06-02</div>",
        "<h1>API</h1><h2>Example: 2015-04-05</h2>",
        "<h1>API</h1><p>For example:</p><p>2012-06-02</p>",
        "<h1>API</h1><p>New in version 2.1 (2019-05-06).</p>",
        "<h1>Version of 2012-06-02</h1><p>Words.</p>",
        "<h1>Dates</h1><ul><li>2012-06-02</li><li>2013-06-02</li></ul>",
        '<h1>API</h1><p>Words since 2012.</p><img src="/uploads/2021/03/05/mill.png">',
        "<h1>Concerts</h1>" + "".join(f"<div><b>{day}.05.2024</b> The Millers</div>" for day in range(10, 14)),
        f"<h1>Water</h1>{STORY}<div>9 March 2026</div>",
        f'<h1>Water</h1>{STORY}<div class="commentDate">9 March 2026</div>',
        "<title>Guide for version 2 of 2012-06-02</title><h1>Guide</h1><p>Words.</p>",
        "<h1>House</h1><div>Built 6 January 1925</div><div>6 January 1925</div>",
        '<h1>Water</h1><div class="public-notice">The hearing is on 12 June 2021</div>',
        '<h1>Water</h1><div class="publisher">Founded on 12 June 1998 in Rome</div>',
        '<h1>Water</h1><div class="validate">Offer ends 3 March 2022</div>',
        '<h1>Water</h1><div class="mandate">Term ends 3 March 2022</div>',
        '<h1>Water</h1><p class="meta">Registration closes 12 June 2021</p>',
        '<h1>Water</h1><p class="author">Ada (born 5 May 1995)</p>',
        '<h1>Water</h1><p class="byline">Ada (born 5 May 1995)</p>',
        f"<h1>Water</h1>{STORY}{cards_of_others(3)}",
    ],
)
def test_examples_are_no_dates(body: str) -> None:
    """A page that shows no date of its own has none, whatever dates its code, tables, sentences and scripts hold."""
    root = parse_html(f"<html><body><main>{body}</main></body></html>")
    assert root is not None
    assert guess_publish_date(root) is None


@pytest.mark.parametrize(
    "body",
    [
        '<h1>Water</h1><p class="date">6 January 2025</p><p>Words.</p>',
        '<h1>Water</h1><span class="article-date">Monday, January 6, 2025</span>',
        '<div class="post-meta">Posted by Ada on 6 January 2025</div><h1>Water</h1>',
        '<h2 class="date-header">Monday, January 6, 2025</h2><h3>Water</h3><p>Words.</p>',
        "<h1>Water</h1><p>2025-01-06</p>",
        "<h1>Water</h1><p>Published: 2025-01-06</p>",
        "<h1>Water</h1><p>By A. Writer, 2025-01-06</p>",
        "<h1>Water</h1><p>Press release, 2025-01-06</p>",
        "<h1>Water</h1><p>2025-01-06 // Ada Miller</p>",
        '<h1>Water</h1><p><b>Ort</b> Ulm <b>Datum</b> <span class="date">06.01.2025</span></p>',
        "<h1>Water</h1><ul><li><b>Datum:</b> 2025-01-06</li></ul>",
        "<h1>Water</h1><dl><dt>Published</dt><dd>2025-01-06</dd></dl>",
        '<h1>Water</h1><p class="byline">By Ada of the Mill Gazette, January 6, 2025</p>',
        "<h1>Water</h1><div><span>Ada Miller</span> <span>2025-01-06</span></div>",
        "<h1>Water</h1><div>Published 6 January 2025</div>",
        "<h1>Water</h1><div>Published: 06.01.2025</div><div>Updated: 07.01.2025</div>",
        "<h1>Water</h1><span>am 6. Januar 2025</span>",
        "<h1>Water</h1><p>Jueves, 6 de enero de 2025</p>",
        "<h1>Water</h1><div>2025年1月6日 10:00</div>",
        '<div class="date">Today is 9 March 2026</div><h1>Water</h1><div>6 January 2025</div>',
        '<div class="date">9 March 2026</div><h1>Water</h1><p>Words.</p><div>Posted on 6 January 2025</div>',
        "<h1>Water</h1><div>6 January 2025</div><h3>More</h3>" + "<div><i>9 March 2026</i></div>" * 2,
        '<div class="date">9 March 2026</div><h1>Water</h1><p>Words.</p>'
        + STORY
        + "<div>Posted on 6 January 2025</div>",
        "<title>Water | The Mill | 06.01.2025</title><h1>Water</h1><p>Words.</p>",
        f"<h1>Water</h1><div>6 January 2025</div>{STORY}{cards_of_others(5)}",
        f"<h1>Water</h1><div>6 January 2025</div>{STORY}{cards_of_others(1)}",
        f"{cards_of_others(5)}<h1>Water</h1><div>6 January 2025</div>{STORY}",
        f"{cards_of_others(1)}<h1>Water</h1><div>6 January 2025</div>{STORY}",
    ],
)
def test_dates_that_are_shown(body: str) -> None:
    """A short line that is marked as a date is one, and one of nothing but a date and its author."""
    root = parse_html(f"<html><body><main>{body}</main></body></html>")
    assert root is not None
    assert guess_publish_date(root) == SIX_JAN


def test_a_comment_before_a_date_is_no_label() -> None:
    """Our own parser leaves comments out; a tree with them is read all the same."""
    root = etree.HTML("<html><body><h1>Water</h1><p><b>Datum:</b><!-- day --><span>2025-01-06</span></p></body></html>")
    assert guess_publish_date(root) == SIX_JAN


def test_a_date_in_json_that_cannot_be_read() -> None:
    """A page that shows no date may state one in JSON-LD with a mistake in it."""
    script = '<script type="application/ld+json">{"datePublished": "2025-01-06CET11:59", "a": }</script>'
    root = parse_html(f"<html><head>{script}</head><body><p>Words since 2012.</p></body></html>")
    assert root is not None
    assert guess_publish_date(root) == SIX_JAN


def test_a_date_in_the_canonical_address() -> None:
    """A copy of a page bears the date that its own address names."""
    original = link("canonical", "https://mill.example/2025/01/06/water")
    assert suggested_publish_date(head(original, url="https://copy.example/a")) == SIX_JAN


JAN = '<time datetime="2025-01-06T09:00:00Z">6 January 2025</time>'

PUBLISHED_AND_UPDATED = JAN.replace("<time", '<time class="published updated"')


def date_of(body: str, *, main_text: bool) -> float | None:
    html = f"<!doctype html><html lang=en><head><title>Water</title></head><body>{body}</body></html>"
    document = extract_page(html.encode(), URL, "text/html", main_text=main_text).result
    assert isinstance(document, Document)
    return document.published_ts


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        f"<aside><a href=/x>Other</a> {JAN}</aside><h1>Water</h1>{STORY}",
        f"<nav>{JAN}</nav><h1>Water</h1>{STORY}",
        f"<h1>Water</h1><table><tr><td>1.0</td><td>{JAN}</td></tr></table>{STORY}",
        f"<ul><li><a href=/x>Other</a> {JAN}</li></ul><h1>Water</h1>{STORY}",
        f"<h1>Water</h1><p>The element {JAN} stands for a date.</p>{STORY}",
        f"<h1>Water</h1>{STORY}<footer>{JAN}</footer>",
        f"<h1>Water</h1>{STORY}<div>{JAN}</div>",
        f"<h1>Water</h1>{STORY}<div class=comments><p>{JAN.replace('<time', '<time pubdate')} Nice</p></div>",
        f'<div class="related-posts">{JAN.replace("<time", "<time class=published")}</div><h1>Water</h1>{STORY}',
        f"<h1>Water</h1><div>{JAN.replace('<time', '<time itemprop=dateModified')}</div>{STORY}",
        f"<h1>Water</h1><div>{JAN.replace('<time', '<time class=updated')}</div>{STORY}",
        f'<h1>Water</h1><span class="theme-last-updated">Last updated on <b>{JAN}</b></span>{STORY}',
        f"<h1>Water</h1><div>Updated: {JAN}</div>{STORY}",
        f"<h1>Water</h1><p>e.g. {JAN}</p>{STORY}",
        f"<h1>Water</h1><div>Default: {JAN}</div>{STORY}",
    ],
)
def test_times_of_something_else(body: str, main_text: bool) -> None:
    """A time of other stories, of comments, of a change or in a sentence is not when the page was published."""
    assert date_of(body, main_text=main_text) is None


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        f"<main><h1>Water</h1><div>By Ada, {JAN}</div>{STORY}</main>",
        f"<div>{STORY}</div><main><h1>Water</h1><div>By Ada, {JAN}</div>{STORY}</main>",
        f"<main><h1>Water</h1><p>A lead of some words above the date.</p><p>{JAN}</p>{STORY}</main>",
        f"<article><h1>Water</h1>{STORY}<footer>Posted on {JAN}</footer></article>",
        f"<article><h1>Water</h1>{STORY}{JAN.replace('<time', '<time itemprop=datePublished')}</article>",
        f"<article><h1>Water</h1>{STORY}{JAN.replace('<time', '<time class=post-date')}</article>",
        f"<article><h1>Water</h1>{PUBLISHED_AND_UPDATED}{STORY}</article>",
    ],
)
def test_times_of_publication(body: str, main_text: bool) -> None:
    """A time that is marked as the publication's counts, and one in the head of the article."""
    assert date_of(body, main_text=main_text) == SIX_JAN_9_UTC
