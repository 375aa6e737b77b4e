"""Pages made safe for fast parsers: no word lost, whatever the shape."""

from __future__ import annotations

import pytest
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from core.pages.lxml_page import parse_html
from core.pages.parser_limits import is_too_deep, limit_depth, limit_markup

WORDS = "<p>The words at the end.</p>"


def limited(page: str) -> str:
    return limit_markup(page, page.count("<"))


def test_ordinary_pages_come_back_as_they_are() -> None:
    """Images with many sources and data for scripts are no flood."""
    page = f"<p>a</p><img srcset='{', '.join(f'/image-{n}-wide.jpg {n}w' for n in range(40))}'><p>b</p>" * 20
    assert limited(page) == page
    assert not is_too_deep(page)


@pytest.mark.parametrize(
    "unit",
    ["<div>", "<section>", "<em><strong>", "<ul><li>", "<label><button>", "<table><tr><td>", "<b><i>", "<div></x>",
     "<dl><dd>", "<a><p>", "<a><b><p>", "<ruby><rt>", "<font size=1>", "<h1>", "<p", "<a", "<", "<p>", "<br>", "</div>",
     "<script></script>", "<!--x-->", "<select><option>", "<form>", "<frameset>", "<math><mi>", "<blockquote>"],
)  # fmt: skip
def test_both_parsers_read_to_the_end(unit: str, full: bool) -> None:
    """After any flood of tags the words behind it are there, for libxml2 and for lexbor."""
    page = f"<html><body>{unit * (70_000 if full else 20_000)}{WORDS}"
    root = parse_html(page)
    assert root is not None
    assert "The words at the end." in "".join(map(str, root.itertext()))

    flat = limit_depth(limited(page), is_strict=True)
    quick = LexborHTMLParser(flat).body
    assert quick is not None
    assert "The words at the end." in quick.text()


def test_depth_is_seen_through_false_closings() -> None:
    """Tags that close nothing do not hide how deep a page is."""
    assert is_too_deep("<div></span>" * 30_000)
    assert not is_too_deep("<div><p>x</div>" * 30_000)


@pytest.mark.parametrize("tag", ["<p " + " ".join(f"k{n}=v" for n in range(3000)) + ">", f"<p x='{'y' * 9000}'>"])
def test_floods_of_attributes_go(tag: str) -> None:
    """A tag of absurd length goes, its text stays."""
    assert limited(f"<i>a</i>{tag}b</p>{WORDS}") == f"<i>a</i> b</p>{WORDS}"


@pytest.mark.parametrize("chars", [4095, 4096, 4097, 8191, 8192, 20_000])
@pytest.mark.parametrize("before", ["", "<b>x</b>", "x" * 4095 + ">", "x" * 5000, f"<script>{'y' * 6000}"])
def test_floods_are_found_wherever_they_stand(chars: int, before: str) -> None:
    """A tag is a flood by its length alone, whatever stands around it; one that never ends is one too."""
    for tag in (f"<p x='{'y' * (chars - 6)}", f"<p x='{'y' * (chars - 7)}>", f"<p {'k ' * ((chars - 3) // 2)}>"):
        is_long = len(tag.rstrip(">")) - len("<p") >= 4096
        is_flood = is_long and (len(tag) > 8192 or len(tag.split()) > 100)
        assert limited(f"{before}{tag}<i>words</i>") == f"{before}{' ' if is_flood else tag}<i>words</i>"


def test_old_pages_keep_their_paragraphs() -> None:
    """Paragraphs and items that nobody closed add no depth."""
    page = "<html><body>" + "<p>words<li>item<td>cell" * 500 + WORDS
    assert limit_depth(page).count("<p>") == 501


def test_scripts_do_not_count() -> None:
    """Tags in scripts and comments are no tags; one that never ends takes the rest, as in a browser."""
    page = f"<script>'{'<div>' * 99}'</script><!--{'<div>' * 99}-->{WORDS}"
    assert limit_depth(page) == WORDS
    assert limit_depth(f"a<script>b{WORDS}") == "a"


def test_too_deep_for_libxml2_is_noticed() -> None:
    """libxml2 alone would lose the words: this test fails when it no longer does, and the detour can go."""
    page = f"<html><body>{'<div>' * 300}{WORDS}"
    alone = etree.fromstring(page.encode(), etree.HTMLParser())
    assert "The words" not in "".join(map(str, alone.itertext()))
