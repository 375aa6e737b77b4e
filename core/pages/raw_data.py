"""Data that stands where a text should: JSON as a page, JSON inside a page, bytes of anything else.

A body is JSON if it can be read as JSON, whatever its server says and whatever markup its strings hold. Inside a page,
a piece of text is data if it is written like data; samples of code are left alone where the page has a text of its own.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml import etree

MIN_STRAY_CHARS = 200
"""Shorter pieces of a page are left alone."""
MIN_PIECE_CHARS = 40
CHARS_PER_KEY = 60
"""Data has a key at least so often."""
MOST_PARSED_BYTES = 5_000_000
_FEWEST_KEYS = 3
_SAMPLE_CHARS = 50_000
_SAMPLE_BYTES = 65_536
_FEWEST_CONTROLS = 10
_NOISE_CHARS = 2_000
# Optional before the first bracket: a guard against foreign scripts, a call, an assignment.
_START = re.compile(r"""\s*(?:\)\]\}'?,?\s*|[\w$.]{1,80}\s*[=(]\s*)?(?=[{\[]\s*["{\[\d\]}tfn-])""")
_OBJECT = re.compile(r"""\{\s*"[^"\n]{1,100}"\s*:""")
_KEY = re.compile(r"""["'][\w$@.:/ -]{1,60}["']\s*:""")
_PAGE = re.compile(r"<!doctype\s+html|<html[\s>]", re.IGNORECASE)
_CONTROLS = bytes({*range(1, 32)} - {9, 10, 12, 13, 27})
_FIRST_UNSPACED = "\u0e00"
"""From Thai on there are scripts without spaces."""
_SAMPLES = ("pre", "code", "samp", "script", "style")


def is_json(body: bytes) -> bool:
    """Is this body JSON, in one piece or line by line, or the beginning of some, and no page?"""
    text = body[:MOST_PARSED_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    start = _START.match(text)
    if start is None:
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(text, start.end())
    except RecursionError:
        return True
    except ValueError:  # broken, or more than we parse
        is_object = _OBJECT.match(text, start.end()) is not None
        return (is_object or looks_like_data(text[:_SAMPLE_CHARS])) and not _PAGE.search(text[:_SAMPLE_CHARS])
    rest = text[end : end + _SAMPLE_CHARS].lstrip(" \t\r\n;),")
    return not rest or rest[0] in "{["


def looks_like_data(text: str) -> bool:
    """Is this piece of text written like data: keys and values, and next to nothing else?"""
    if len(text) < MIN_PIECE_CHARS or not ('"' in text or "'" in text):
        return False
    keys = sum(1 for _ in _KEY.finditer(text))
    return keys >= _FEWEST_KEYS and keys * CHARS_PER_KEY >= len(text)


def is_only_data(text: str, least: int) -> bool:
    """Is there less than `least` of text in it beside data?"""
    pieces = text.split("\n\n")
    prose = sum(len(piece) for piece in pieces if not looks_like_data(piece))
    return len(text) >= MIN_STRAY_CHARS and prose < least and prose < len(text) - 2 * len(pieces)


def has_binary_bytes(body: bytes) -> bool:
    """More control characters than any text has, at its start, in its middle or at its end.

    For encodings that keep ASCII as it is; NUL is not counted here.
    """
    middle = len(body) // 2
    samples = (body[:_SAMPLE_BYTES], body[middle : middle + _SAMPLE_BYTES], body[-_SAMPLE_BYTES:])
    controls = [len(sample) - len(sample.translate(None, _CONTROLS)) for sample in samples]
    return any(
        found > _FEWEST_CONTROLS and found * 50 > len(sample) for found, sample in zip(controls, samples, strict=True)
    )


def is_undecodable(text: str) -> bool:
    """Is much of a body's text what no encoding explains?"""
    return text.count("\ufffd") * 10 > len(text)


def is_noise(text: str) -> bool:
    """Decoded, and still no text: foreign letters of alphabets that have spaces, and no spaces."""
    if len(text) < _NOISE_CHARS or len(text.split()) * 100 >= len(text):
        return False
    foreign = len(text) - len(text.encode("ascii", "ignore")) - text.count("\ufffd")
    if foreign * 2 <= len(text):
        return False
    return sum(char >= _FIRST_UNSPACED and char.isalpha() for char in text) * 10 < len(text)


def remove_stray_data(root: etree._Element) -> None:
    """Take the data out of a page's text. Changes `root`."""
    for element in root.iter("*"):
        if element.tail and is_stray_data(element.tail):
            element.tail = " "
        if element.text and is_stray_data(element.text) and not _is_sample(element):
            element.text = " "


def is_stray_data(text: str) -> bool:
    """Is this data in a place where a page has text?"""
    return len(text) >= MIN_STRAY_CHARS and looks_like_data(text)


def _is_sample(element: etree._Element) -> bool:
    return element.tag in _SAMPLES or next(element.iterancestors(*_SAMPLES), None) is not None
