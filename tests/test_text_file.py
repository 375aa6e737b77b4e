"""Plain text files."""

from __future__ import annotations

import pytest

from core.pages.documents.file_document import read_text


@pytest.mark.parametrize(
    ("name", "body", "title", "text"),
    [
        ("a note", b"Buy milk", "note", "Buy milk"),
        ("one letter", b"x", "note", "x"),
        ("a title", b"Shopping\n\nmilk\neggs\n", "Shopping", "Shopping\n\nmilk\neggs"),
        ("underlined", b"Shopping\n========\nmilk", "Shopping", "Shopping\n========\nmilk"),
        ("lines of Windows", b"milk\r\neggs\r\n\r\nbread", "note", "milk\neggs\n\nbread"),
        ("UTF-16", "milk\r\neggs".encode("utf-16"), "note", "milk\neggs"),
        ("Latin-1", "Müsli für München, schön".encode("cp1252"), "note", "Müsli für München, schön"),
        ("controls", b"a\x00b\x1b[0m", "note", "ab[0m"),
    ],
)
def test_text(name: str, body: bytes, title: str, text: str) -> None:
    """Lines and paragraphs stay; a first line that stands alone is the title, else the file's name."""
    found = read_text(body, "x/note.txt", "")
    assert (found.title, found.clean_text) == (title, text)
    assert (found.text_len, found.raw_len) == (len(text), len(body))


def test_markdown_is_dead() -> None:
    """What would be structure or live HTML is escaped in Markdown, and only there."""
    found = read_text(b"# not a heading\n<script>", "a.txt", "")
    assert found.markdown == "\\# not a heading\n\\<script>"
    assert found.clean_text == "# not a heading\n<script>"


@pytest.mark.parametrize("unit", [b"word\n", pytest.param(b"a\n\n", marks=pytest.mark.full), b"word "])
def test_too_long(unit: bytes) -> None:
    """Two million characters are kept, and the text says so."""
    found = read_text(unit * (2_300_000 // len(unit)), "a.txt", "")
    assert found.clean_text.endswith("[… Only the first 2,000,000 characters are kept.]")
    assert found.text_len < 2_000_100
