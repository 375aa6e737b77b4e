"""From bytes to documents with `extract_page`: what comes out, and what is refused and why."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, TextSource
from core.pages.extract import (
    MIN_HTML_CHARS,
    best_document,
    document_from_feed_text,
    extract_page,
)
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import PageRequest, PageResult
from tests.pages import ARTICLE, PARAGRAPH, URL, page

ROOT = Path(__file__).parents[1]
HEAD = """<title>Water at the wheel | The Mill</title><meta property="og:site_name" content="The Mill">
<meta name="author" content="Ada Miller"><meta property="article:published_time" content="2025-01-06T09:00:00Z">
<meta property="og:image" content="/wheel.jpg"><link rel="canonical" href="/news/2025/01/water?utm_source=x">"""
LONG_FEED = f"<p>{PARAGRAPH}</p>" * 20


def document(body: bytes, content_type: str = "text/html", **options: bool) -> Document:
    read = extract_page(body, URL, content_type, **options).result
    assert isinstance(read, Document), read
    return read


def failed(body: bytes, content_type: str = "text/html", url: str = URL) -> tuple[FailCode, FailDetail]:
    read = extract_page(body, url, content_type).result
    assert isinstance(read, Failed)
    return read.code, read.detail


# ── documents ───────────────────────────────────────────────────────────────────────────────────


def test_reads_all_of_an_article() -> None:
    """Every field of an ordinary page is filled."""
    body = page("<h1>Water at the wheel</h1>", HEAD)
    read = document(body)

    assert (read.title, read.author, read.language) == ("Water at the wheel", "Ada Miller", "en")
    assert (read.published_ts, read.image) == (1736154000.0, "https://mill.example/wheel.jpg")
    assert read.canonical_url == URL
    assert read.clean_text.split("\n\n")[0] == read.abstract
    assert read.abstract.startswith(PARAGRAPH)
    assert read.clean_text.count("\n\n") == 4
    assert (read.raw_len, read.text_len) == (len(body), len(read.clean_text))
    assert (read.extractor_version, read.source) == (EXTRACTOR_VERSION, TextSource.PAGE)


def test_a_title_is_no_main_text() -> None:
    """Where nothing but the repeated title would be left of the main text, all text of the page is taken."""
    title = "The mill at the upper bend of the river has been standing there since the year of the great flood"
    links = "<div><a href=/x>Opening hours of the mill are from nine to five</a></div>" * 8
    body = f"<title>{title}</title><body><article><h1>{title}</h1><p>It turns.</p></article><div>{links}</div>"
    read = document(body.encode())

    assert read.source is TextSource.ALL_TEXT
    assert "Opening hours" in read.clean_text


def test_markdown_keeps_what_plain_text_drops() -> None:
    """Headings, lists, tables, code and quotes are in the Markdown; the plain text has the same words."""
    body = page(f"""<p>{PARAGRAPH}</p><h2>The parts</h2><ul><li>wheel<ul><li>blade</li></ul></li><li>axle</li></ul>
        <table><tr><th>part</th><th>age</th></tr><tr><td>wheel</td><td>7</td></tr></table>
        <pre><code>turn(wheel)\n  twice</code></pre><blockquote><p>It turns, said the miller.</p></blockquote>""")
    read = document(body)

    assert "## The parts" in read.markdown
    assert "- wheel\n  - blade\n- axle" in read.markdown
    assert "| part | age |\n| --- | --- |\n| wheel | 7 |" in read.markdown
    assert "```\nturn(wheel)\n  twice\n```" in read.markdown
    assert "> It turns, said the miller." in read.markdown
    assert not any(mark in read.clean_text for mark in ("#", "---", "```", "> "))
    assert all(words in read.clean_text for words in ("The parts", "blade", "wheel | 7", "turn(wheel)", "It turns"))


def test_furniture_is_not_in_the_main_text() -> None:
    """Navigation, banners and footers are left out of the text and of its hash."""
    bare = document(page())
    rich = document(
        page().replace(b"<article>", b"<nav><a href=/>Home</a> <a href=/x>News</a></nav><article>")
        .replace(b"</article>", b"</article><footer>Copyright and cookies, 7 visitors today</footer>")
    )  # fmt: skip
    assert rich.clean_text == bare.clean_text
    assert rich.content_hash == bare.content_hash


def test_the_title_is_not_part_of_the_hash() -> None:
    """A new headline alone is no new text, other words are."""
    first = document(page(head="<title>One</title>"))
    assert document(page(head="<title>Another</title>")).content_hash == first.content_hash
    assert document(page("<p>A further paragraph, long enough to count as one.</p>")).content_hash != first.content_hash


@pytest.mark.parametrize("main_text", [True, False])
def test_all_text_where_there_is_no_article(main_text: bool) -> None:
    """A page of nothing but a form still gives its words, scripts and styles left out."""
    body = f"<html><body><script>var x = 1</script><style>p {{}}</style><form>{PARAGRAPH} {PARAGRAPH}</form></body>"
    read = document(body.encode(), main_text=main_text)

    assert read.clean_text == f"{PARAGRAPH} {PARAGRAPH}"


def test_the_quick_way_fills_the_same_fields() -> None:
    """Without main text the page says the same about itself, and its text is all text."""
    body = page("<h1>Water at the wheel</h1>", HEAD)
    quick, slow = document(body, main_text=False), document(body)

    same = ("title", "author", "language", "published_ts", "image", "canonical_url", "abstract", "raw_len")
    assert [getattr(quick, name) for name in same] == [getattr(slow, name) for name in same]
    assert quick.source is TextSource.ALL_TEXT
    assert PARAGRAPH in quick.clean_text


def test_plain_text_is_a_page_too() -> None:
    """text/plain gives its first line as title and its paragraphs as they are."""
    read = document(f"Water\n\n{PARAGRAPH}\n\n{PARAGRAPH}".encode(), "text/plain; charset=utf-8")
    assert (read.title, read.abstract, read.clean_text.count("\n\n")) == ("Water", PARAGRAPH, 2)


def test_markup_in_words_stays_words() -> None:
    """Escaped tags are text: visible in the plain form, without effect in the Markdown."""
    read = document(
        page("<p>Never write &lt;script&gt;alert(1)&lt;/script&gt; or [x](javascript:alert) in a page.</p>")
    )
    assert "<script>alert(1)</script> or [x](javascript:alert)" in read.clean_text
    assert "\\<script>alert(1)\\</script> or [x]\\(javascript:alert)" in read.markdown


def test_title_about_tags_keeps_its_words() -> None:
    """Escaped tags in <title>, og:title and the headline are words of the title."""
    written = "How &lt;details&gt; beats &lt;div&gt; in forms, if a&lt;b and b&gt;c"
    head = f'<title>{written}</title><meta property="og:title" content="{written}">'
    body = (
        f"<html><head>{head}</head><body><article><h1>{written}</h1>{f'<p>{PARAGRAPH}</p>' * 4}</article></body></html>"
    )
    assert document(body.encode()).title == "How <details> beats <div> in forms, if a<b and b>c"


# ── refusals ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"<html>" + b"y" * 100 + b"</html>", "text/html", (FailCode.BAD_HTML, FailDetail.NONE)),
        (b"", "text/html", (FailCode.BAD_HTML, FailDetail.NONE)),
        (b"<html><body><p>" + b"x" * 20 + b"</p>" + b" " * 300, "text/html", (FailCode.EMPTY, FailDetail.NONE)),
        (b"%PDF-1.7 " + b"x" * 300, "text/html", (FailCode.PARSE, FailDetail.TYPE)),
        (b'{"a": "' + b"x" * 300 + b'"}', "application/json", (FailCode.PARSE, FailDetail.TYPE)),
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 300, "", (FailCode.PARSE, FailDetail.TYPE)),
        (page(), "image/png", (FailCode.PARSE, FailDetail.TYPE)),
    ],
)
def test_what_is_no_article(body: bytes, content_type: str, expected: tuple[FailCode, FailDetail]) -> None:
    """Each kind of body that is no article has its own code."""
    assert failed(body, content_type) == expected


def test_two_hundred_characters_are_enough() -> None:
    """Exactly 200 characters are read, 199 are not; characters, not bytes."""
    start, end = "<html><body><p>", "</p></body></html>"
    words = "ä" * (MIN_HTML_CHARS - len(start + end))
    assert isinstance(extract_page(f"{start}{words}{end}".encode(), URL, "text/html").result, Document)
    assert failed(f"{start}{words[1:]}{end}".encode())[0] is FailCode.BAD_HTML


def test_a_wall_is_no_article() -> None:
    """A consent page is refused as blocked, however well it is written."""
    text = "We and our 812 partners store and/or access information on a device, and process personal data."
    wall = f"<html><head><title>Before</title></head><body><p>{text}</p><p>{text}</p></body></html>"
    assert failed(wall.encode()) == (FailCode.EMPTY, FailDetail.BLOCKED)


# ── feed text ───────────────────────────────────────────────────────────────────────────────────


def test_a_feeds_text_is_a_document() -> None:
    """An entry's HTML gives text, Markdown, image and abstract; too little of it gives none."""
    read = document_from_feed_text(f"<h3>Part</h3><p>{PARAGRAPH}</p><img src=/a.jpg>", URL, "Water")
    assert read is not None
    assert (read.title, read.abstract, read.image) == ("Water", PARAGRAPH, "https://mill.example/a.jpg")
    assert read.markdown == f"### Part\n\n{PARAGRAPH}"
    assert (read.source, read.language) == (TextSource.FEED, "en")
    assert document_from_feed_text("<p>Read more</p>", URL) is None
    assert document_from_feed_text("", URL) is None


