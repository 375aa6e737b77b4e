"""What is cut from a text, and the paragraph that sums it up."""

from __future__ import annotations

import pytest

from core.pages.abstract import choose_abstract
from core.pages.boilerplate import remove_boilerplate
from core.pages.text_blocks import TextBlock, TextBlockKind
from tests.pages import PARAGRAPH

TITLE = "Water at the wheel"


def p(text: str) -> TextBlock:
    return TextBlock(TextBlockKind.PARAGRAPH, text, text)


def h(text: str) -> TextBlock:
    return TextBlock(TextBlockKind.HEADING, f"## {text}", text)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("the title above", [h("Water at the Wheel!"), p(PARAGRAPH)], [PARAGRAPH]),
        ("the title elsewhere", [p(PARAGRAPH), p(TITLE)], [PARAGRAPH, TITLE]),
        ("pointers", [p("Read more: The river"), p(PARAGRAPH), p("[Lire aussi : Le moulin]")], [PARAGRAPH]),
        ("calls", [p(PARAGRAPH), p("Follow us on Twitter"), p("Lesen Sie auch: Der Fluss")], [PARAGRAPH]),
        (
            "sentences like them",
            [p("Related work is older."), p("Además, llueve.")],
            ["Related work is older.", "Además, llueve."],
        ),
        ("headings with nothing below", [p(PARAGRAPH), h("Comments"), h("More")], [PARAGRAPH]),
        ("nothing but that", [p("Read more: The river")], ["Read more: The river"]),
    ],
)
def test_trimmed(name: str, given: list[TextBlock], expected: list[str]) -> None:
    """Only what is not the story goes, and never all of it."""
    assert [block.text for block in remove_boilerplate(given, TITLE)] == expected


@pytest.mark.parametrize(
    ("name", "given", "description", "expected"),
    [
        ("first real paragraph", [h(PARAGRAPH), p("Short."), p(PARAGRAPH)], "About", PARAGRAPH),
        ("not a byline", [p("By Ada Miller, our correspondent at the river bank"), p(PARAGRAPH)], "", PARAGRAPH),
        ("a sentence that begins like one", [p(f"By {PARAGRAPH}")], "", f"By {PARAGRAPH}"),
        ("the description", [p("Short.")], "About water", "About water"),
        ("the beginning", [p("Short."), p("Words.")], "", "Short. Words."),
    ],
)
def test_abstract(name: str, given: list[TextBlock], description: str, expected: str) -> None:
    """The first paragraph of more than 40 characters, else the description, else the beginning."""
    assert choose_abstract(given, description, "\n\n".join(block.text for block in given)) == expected


def test_abstracts_end_with_a_word() -> None:
    """500 characters at most, cut between words."""
    abstract = choose_abstract([p("water wheel " * 100)], "", "")
    assert len(abstract) <= 500
    assert abstract.endswith(("water…", "wheel…"))
