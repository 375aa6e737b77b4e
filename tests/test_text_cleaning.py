"""Text fit to store."""

from __future__ import annotations

import pytest

from core.pages.text_cleaning import collapse_whitespace, content_hash, strip_unstorable, truncate


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a\x00b\x1f\x7f\ufffe", "ab"),
        ("a\ud800b", "ab"),
        ("\x93quoted\x94", "“quoted”"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\fc", "a \nb c"),
        ("ä€😀", "ä€😀"),
    ],
)
def test_storable(given: str, expected: str) -> None:
    """Controls and lone surrogates go, the rest stays."""
    assert strip_unstorable(given) == expected


def test_line() -> None:
    """One line, no invisible marks."""
    assert collapse_whitespace("  a\n\tb\u00a0c\u200b ") == "a b c"


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("short", 10, "short"), ("one two three", 9, "one two…"), ("x" * 30, 10, "xxxxxxxxx…"), ("one, two", 5, "one…")],
)
def test_cut(text: str, limit: int, expected: str) -> None:
    """Never longer than asked for, and between words where possible."""
    assert truncate(text, limit) == expected
    assert len(expected) <= max(limit, 1)


def test_hash_is_of_words() -> None:
    """White space and the form of an accent make no new text; a word does."""
    assert content_hash("Mu\u0308hle  am\n\nFluss") == content_hash("M\u00fchle am Fluss")
    assert content_hash("Mühle am Fluss") != content_hash("Mühle im Fluss")