@pytest.mark.parametrize(
    ("name", "page_body", "feed_html", "source"),
    [
        ("no feed text", page(), "", TextSource.PAGE),
        ("the page has as much", page(), ARTICLE, TextSource.PAGE),
        ("the page shows the beginning only", page(), LONG_FEED, TextSource.FEED),
        ("the page is empty", b"", ARTICLE, TextSource.FEED),
        ("the page is a PDF", b"%PDF-1.7", ARTICLE, TextSource.FEED),
    ],
)
def test_best_of_page_and_feed(name: str, page_body: bytes, feed_html: str, source: TextSource) -> None:
    """The page wins unless the feed clearly says more; with text in the feed there is always an article."""
    feed = document_from_feed_text(feed_html, URL, "From the feed") if feed_html else None
    best = best_document(extract_page(page_body, URL, "text/html").result, feed)
    assert isinstance(best, Document)
    assert best.source is source


def test_the_page_keeps_its_word_on_itself() -> None:
    """With the feed's text, title, author and image of the page stay."""
    best = best_document(document(page(head=HEAD)), document_from_feed_text(LONG_FEED, URL, "From the feed"))
    assert isinstance(best, Document)
    assert (best.title, best.author, best.source) == ("Water at the wheel", "Ada Miller", TextSource.FEED)
    assert best.text_len == len(best.clean_text)


