"""Tell the type of a body from its Content-Type and from its bytes, which are more reliable.

A header of `text/html` around a PDF is common, a missing header more so. A body is JSON if it can be read as JSON,
whatever its server says and whatever markup its strings hold.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum

from core.pages.data_detection import looks_like_data

MAX_PARSED_BYTES = 5_000_000
_SNIFF_BYTES = 1024
_HTML_TYPES = {"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"}
_TEXT_TYPES = {"text/plain", "text/markdown", "text/x-markdown"}
_XML_TYPES = {"text/xml", "application/xml"}
# What servers say when they do not know.
_UNKNOWN_TYPES = {
    *("", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown", "*/*"),
}
# Signatures of formats that reach us under a wrong name. From the WHATWG MIME sniffing standard, §6 and §7.
_MAGIC = (
    *(b"%PDF-", b"%!PS-", b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\x00", b"MM\x00*"),
    *(b"PK\x03\x04", b"\x1f\x8b", b"Rar!", b"7z\xbc\xaf", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x7fELF", b"MZ"),
    *(b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3", b"\x00\x00\x01\x00", b"wOFF", b"wOF2", b"\xd0\xcf\x11\xe0"),
    b"{\\rtf",
)
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<", b"\x00\x00")
# A tag that no other text starts a line with; `<?xml` alone may be a feed or a sitemap.
_HTML_TAG = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|title|meta|link|script|style|table|div|p|h[1-6]|article|main|section"
    rb"|header|br|a|b|font|span|ul|ol|!--)[\s>/]",
    re.IGNORECASE,
)
_PAGE_START = re.compile(rb"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
# Optional before the first bracket: a guard against foreign scripts, a call, an assignment.
_JSON_START = re.compile(r"""\s*(?:\)\]\}'?,?\s*|[\w$.]{1,80}\s*[=(]\s*)?(?=[{\[]\s*["{\[\d\]}tfn-])""")
_JSON_OBJECT = re.compile(r"""\{\s*"[^"\n]{1,100}"\s*:""")
_PAGE_IN_TEXT = re.compile(r"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_SAMPLE_CHARS = 50_000
_SAMPLE_BYTES = 65_536
_CONTROLS = bytes({*range(1, 32)} - {9, 10, 12, 13, 27})
_MIN_CONTROLS = 10


class PageKind(StrEnum):
    """How to read a body."""

    HTML = "html"
    TEXT = "text"
    OTHER = "other"
    """A PDF, an image, JSON, a feed, anything binary: not as a page."""


def page_kind(body: bytes, content_type: str) -> PageKind:
    """Return how to read this body."""
    if is_binary(body) or is_json(body):
        return PageKind.OTHER
    stated, start = content_type.partition(";")[0].strip().lower(), _start(body)
    if stated in _HTML_TYPES:
        return PageKind.HTML
    if stated in _XML_TYPES:
        return PageKind.HTML if re.search(rb"<html[\s>]", start, re.IGNORECASE) else PageKind.OTHER
    if stated in _TEXT_TYPES:
        return PageKind.HTML if _PAGE_START.match(start) else PageKind.TEXT
    if stated not in _UNKNOWN_TYPES:
        return PageKind.OTHER
    if _HTML_TAG.search(start) or start.startswith(_UTF_16_OR_32):
        return PageKind.HTML
    return PageKind.OTHER if start.startswith(b"<") else PageKind.TEXT


def is_html(body: bytes) -> bool:
    """Return whether the body begins like an HTML page, whatever it is called."""
    return _PAGE_START.match(_start(body)) is not None


def is_binary(body: bytes) -> bool:
    """Do these bytes belong to no text of any encoding?"""
    start = _start(body)
    is_utf16 = start.startswith(_UTF_16_OR_32[:4])
    # Many NULs are binary where neither a wide encoding nor HTML around them explains them.
    has_many_nuls = start.count(0) * 10 > len(start) and not _HTML_TAG.search(start)
    if not is_utf16 and (start.startswith(_MAGIC) or has_many_nuls):
        return True
    return not body.lstrip(b" \t\r\n").startswith(_UTF_16_OR_32) and _has_many_controls(body)


def is_json(body: bytes) -> bool:
    """Return whether this body is JSON, in one piece or line by line, or the beginning of some, and no page."""
    if _start(body).startswith(b"<"):  # as nearly every page; no JSON does, and decoding the whole page is not cheap
        return False
    text = body[:MAX_PARSED_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    start = _JSON_START.match(text)
    if start is None:
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(text, start.end())
    except RecursionError:
        return True
    except ValueError:  # broken, or more than we parse
        is_object = _JSON_OBJECT.match(text, start.end()) is not None
        sample = text[:_SAMPLE_CHARS]
        return (is_object or looks_like_data(sample)) and not _PAGE_IN_TEXT.search(sample)
    rest = text[end : end + _SAMPLE_CHARS].lstrip(" \t\r\n;),")
    return not rest or rest[0] in "{["


def _start(body: bytes) -> bytes:
    return body[:_SNIFF_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")


def _has_many_controls(body: bytes) -> bool:
    """More control characters than any text has, at the start, in the middle or at the end; NUL is not counted here.

    For encodings that keep ASCII as it is.
    """
    # Nearly no page has any. Where the samples would cover the page more than once, one look at all of it is cheaper.
    if len(body) <= 3 * _SAMPLE_BYTES and len(body) - len(body.translate(None, _CONTROLS)) <= _MIN_CONTROLS:
        return False
    middle = len(body) // 2
    for sample in (body[:_SAMPLE_BYTES], body[middle : middle + _SAMPLE_BYTES], body[-_SAMPLE_BYTES:]):
        controls = len(sample) - len(sample.translate(None, _CONTROLS))
        if controls > _MIN_CONTROLS and controls * 50 > len(sample):
            return True
    return False
