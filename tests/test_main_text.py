"""The main text: what belongs to the article and what does not."""

from __future__ import annotations

import pytest

from core.pages.lxml_page import parse_html
from core.pages.main_text import ENOUGH_SURE_CHARS, MAX_NODES, decide_runs, find_main_text
from core.pages.page_nodes import PageNodes
from core.pages.text_blocks import blocks_to_markdown
from tests.pages import ARTICLE, PARAGRAPH


def main_text(body: str) -> str:
    root = parse_html(f"<html><body>{body}</body></html>")
    assert root is not None
    return blocks_to_markdown(find_main_text(root, ""))


def test_linked_headings_stay() -> None:
    """A heading that is a link is a heading, when text follows it."""
    text = main_text(f"<article>{ARTICLE}<h2><a href=/x>The parts of the wheel</a></h2>{ARTICLE}</article>")
    assert "## The parts of the wheel" in text


def test_links_inside_a_sentence_stay() -> None:
    """Sentences keep the words of their links, whatever class those have."""
    text = main_text(
        f'<article><p>{PARAGRAPH} So says <span class="link"><a href=/x>Ada Miller</a></span>.</p>{ARTICLE}'
    )
    assert "So says Ada Miller." in text


def test_comments_are_not_the_article() -> None:
    """What readers wrote below the article is left out."""
    text = main_text(f'<article>{ARTICLE}</article><div id="comments"><p>First! {PARAGRAPH}</p></div>')
    assert "First!" not in text


@pytest.mark.parametrize("tag", ["nav", "footer"])
def test_navigation_that_is_never_closed(tag: str) -> None:
    """An article that a forgotten end tag puts into the navigation is found; what is navigation is left out."""
    around = f"<{tag}><p>All rights reserved by the miller. {PARAGRAPH}</p></{tag}>"
    assert "The mill has stood" in main_text(f"<{tag}><a href=/>Home</a>{ARTICLE * 3}")
    assert "All rights" not in main_text(f"{around}<article>{ARTICLE * 3}</article>{around}")


def test_text_outside_paragraphs() -> None:
    """Text that stands in no paragraph is found all the same."""
    lines = "".join(f"<div><b>{number}.</b> {PARAGRAPH}</div>" for number in range(12))
    assert main_text(f"<div id=x>{lines}</div>").count("The mill has stood") == 12


def test_too_large_a_page_is_not_weighed() -> None:
    """A page with too many elements gets no answer, instead of a late one."""
    root = parse_html("<html><body>" + "<p>x</p>" * (MAX_NODES + 1) + "</body></html>")
    assert root is not None
    assert find_main_text(root, "") == []


@pytest.mark.parametrize(("sentences", "is_doubtful"), [(1, True), (ENOUGH_SURE_CHARS // len(PARAGRAPH) + 1, False)])
def test_another_reader_is_asked_where_little_is_sure(sentences: int, is_doubtful: bool) -> None:
    """Much text that may or may not belong to the article matters only where there is little that surely does."""
    root = parse_html(f"<body><div>{f'<p>{PARAGRAPH}</p>' * sentences}{'<p>Perhaps a line of it</p>' * 200}</div>")
    assert root is not None

    assert decide_runs(PageNodes(root), "", {"any": 0.5, "sentence": 2.0}).is_doubtful is is_doubtful


@pytest.mark.parametrize("tag", ["main", "article", "section", "header", "div", "p"])
@pytest.mark.parametrize("start", ["<title>Mill</title>", "<html lang=en><meta charset=utf-8><title>Mill</title>"])
def test_body_that_is_left_out(tag: str, start: str) -> None:
    """HTML allows it, whatever the first element is; the head keeps its own."""
    root = parse_html(f"<!doctype html>{start}<{tag}>{ARTICLE}</{tag}><footer>The end.</footer>")

    assert root is not None
    assert [str(child.tag) for child in root] == ["head", "body"]
    assert root.findtext("head/title") == "Mill"
    assert PARAGRAPH in blocks_to_markdown(find_main_text(root, ""))


def test_a_lead_that_stands_apart() -> None:
    """A sentence between headline and text is part of the article, in any box; one above the headline is not."""
    lead = (
        "When the river rose for the third time in a year, the village had to choose between its mill and its bridge."
    )
    above = "When the baker sold his oven to a stranger, nobody in the village knew what he would do without the bread."
    aside = f"<div><p>{above}</p></div><div><h1>Water</h1><div><p>{lead}</p></div><div>Ada Miller</div></div>"
    text = main_text(f'{aside}<div><div class="article-body">{ARTICLE}</div></div>')
    assert lead in text
    assert above not in text