async def test_through_the_parse_pool() -> None:
    """The task `page` gives the page, the feed's text, or the reason for neither."""
    async with ParsePool(1, 5.0, 1_000_000_000) as pool:
        good = await pool.run("page", PageRequest(page(head=HEAD), URL, "text/html"))
        walled = await pool.run("page", PageRequest(b"", URL, feed_html=ARTICLE, feed_title="Water"))
        nothing = await pool.run("page", PageRequest(b"%PDF-1.7", URL, "text/html"))

    assert good == PageResult(document=document(page(head=HEAD)))
    assert (walled.document.title, walled.document.source) == ("Water", TextSource.FEED)
    assert (nothing.document, nothing.failed.detail) == (None, FailDetail.TYPE)


# ── the house ───────────────────────────────────────────────────────────────────────────────────


def test_processes_load_no_parser() -> None:
    """The ingestor and the fetcher's decisions load neither trafilatura nor any HTML parser."""
    code = (
        "import workers.ingestor, core.pages.extraction_result, core.runtime.parse_tasks, sys;"
        "print({'trafilatura', 'lxml.html', 'selectolax', 'htmldate', 'py3langid', 'numpy'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["<p>", "</p>", "<div>", "<table><tr><td>", "<ul><li>", "&#0;", "&#xd800;", "<!--", "]]>"]),
            st.text(max_size=30),
        ),
        max_size=60,
    ),
    st.booleans(),
)
def test_never_raises_and_stores_no_control_character(pieces: list[str], main_text: bool) -> None:
    """Whatever the page, the answer is a value, and every string in it can be stored."""
    body = f"<html><body><p>{PARAGRAPH} {PARAGRAPH}</p>{''.join(pieces)}".encode("utf-8", "surrogatepass")
    read = extract_page(body, URL, "text/html", main_text=main_text).result
    if isinstance(read, Document):
        for field in fields(read):
            value = getattr(read, field.name)
            if isinstance(value, str):
                value.encode()
                assert all(char.isprintable() or char in "\n\t" or ord(char) > 0x9F for char in value), field.name
