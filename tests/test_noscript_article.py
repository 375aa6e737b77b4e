"""`<noscript>`: a plea or a pixel is no text, an article is one, and a forgotten end tag swallows nothing."""

from __future__ import annotations

import pytest

from core.errors import FailCode
from core.models import Document, Failed
from core.pages.extract import extract_page
from core.pages.noscript_article import drop_misleading_tags

STORY = "".join(
    f"<p>Paragraph {number} of the story about the river, which rose again in the night and took a bridge.</p>"
    for number in range(12)
)
PLEA = "Please switch JavaScript on, or use another browser, to see all of this page as it was meant to be."


def page(body: str, head: str = "") -> bytes:
    return f"<!doctype html><html lang=en><head><title>River</title>{head}</head><body>{body}</body></html>".encode()


def read(body: bytes, main_text: bool) -> Document | Failed:
    return extract_page(body, "https://e.org/a", "text/html", main_text=main_text).result


HELD = {
    "article": page(
        f"<div id=app></div><noscript><article><h1>River</h1>{STORY}</article></noscript><footer>F</footer>"
    ),
    "bare paragraphs": page(f"<nav><a href=/>Home</a></nav><noscript>{STORY}</noscript>"),
    "beside a plea": page(f"<noscript>{PLEA}</noscript><noscript>{STORY}</noscript>"),
    "upper case": page(f"<NOSCRIPT>{STORY}</NOSCRIPT>"),
    "never closed": page(f"<noscript><img src=/pixel.gif>{STORY}"),
    "never closed, and another": page(f"<noscript><img src=/p.gif><div>{STORY}</div><noscript>{PLEA}</noscript>"),
    "never closed in the head": page(f"<main>{STORY}</main>", "<noscript><link rel=stylesheet href=/x.css>"),
    "never closed around everything": f"<noscript><html><head><title>River</title><body>{STORY}".encode(),
    "opened again and again": page("<noscript>" * 20 + STORY),
}


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize("name", HELD)
def test_an_article_in_noscript_is_the_article(name: str, main_text: bool) -> None:
    """In its main text and in all its text, each paragraph once."""
    document = read(HELD[name], main_text)

    assert isinstance(document, Document)
    for number in range(12):
        assert document.clean_text.count(f"Paragraph {number} of") == 1


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize(
    "noscript",
    [
        PLEA,
        "<img src=/pixel.gif>",
        f"<div><p>{PLEA}</p></div>",
        "&lt;div class=&quot;ad&quot;&gt;&lt;img src=x&gt;&lt;/div&gt;" * 40,  # as browsers save it
        f"<style>{'p {margin: 0} ' * 100}</style>",
    ],
)
def test_a_plea_is_no_text(noscript: str, main_text: bool) -> None:
    """However many there are."""
    document = read(page(f"<article>{STORY}</article>{f'<noscript>{noscript}</noscript>' * 5}"), main_text)

    assert isinstance(document, Document)
    assert "JavaScript" not in document.clean_text
    assert "margin" not in document.clean_text
    assert "class=" not in document.clean_text
    assert document.clean_text.count("Paragraph 3 of") == 1


@pytest.mark.parametrize("main_text", [True, False])
def test_the_same_story_twice_is_read_once(main_text: bool) -> None:
    """A page that repeats its story for browsers without scripts."""
    document = read(
        page(f"<article>{STORY}</article><noscript><article>{STORY}<p>End.</p></article></noscript>"), main_text
    )

    assert isinstance(document, Document)
    assert document.clean_text.count("Paragraph 3 of") == 1


@pytest.mark.parametrize("main_text", [True, False])
def test_nothing_but_a_plea_is_empty(main_text: bool) -> None:
    """A page that is all script."""
    document = read(page(f"<div id=root></div><noscript>{PLEA}</noscript><script>{'x();' * 100}</script>"), main_text)

    assert isinstance(document, Failed)
    assert document.code is FailCode.EMPTY


@pytest.mark.parametrize("main_text", [True, False])
def test_a_page_of_furniture_alone_is_read(main_text: bool) -> None:
    """All its text in a form, an aside, links: no running text at all, and still a text."""
    document = read(page(f"<form><aside><nav>{STORY}</nav></aside></form>"), main_text)

    assert isinstance(document, Document)
    assert "Paragraph 3 of" in document.clean_text


def test_closed_ones_are_left_alone() -> None:
    """Only opening tags without an end go."""
    html = "a<noscript>b</noscript>c<noscript class=x>d</NoScript>e"

    assert drop_misleading_tags(html) == html
    assert drop_misleading_tags("a<noscript>b") == "ab"
    assert drop_misleading_tags("1<!-- --> of <!-- -->2<!--x--><noscript>3") == "1 of 2<!--x-->3"
    assert drop_misleading_tags("<noscript>1<!-- -->2</noscript>") == "<noscript>12</noscript>"
    assert drop_misleading_tags("<noscript>a<noscript>b</noscript></noscript>") == "a<noscript>b</noscript></noscript>"
