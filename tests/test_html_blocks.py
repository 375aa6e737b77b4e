"""HTML as blocks without weighing: a feed's entry, a page without main text."""

from __future__ import annotations

import pytest

from core.pages.html_blocks import html_to_blocks, parse_fragment, without_navigation
from core.pages.lxml_page import parse_html
from core.pages.table_blocks import MAX_SPAN_COLUMNS
from core.pages.text_blocks import blocks_to_markdown, blocks_to_text
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
        (
            "code below the words of an item",
            "<ol><li>Run:<pre>a\n\n  b</pre></ol>",
            "1. Run:\n   ```\n   a\n\n     b\n   ```",
        ),
        ("one line of code in an item", "<ul><li><p>Run:<pre><code>a</code></pre></ul>", "- Run:\n  ```\n  a\n  ```"),
        ("words behind the code of an item", "<ul><li>a<pre>b</pre>c<li>d</ul>", "- a\n  ```\n  b\n  ```\n  c\n- d"),
        ("only code in an item", "<ol start=10><li><pre>a</pre></ol>", "10.\n    ```\n    a\n    ```"),
        ("code in a definition", "<dl><dt>a<dd>b<pre>c\nd</pre></dl>", "- a\n- b\n  ```\n  c\n  d\n  ```"),
        ("article in an item", "<ul><li><h2>a</h2><p>b</p><pre>c</pre></ul>", "## a\n\nb\n\n```\nc\n```"),
        ("steps with headings", "<ol><li><h3>a</h3><p>b</p><li>c</ol>", "1. a b\n2. c"),
        ("first number", "<ol start=9><li>a<li>b<ul><li>c</ul></ol>", "9. a\n10. b\n    - c"),
        ("no number to start from", "<ol start=-3><li>a</ol>", "1. a"),
        ("list below a number", "<ol><li>a<ul><li>b</ul>c</ol>", "1. a\n   - b\n\n   c"),
        ("list beside the items", "<ul><li>a</li><ul><li>b</ul></ul>", "- a\n  - b"),
        ("code in a sentence", "<p>Set <code>__a__</code>, <code>&lt;b></code>.</p>", "Set `__a__`, `<b>`."),
        ("code at the start of an item", "<ul><li><code>-a</code> does b</ul>", "- `-a` does b"),
        ("code and a backtick", "<p>Not ` but <code>a</code></p>", "Not ` but a"),
        (
            "cells above and beside others",
            "<table><tr><th rowspan=2>a<th colspan=2>b<tr><th>c<th>d<tr><td>1<td>2<td>3</table>",
            "| a | b |  |\n| --- | --- | --- |\n|  | c | d |\n| 1 | 2 | 3 |",
        ),
        (
            "spans that are no numbers",
            "<table><tr><td rowspan=x colspan=-2>a<td colspan=0>b<tr><td>c</table>",
            "| a | b |\n| --- | --- |\n| c |  |",
        ),
        (
            "caption of a table",
            "<table><caption>Floods</caption><tr><th>a<th>b<tr><td>1<td>2</table>",
            "Floods\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("code in a cell", "<table><tr><td><code>a|b</code></table>", "| `a\\|b` |\n| --- |"),
        ("list in a cell", "<table><tr><td>a<td><ul><li>b<li>c</ul></table>", "a\n\n- b\n- c"),
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


def test_code_keeps_its_lines_in_the_plain_text() -> None:
    """Code in an item has its line breaks in both texts; code in a sentence has its marks only in Markdown."""
    root = parse_fragment("<ul><li>Call <code>f()</code> in:<pre>a\n  b</pre></ul>")
    assert root is not None
    assert blocks_to_text(html_to_blocks(root)) == "Call f() in:\na\n  b"


def test_hostile_spans_stay_small() -> None:
    """However wide and high the cells say they are, a row gets no more empty cells than the bound."""
    found = rendered(f"<table>{'<tr><td colspan=99999 rowspan=99999999999999999999>a' * 100}</table>")
    assert found.count("|") <= 101 * (MAX_SPAN_COLUMNS + 2)


@pytest.mark.parametrize(("begin", "end"), [("<ul><li>x", "</li></ul>"), ("<blockquote>x", "</blockquote>")])
def test_lists_and_quotes_deep_inside_each_other(begin: str, end: str) -> None:
    """Each indents the lines below once more: the deepest no longer do, and no word of theirs is lost."""
    lines = [str(number) for number in range(100)]
    root = parse_fragment(begin * 100 + "<pre>" + "\n".join(lines) + "</pre>" + end * 100)
    assert root is not None
    blocks = html_to_blocks(root)
    assert blocks_to_text(blocks).split() == ["x"] * 100 + lines
    assert max(len(line) for line in blocks_to_markdown(blocks).split("\n") if line.endswith("9")) < 60
