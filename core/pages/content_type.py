"""Is this a page we can read? By what its server says, and by its first bytes, which lie less.

A header of `text/html` around a PDF is common, a missing header more so.
"""

from __future__ import annotations

import re
from enum import StrEnum

from core.pages.raw_data import has_binary_bytes, is_json

_SNIFF_BYTES = 1024
_HTML_TYPES = {"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"}
_TEXT_TYPES = {"text/plain", "text/markdown", "text/x-markdown"}
_XML_TYPES = {"text/xml", "application/xml"}
# What servers say when they do not know.
_UNKNOWN_TYPES = {
    "",
    "application/octet-stream",
    "binary/octet-stream",
    "application/unknown",
    "unknown/unknown",
    "*/*",
}
# Signatures of formats that reach us under a wrong name. From the WHATWG MIME sniffing standard, §6 and §7.
_MAGIC = (
    *(b"%PDF-", b"%!PS-", b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*"),
    *(b"PK\x03\x04", b"\x1f\x8b", b"Rar!", b"7z\xbc\xaf", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x7fELF", b"MZ"),
    *(
        b"ID3",
        b"OggS",
        b"fLaC",
        b"\x1aE\xdf\xa3",
        b"\x00\x00\x01\x00",
        b"wOFF",
        b"wOF2",
        b"\xd0\xcf\x11\xe0",
        b"{\\rtf",
    ),
)
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<", b"\x00\x00")
# A tag that no other text starts a line with; `<?xml` alone may be a feed or a sitemap.
_HTML_TAG = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|title|meta|link|script|style|table|div|p|h[1-6]|article|main|section"
    rb"|header|br|a|b|font|span|ul|ol|!--)[\s>/]",
    re.IGNORECASE,
)
_PAGE_START = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)


class PageKind(StrEnum):
    """What a body can be to us."""

    HTML = "html"
    TEXT = "text"
    OTHER = "other"
    """A PDF, an image, JSON, a feed, anything binary."""


def page_kind(body: bytes, content_type: str) -> PageKind:
    """How to read this body."""
    stated = content_type.partition(";")[0].strip().lower()
    start = body[:_SNIFF_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    if is_binary(body) or is_json(body):
        return PageKind.OTHER
    if stated in _HTML_TYPES:
        return PageKind.HTML
    if stated in _XML_TYPES:
        return PageKind.HTML if re.search(rb"<html[\s>]", start, re.IGNORECASE) else PageKind.OTHER
    if stated in _TEXT_TYPES:
        return PageKind.HTML if _PAGE_START.match(start) else PageKind.TEXT
    return _sniffed(start) if stated in _UNKNOWN_TYPES else PageKind.OTHER


def is_binary(body: bytes) -> bool:
    """Do these bytes belong to no text of any encoding?"""
    start = body[:_SNIFF_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    return _is_binary(start) or (not is_utf16_or_32(body) and has_binary_bytes(body))


def is_utf16_or_32(body: bytes) -> bool:
    """Does it begin as text of more than one byte for each character does?"""
    return body.lstrip(b" \t\r\n").startswith(_UTF_16_OR_32)


def is_html(body: bytes) -> bool:
    """Does the body begin as an HTML page does, whatever it is called?"""
    start = body[:_SNIFF_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    return _PAGE_START.match(start) is not None


def _sniffed(start: bytes) -> PageKind:
    if _HTML_TAG.search(start) or start.startswith(_UTF_16_OR_32):
        return PageKind.HTML
    return PageKind.OTHER if start.startswith(b"<") else PageKind.TEXT


def _is_binary(start: bytes) -> bool:
    """A known signature, or many NULs where neither a wide encoding nor HTML around them explains them."""
    if start.startswith(_UTF_16_OR_32[:4]):
        return False
    return start.startswith(_MAGIC) or (start.count(0) * 10 > len(start) and not _HTML_TAG.search(start))
