"""The HTML of the hostile collection, and shapes of our own: every page is read or refused, within its limits.

In the real parse pool, whose children end a page that needs more CPU time or memory than it may.
"""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import FailCode
from core.models import Document, Failed
from core.pages.extract import extract_page
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import PageRequest, PageResult
from tests import hostile
from tests.pages import ARTICLE, page

URL = "https://hostile.example/page"
HEAD = "<!doctype html><html><head><title>T</title></head><body>"
TAIL = f"{ARTICLE}</body></html>"
BYTES = 1_000_000

FLOODS = (
    *("<div>", "<section>", "<p", "<a", "<", "<em><strong>", "<ul><li>", "<!--x-->", "<label><button>", "<b><i>"),
    *("<table><tr><td>", "<table>", "<a href=x>", "<div></x>", "<p>", "<b><p></b>", "<select><option>", "<form>"),
    *("<font size=1>", "<math><mi>", "<dl><dd>", "<h1>", "<a><p>", "<option>", "<ruby><rt>", "<img src=x>", "<li>x"),
    *("<h2><a>x</a></h2><p>y", "<span>x", "x<br>", "<pre>", "<code>", "<blockquote>", "<li><a href=/x>word</a></li>"),
    *("<p>Some words.</p>", "<div><p>Some words</p></div>", "<table><tr><td>x</td></tr></table>", "[](", "&nbsp;"),
    *("<meta name=x content=y>", "<time datetime=2020-01-01>", "<p>2019-01-02 12 May 2018 1/2/2020</p>", "word ", "1"),
    *("<p " + " ".join(f"k{number}=v" for number in range(300)) + ">x</p>", "\x00<p>", "\ufffe", "&#xD800;&#0;"),
)


async def read(pool: ParsePool, body: bytes, main_text: bool = True) -> Document | Failed:
    result = await pool.run("page", PageRequest(body, URL, "text/html", main_text))
    assert isinstance(result, PageResult), result  # a Failed from the pool: the child was ended
    answer = result.document or result.failed
    assert answer is not None
    return answer


def is_storable(document: Document) -> bool:
    strings = (document.title, document.markdown, document.clean_text, document.abstract, document.image)
    return all("\x00" not in text and text.encode() is not None for text in strings)


@hostile.needed
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("main_text", [True, False], ids=["main", "all"])
@pytest.mark.parametrize("row", hostile.rows("bodies.jsonl", "html"))
async def test_hostile_rows(parse_pool: ParsePool, row: dict[str, Any], main_text: bool) -> None:
    """Each row ends as the collection expects, and the next page is read."""
    answer = await read(parse_pool, hostile.maker()(row["gen"]), main_text)
    if isinstance(answer, Failed):
        assert answer.code in (FailCode.BAD_HTML, FailCode.EMPTY, FailCode.PARSE)
        assert row["expected"] != "FAIL_BAD_HTML" or answer.code is FailCode.BAD_HTML
    else:
        assert is_storable(answer)
    assert isinstance(await read(parse_pool, page()), Document)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("main_text", [True, pytest.param(False, marks=pytest.mark.full)], ids=["main", "all"])
@pytest.mark.parametrize("unit", FLOODS, ids=lambda unit: repr(unit)[:30])
async def test_floods(parse_pool: ParsePool, unit: str, main_text: bool, full: bool) -> None:
    """After a megabyte of anything, the article behind it is still found."""
    size = BYTES if full else 400_000  # still more nodes than are weighed
    body = f"{HEAD}{unit * (size // len(unit))}{TAIL}".encode("utf-8", "replace")
    answer = await read(parse_pool, body, main_text)
    assert isinstance(answer, Document), answer
    assert "the village paid for another" in answer.clean_text
    assert is_storable(answer)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("unclosed script", "<script>" * 1000),
        ("unclosed style", "<style>" + "y" * BYTES),
        ("unclosed comment", "<!--x" * 60_000),
        ("unclosed attribute", '<a href="' + "x" * BYTES),
        ("deep JSON-LD", '<script type="application/ld+json">' + '{"a":' * 100_000 + "</script>"),
        ("wide JSON-LD", '<script type="application/ld+json">[' + '{"@type":"Article"},' * 20_000 + "{}]</script>"),
        ("endless title", "<h1>" + "a - b | " * 100_000 + "</h1>"),
        ("foreign letters", "\ud800\udfff" * 1000),
    ],
)
def test_other_shapes_give_an_answer(name: str, inside: str) -> None:
    """What a browser would not show either may be lost, but the answer is a value."""
    body = f"{HEAD}{inside}{TAIL}".encode("utf-8", "surrogatepass")
    for main_text in (True, False):
        answer = extract_page(body, URL, "text/html", main_text=main_text).result
        assert isinstance(answer, Document | Failed)
