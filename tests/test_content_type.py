"""What a body is, by its header and by its first bytes."""

from __future__ import annotations

import pytest

from core.pages.content_type import PageKind, page_kind

HTML, TEXT, OTHER = PageKind.HTML, PageKind.TEXT, PageKind.OTHER


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"<!doctype html><p>x", "text/html; charset=utf-8", HTML),
        (b"<!DOCTYPE html><p>x", "", HTML),
        (b"\xef\xbb\xbf \n<html><p>x", "application/octet-stream", HTML),
        (b"words, no tags at all", "text/html", HTML),
        (b'<?xml version="1.0"?><html xmlns="x">', "application/xhtml+xml", HTML),
        (b'<?xml version="1.0"?><html xmlns="x">', "application/xml", HTML),
        (b'<?xml version="1.0"?><rss version="2.0">', "text/xml", OTHER),
        (b'<?xml version="1.0"?><rss version="2.0">', "", OTHER),
        ("<html><p>ä".encode("utf-16"), "text/html", HTML),
        (b"words", "text/plain", TEXT),
        (b"# words", "text/markdown", TEXT),
        (b"<!doctype html><p>x", "text/plain", HTML),
        (b"a < b, said the miller", "", TEXT),
        (b"%PDF-1.4", "text/html", OTHER),
        (b"\x89PNG\r\n\x1a\n", "", OTHER),
        (b"GIF89a", "text/html", OTHER),
        (b"PK\x03\x04", "application/octet-stream", OTHER),
        (b"\x00\x01\x02\x03" * 99, "text/html", OTHER),
        (b'{"error": "none"}', "text/html", OTHER),
        (b'[{"a": 1}]', "", OTHER),
        (b"<p>x", "application/json", OTHER),
        (b"p { color: red }", "text/css", OTHER),
        (b"<p>x", "video/mp4", OTHER),
    ],
)
def test_kind(body: bytes, content_type: str, expected: PageKind) -> None:
    """Pages and plain text are read, all else is not, whatever its header claims."""
    assert page_kind(body, content_type) is expected
