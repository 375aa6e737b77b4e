"""What an address says in words is embedded with a text; what only a program can read is not."""

from __future__ import annotations

import pytest

from core.search.readable_address import readable_address


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://example.org", "example.org"),
        ("https://example.org/river-floods?utm=1#top", "example.org/river-floods"),
        ("https://example.org/p/12345", ""),
        ("https://example.org/item/12345", "example.org/item"),
        ("https://example.org/2026/11/18/a-dry-summer.html", "example.org/a-dry-summer.html"),
        ("https://example.org/5f3a9c1be0/", ""),
        ("https://example.org/watch/dQw4w9WgXcQ", "example.org/watch"),
        ("https://example.org/550e8400-e29b-41d4-a716-446655440000.pdf", ""),
        ("https://example.org/rfc9110/getElementById", "example.org/rfc9110/getElementById"),
        ("https://example.org/wiki/%D0%A0%D0%B5%D0%BA%D0%B0", "example.org/wiki/%D0%A0%D0%B5%D0%BA%D0%B0"),
        ("https://example.org/aBcDeFgHiJk", ""),
        ("/srv/papers/0042.md", "srv/papers"),
        ("docs/bridges.md", "docs/bridges.md"),
        ("", ""),
    ],
)
def test_only_parts_with_words_are_kept(url: str, words: str) -> None:
    """Hashes, ids, numbers and dates are left out; where nothing else is in the path, so is the host."""
    assert readable_address(url) == words
