"""Where a page leads: clean targets, each once, and none where the page says no."""

from __future__ import annotations

import pytest

from core.models import Document, Failed
from core.pages.extract import extract_page
from core.pages.metadata import MetadataElement
from core.pages.outlinks import MAX_LINKS, collect_outlinks
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import PageRequest, PageResult
from tests.pages import URL, head, meta, page

BASE = "https://mill.example"


@pytest.mark.parametrize(
    ("name", "anchors", "expected"),
    [
        ("relative", [{"href": "/a"}, {"href": "b"}], [f"{BASE}/a", f"{BASE}/news/2025/01/b"]),
        ("fragments", [{"href": "#top"}, {"href": "/a#one"}, {"href": "/a#two"}], [f"{BASE}/a"]),
        ("each once by clean form", [{"href": "/a?utm_source=x"}, {"href": f"{BASE}/a"}], [f"{BASE}/a"]),
        ("other schemes", [{"href": "mailto:a@b.example"}, {"href": "JavaScript:void(0)"}, {"href": "tel:1"}], []),
        ("data", [{"href": "data:text/html,x"}, {"href": " javascript:alert(1)"}, {"href": "ftp://a.example/"}], []),
        ("nofollow", [{"href": "/a", "rel": "noopener NoFollow"}, {"href": "/b", "rel": "author"}], [f"{BASE}/b"]),
        ("followed elsewhere", [{"href": "/a", "rel": "nofollow"}, {"href": "/a"}], [f"{BASE}/a"]),
        ("empty", [{"href": ""}, {"href": None}, {}, {"href": "   "}], []),
        ("credentials", [{"href": "https://me:secret@mill.example/"}], []),
        ("too long", [{"href": "/" + "a" * 5_000}], []),
        ("a colon in a path", [{"href": "/wiki/Talk:Mill"}], [f"{BASE}/wiki/Talk:Mill"]),
    ],
)
def test_collected(name: str, anchors: list[dict[str, str | None]], expected: list[str]) -> None:
    """Clean http(s) URLs in order, without fragments."""
    assert list(collect_outlinks(anchors, head())) == expected


def test_a_base_counts() -> None:
    """Relative links start from `<base>`."""
    stated = head(MetadataElement("base", {"href": "https://cdn.example/x/"}))
    assert collect_outlinks([{"href": "a"}], stated) == ("https://cdn.example/x/a",)


def test_at_most_two_thousand() -> None:
    """A dump of links is cut."""
    found = collect_outlinks(({"href": f"/{number}"} for number in range(50_000)), head())
    assert (len(found), found[-1]) == (MAX_LINKS, f"{BASE}/1999")


@pytest.mark.parametrize(
    ("content", "noindex", "nofollow"),
    [
        ("noindex", True, False),
        ("NOINDEX, NOFOLLOW", True, True),
        ("none", True, True),
        ("nofollow", False, True),
        ("index,follow,max-snippet:-1", False, False),
        ("noindexed", False, False),
    ],
)
def test_robots(content: str, noindex: bool, nofollow: bool) -> None:
    """Only whole words count, in any case."""
    stated = head(meta("robots", content))
    assert ("noindex" in stated.robots, "nofollow" in stated.robots) == (noindex, nofollow)


NAV = '<nav><a href="/one">1</a><map><area href="/two"></map></nav>'


@pytest.mark.parametrize("main_text", [True, False], ids=["main", "all"])
def test_the_whole_page_counts(main_text: bool) -> None:
    """Navigation leads on, although it is no part of the text; without the wish there are no links."""
    body = page(NAV + '<p>See <a href="three">three</a>.</p>')
    found = extract_page(body, URL, main_text=main_text, links=True)
    assert isinstance(found.result, Document)
    assert found.links == found.result.links
    assert found.links == (f"{BASE}/one", f"{BASE}/two", f"{BASE}/news/2025/01/three")
    assert extract_page(body, URL, main_text=main_text).links == ()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("size", ["short", "long"])
async def test_a_page_of_links_leads_on(parse_pool: ParsePool, size: str) -> None:
    """Where the text is too short for a document, the links are told all the same."""
    body = f"<html><body>{NAV}{' ' * 300 if size == 'long' else ''}</body></html>".encode()
    result = await parse_pool.run("page", PageRequest(body, URL, "text/html", links=True))
    assert isinstance(result, PageResult)
    assert isinstance(result.failed, Failed)
    assert result.links == (f"{BASE}/one", f"{BASE}/two")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("main_text", [True, False], ids=["main", "all"])
async def test_a_page_that_says_no(parse_pool: ParsePool, main_text: bool) -> None:
    """`nofollow` gives no links, `noindex` is told to the caller."""
    body = page(NAV, head='<meta name="robots" content="noindex, nofollow">')
    result = await parse_pool.run("page", PageRequest(body, URL, "text/html", main_text, links=True))
    assert (result.links, result.is_noindex, result.document.links) == ((), True, ())
