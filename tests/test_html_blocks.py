"""HTML as blocks without weighing: a feed's entry, a page without main text."""

from __future__ import annotations

import pytest

from core.pages.html_blocks import html_to_blocks, parse_fragment, without_navigation
from core.pages.lxml_page import parse_html
from core.pages.text_blocks import blocks_to_markdown
from tests.pages import PARAGRAPH


def rendered(html: str) -> str:
    root = parse_fragment(html)
    assert root is not None
    return blocks_to_markdown(html_to_blocks(root))


@pytest.mark.parametrize(
    ("name", "html", "expected"),
    [
        ("plain text", "One &amp; two", "One & two"),
        ("paragraphs", "<p>a <b>b</b> <a href=x>c</a></p><div>d</div>", "a b c\n\nd"),
        (
            "structure",
            "<h2>a</h2><ol><li>b</ol><pre>c</pre><blockquote>d</blockquote>",
            "## a\n\n1. b\n\n```\nc\n```\n\n> d",
        ),
        ("table", "<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        (
            "table for the layout",
            "<table><tr><td><p>a</p><table><tr><td>b</td></tr></table></td></tr></table>",
            "a\n\n| b |\n| --- |",
        ),
        ("junk", "<script>a</script><style>b</style>c<iframe>d</iframe>", "c"),
        ("line breaks", "a<br>b<br><br>c", "a b\n\nc"),
    ],
)
def test_fragments(name: str, html: str, expected: str) -> None:
    """Everything a person would see, in its structure."""
    assert rendered(html) == expected


def test_furniture_goes_unless_it_is_all() -> None:
    """Navigation is left out of a page with text, and kept where there is no other."""
    root = parse_html(f"<html><body><nav>Home</nav><p>{PARAGRAPH * 3}</p></body></html>")
    only = parse_html(f"<html><body><form>{PARAGRAPH}</form></body></html>")
    assert root is not None
    assert only is not None
    assert "Home" not in blocks_to_markdown(html_to_blocks(without_navigation(root)))
    assert PARAGRAPH in blocks_to_markdown(html_to_blocks(without_navigation(only)))
