"""All text in one quick pass."""

from __future__ import annotations

import pytest

from core.pages.lexbor_page import LexborPage
from core.pages.page_document import read_page_quickly
from tests.pages import PARAGRAPH, URL


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("blocks", "<p>a <b>b</b>c</p><div>d<ul><li>e<li>f</ul></div>", ["a bc", "d", "e", "f"]),
        ("cells", "<table><tr><td>a</td><td>b</td></tr></table>", ["a", "b"]),
        ("line breaks", "a<br>b<br><br>c", ["a", "b", "c"]),
        ("upper case", "<P>a<P>b", ["a", "b"]),
        ("unseen", "<script>a</script><style>b</style><noscript>c</noscript>d<svg><text>e</text></svg>", ["d"]),
        ("attributes with tags", '<p title="a > <div> b">c<i title=">">d</i></p>', ["cd"]),
        ("comments", "a<!-- -->b<!-- <p>c -->", ["ab"]),
        ("character references", "<p>&lt;p&gt; &amp; &#8220;", ["<p> & “"]),
        ("code", "<p>a</p><pre>\nb <b>c</b><br>d\n\n  e</pre>f", ["a", "b c\nd\n\n  e\n", "f"]),
        ("code in an item", "<ul><li>a<pre><code>b\n</code></pre>c</ul>", ["a", "b\n", "c"]),
        ("code in code", "<pre>a<pre>b</pre></pre><pre> </pre>", ["a\nb\n"]),
        ("invisible marks", "<p>wa\u00adter\u200b</p>", ["water"]),
    ],
)
def test_lines(name: str, body: str, expected: list[str]) -> None:
    """Blocks are apart, words in a block stay together."""
    page = LexborPage(f"<html><head><title>T</title></head><body>{body}</body></html>")
    assert page.lines() == expected


def test_furniture_goes_unless_it_is_all() -> None:
    """Navigation and forms are left out where something else remains."""
    nav = "<nav>Home</nav><form>Search</form>"
    assert LexborPage(f"{nav}<p>{PARAGRAPH * 3}</p>").lines() == [PARAGRAPH * 3]
    assert LexborPage(nav).lines() == ["Home", "Search"]


def test_collects_what_the_head_wants() -> None:
    """Statements, images and paragraphs come with the text."""
    page = LexborPage(
        "<html lang=en><head><title>T</title><meta name=a content=b></head><body><h1>H</h1><img src=x><p>P</p>"
        '<a rel=author href=/ada>Ada</a><script type="application/ld+json">{}</script><script>no</script>'
    )
    assert [element.tag for element in page.elements()] == ["html", "title", "meta", "h1", "script"]
    assert [image.get("src") for image in page.images()] == ["x"]
    assert page.bylines() == ("Ada",)
    assert page.lines() == ["H", "P", "Ada"]
    assert page.paragraphs() == {"P"}


def test_code_is_code_in_the_document() -> None:
    """A page that is read by the quick parser alone keeps its samples of code, line by line."""
    page = read_page_quickly(f"<p>{PARAGRAPH}</p><ol><li>Run:<pre>a `b`\n  c</pre></ol>", URL).document
    assert page.markdown == f"{PARAGRAPH}\n\nRun:\n\n```\na `b`\n  c\n```"
    assert page.clean_text == f"{PARAGRAPH}\n\nRun:\n\na `b`\n  c"
