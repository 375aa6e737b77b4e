"""When a page's own word on its address is believed."""

from __future__ import annotations

import pytest

from core.pages.canonical_link import trusted_canonical

AMP = "https://www-mill-example.cdn.ampproject.org/c/s/www.mill.example/a/story.amp"


@pytest.mark.parametrize(
    ("name", "canonical", "url", "expected"),
    [
        ("itself", "https://mill.example/a", "https://mill.example/a", "https://mill.example/a"),
        (
            "another host of the site",
            "https://www.mill.example/a",
            "http://m.mill.example/a?x=1",
            "https://www.mill.example/a",
        ),
        ("cleaned", "https://mill.example/a?utm_source=x#top", "https://mill.example/b", "https://mill.example/a"),
        ("first page of two", "https://mill.example/a", "https://mill.example/a/page/2", "https://mill.example/a"),
        ("AMP page", "https://mill.example/a", "https://mill.example/a/amp", "https://mill.example/a"),
        ("AMP host", "https://www.mill.example/a", "https://amp.mill.example/a", "https://www.mill.example/a"),
        ("AMP cache", "https://www.mill.example/a/story", AMP, "https://www.mill.example/a/story"),
        ("AMP cache of another", "https://river.example/a/story", AMP, ""),
        (
            "AMP viewer",
            "https://mill.example/a",
            "https://www.google.com/amp/s/mill.example/a/amp",
            "https://mill.example/a",
        ),
        ("home of home", "https://mill.example/", "https://mill.example/", "https://mill.example/"),
        ("home of a story", "https://mill.example/", "https://mill.example/a", ""),
        ("section of a story", "https://mill.example/news", "https://mill.example/news/2025/01/a", ""),
        ("another site", "https://river.example/a", "https://mill.example/a", ""),
        ("another blog of the host", "https://b.github.io/a", "https://a.github.io/a", ""),
        ("login", "https://mill.example/login?next=/a", "https://mill.example/a", ""),
        ("consent", "https://mill.example/consent/", "https://mill.example/a", ""),
        ("lost its id", "https://mill.example/story.php", "https://mill.example/story.php?id=7", ""),
        ("lost a page number", "https://mill.example/a", "https://mill.example/a?page=2", "https://mill.example/a"),
        ("no web address", "file:///etc/passwd", "https://mill.example/a", ""),
        ("a script", "javascript:alert(1)", "https://mill.example/a", ""),
        ("a password", "https://me:secret@mill.example/a", "https://mill.example/a", ""),
        ("nothing", "", "https://mill.example/a", ""),
    ],
)
def test_trusted_canonical(name: str, canonical: str, url: str, expected: str) -> None:
    """Only an address of the same site, and not a more general one, may stand for the page."""
    assert trusted_canonical(canonical, url) == expected
