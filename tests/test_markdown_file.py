"""Markdown: kept as it is, read as plain text, its front matter apart."""

from __future__ import annotations

import pytest

from core.models import Document
from core.pages.documents.markdown_file import read_markdown
from core.pages.extraction_result import EXTRACTOR_VERSION

SAMPLE = """# Water

The *mill* [stands](https://mill.example/a#top) <b>still</b>.

- wheel
- weir

| year | flood |
|---|---|
| 1604 | =1+1 |

```py
x  = 1
```
"""


def read(text: str, links: bool = False) -> Document:
    return read_markdown(text.encode(), "notes/mill.md", "", links=links)


def test_kept_and_read() -> None:
    """The Markdown stays as it was written; the plain text has its words and structure without its marks."""
    document = read(SAMPLE)
    assert document.markdown == SAMPLE.strip()
    assert (
        document.clean_text == "Water\n\nThe mill stands still.\n\nwheel\nweir\n\nyear | flood\n1604 | =1+1\n\nx  = 1"
    )
    assert (document.title, document.links, document.extractor_version) == ("Water", (), EXTRACTOR_VERSION)


def test_lines_of_windows() -> None:
    """A line's end for Windows does not tear a paragraph apart."""
    assert read("One\r\ntwo\r\n\r\nthree").clean_text == read("One\ntwo\n\nthree").clean_text == "One two\n\nthree"


@pytest.mark.parametrize(
    ("name", "front", "expected"),
    [
        ("plain", "title: The mill\nauthor: Ada Miller\ndate: 2024-05-01", ("The mill", "Ada Miller", 1714521600.0)),
        ("quoted", "title: 'Mill: a story'\nauthors: [Ada, Bo]", ("Mill: a story", "Ada, Bo", None)),
        ("other keys", "layout: post\nTitle: The mill\ndate: soon", ("The mill", "", None)),
        ("no YAML", "title: !!python/object:os.system x\nauthor: &a b", ("!!python/object:os.system x", "&a b", None)),
        ("empty", "", ("Head", "", None)),
        ("values on lines of their own", "author:\n  - Ada\ntitle:", ("Head", "", None)),
    ],
)
def test_front_matter(name: str, front: str, expected: tuple[str, str, float | None]) -> None:
    """Simple lines are read, others passed over, and none of it is text."""
    document = read(f"---\n{front}\n---\n# Head\n\nText")
    assert (document.title, document.author, document.published_ts) == expected
    assert (document.markdown, document.clean_text) == ("# Head\n\nText", "Head\n\nText")


def test_description_is_the_abstract_of_a_text_without_paragraphs() -> None:
    """The description is used where the text has no paragraph to show."""
    assert read("---\ndescription: About mills\n---\n- a\n").abstract == "About mills"


@pytest.mark.parametrize("text", ["---\n\nText", "---\ntitle: x\n\nText without an end", "Text\n---\ntitle: x\n---\n"])
def test_no_front_matter(text: str) -> None:
    """A rule is a rule: without both ends at the top there is no front matter."""
    assert read(text).markdown == text.strip()
    assert read(text).title in ("mill", "title: x", "Text")


def test_links() -> None:
    """Absolute targets, of Markdown and of HTML in it; relative ones lead nowhere from a file."""
    text = '[a](https://a.example/x#y) [b](b.md) <https://c.example/> <a href="http://d.example">d</a> [e](mailto:e@e)'
    assert read(text, links=True).links == ("https://a.example/x", "https://c.example/", "http://d.example/")


def test_very_long() -> None:
    """Two million characters are kept, and the text says so."""
    document = read("word " * 500_000)
    assert document.clean_text.endswith("[… Only the first 2,000,000 characters are kept.]")
    assert document.markdown.endswith("[… Only the first 2,000,000 characters are kept.]")
    assert len(document.markdown) < 2_000_100
