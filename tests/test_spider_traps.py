"""Spider traps, and the real pages that look like them."""

from __future__ import annotations

import pytest

from core.urls import spider_traps
from core.urls.normalise import MAX_URL_CHARS

NOW = 1_763_000_000.0  # November 2025

REAL = [
    "https://example.org/",
    "https://github.com/django/django/blob/main/django/conf/urls/__init__.py",
    "https://github.com/elastic/elasticsearch/blob/main/server/src/main/java/org/elasticsearch/index/Index.java",
    "https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/concurrent/locks/Lock.html",
    "https://www.bbc.co.uk/news/world-europe-12345678",
    "https://www.nytimes.com/1865/04/15/archives/awful-event.html",
    "https://blog.example.org/2011/11/11/eleven",
    "https://blog.example.org/11/11/11/",
    "https://blog.example.org/2024/05/",
    "https://blog.example.org/archive/1978/05/",
    "https://events.example.org/calendar/2026-12/",
    "https://web.archive.org/web/20200101000000/https://example.org/a/b",
    "https://en.wikipedia.org/wiki/New_York,_New_York",
    "https://en.wikipedia.org/w/index.php?title=Weir&action=history",
    "https://news.ycombinator.com/item?id=1",
    "https://www.youtube.com/watch?v=dQw4w9WgXcQ&list=PL1234567890ABCDEF&index=3",
    "https://forum.example.org/viewtopic.php?f=2&t=12345&start=30",
    "https://conference.example.org/talk?session_id=42",
    "https://shop.example.org/list?sid=12345",
    "https://example.org/search?q=a&b=1&c=2&d=3&e=4&f=5&g=6&h=7",
    "https://example.org/tags?tag=a&tag=b&tag=c",
    "https://example.org/standards/iso-8601/2099-12-31-is-a-date",
    "https://example.org/assessments/sess=1",
    "https://shop.example.org/laptop-2040-12",
    "https://shop.example.org/parts/4500-10/",
    "https://example.org/report?id=550e8400-e29b-41d4-a716-446655440000",
    "ftp://example.org/a/a/a/a/a",
]

TRAPS = [
    ("https://example.org/" + "x" * 2_100, "longer than 2,048 characters"),
    ("https://example.org/" + "/".join(map(str, range(21))), "more than 20 path segments"),
    ("https://example.org/en/en/en/about", "the same path segments again and again"),
    ("https://example.org/a/b/a/b/a/b", "the same path segments again and again"),
    ("https://example.org/x/a/b/c/a/b/c/a/b/c/", "the same path segments again and again"),
    ("https://example.org/en/a/en/b/en/c/en/d", "the same path segments again and again"),
    ("https://example.org/11/11/11/11/", "the same path segments again and again"),
    ("https://example.org/a;jsessionid=1A2B3C", "a session id in the path"),
    ("https://example.org/(S(lit3py55t21z5v55vlm25s55))/orders.aspx", "a session id in the path"),
    ("https://example.org/a?PHPSESSID=1", "a session id in the query"),
    ("https://example.org/a?x=1&phpsessid=0123456789abcdef", "a session id in the query"),
    ("https://example.org/a?ASPSESSIONIDQQ=1", "a session id in the query"),
    ("https://example.org/a?sid=0123456789abcdef0123456789abcdef", "a session id in the query"),
    ("https://example.org/a?session_id=9f86d081884c7d659a2f", "a session id in the query"),
    ("https://example.org/a?a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9", "more than 8 parameters"),
    ("https://example.org/a?page=2&page=2&page=2", "the same parameter again and again"),
    ("https://example.org/calendar/2031/05", "a calendar far from today"),
    ("https://example.org/termine/2030-01-01/", "a calendar far from today"),
    ("https://example.org/calendar/1931/05/", "a calendar far from today"),
    ("https://example.org/what?month=2031-05", "a calendar far from today"),
]


@pytest.mark.parametrize("url", REAL)
def test_real_pages_are_no_traps(url: str) -> None:
    """What ordinary sites publish is not refused."""
    assert spider_traps.trap_reason(url, NOW) == ""


@pytest.mark.parametrize(("url", "reason"), TRAPS)
def test_traps_have_a_reason(url: str, reason: str) -> None:
    """What a server can invent without end is refused, and a person is told why."""
    assert spider_traps.trap_reason(url, NOW) == reason


def test_without_a_clock_calendars_are_not_judged() -> None:
    """Which year is far away, only the caller knows."""
    assert spider_traps.trap_reason("https://example.org/calendar/2031/05") == ""


def test_hostile_urls_are_judged_quickly() -> None:
    """Even at the length limit a rule is linear enough: ten thousand judgements take no time worth naming."""
    url = "https://example.org/" + "-1" * 1_000 + "?" + "s=" + "a" * 20
    assert len(url) <= MAX_URL_CHARS
    assert [spider_traps.trap_reason(url, NOW) for _ in range(1_000)] == [""] * 1_000


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://example.org/list", ""),
        ("https://example.org/list?", ""),
        ("https://example.org/item?id=7", ""),
        ("https://example.org/view.php?f=2&t=9", ""),
        ("https://example.org/list?sort=a", "example.org:443/list"),
        ("https://example.org/list?sort=b&color=red", "example.org:443/list"),
        ("https://example.org/item?sort=a&id=7", "example.org:443/item?id=7"),
        ("https://example.org/item?id=7&sort=b", "example.org:443/item?id=7"),
        ("https://example.org/item?id=8&sort=b", "example.org:443/item?id=8"),
        ("https://example.org/item?id=", "example.org:443/item"),
        ("http://example.org:8080/list?page=2", "example.org:8080/list"),
        ("no url", ""),
    ],
)
def test_variants_of_one_page_share_a_key(url: str, key: str) -> None:
    """A page named by its id is a page; the ways to show it are variants."""
    assert spider_traps.query_variants(url) == key


def test_limit_of_variants() -> None:
    """The fifty-first variant is too many."""
    assert (spider_traps.too_many_variants(50), spider_traps.too_many_variants(51)) == (False, True)
