"""Recognise data that stands where a page should have text: JSON between paragraphs, decoded bytes of anything else.

A piece of text is data if it is written like data; samples of code are left alone where the page has a text of its own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lxml import etree

MIN_STRAY_CHARS = 200
"""Shorter pieces of a page are left alone."""
MIN_PIECE_CHARS = 40
CHARS_PER_KEY = 60
"""Data has at least one key in so many characters."""
_MIN_KEYS = 3
_MIN_NOISE_CHARS = 2_000
_KEY = re.compile(r"""["'][\w$@.:/ -]{1,60}["']\s*:""")
_FIRST_UNSPACED = "\u0e00"
"""From Thai on there are scripts without spaces."""
_CODE_TAGS = ("pre", "code", "samp", "script", "style")


def looks_like_data(text: str) -> bool:
    """Return whether this piece of text is written like data: keys and values, and next to nothing else."""
    if len(text) < MIN_PIECE_CHARS or not ('"' in text or "'" in text):
        return False
    least = max(_MIN_KEYS, len(text) / CHARS_PER_KEY)
    # Every key has a colon; most prose has too few of them, and counting is many times quicker than the pattern.
    return text.count(":") >= least and sum(1 for _ in _KEY.finditer(text)) >= least


def is_only_data(text: str, min_chars: int) -> bool:
    """Return whether it holds data, and less than `min_chars` of other text."""
    if len(text) < MIN_STRAY_CHARS:
        return False
    pieces, prose = text.split("\n\n"), 0
    for piece in pieces:
        if not looks_like_data(piece):
            prose += len(piece)
            if prose >= min_chars:  # as nearly always, in the first paragraph
                return False
    return prose < len(text) - 2 * len(pieces)


def is_noise(text: str) -> bool:
    """Return whether this is decoded, and still no text: letters of alphabets that have spaces, but no spaces."""
    if len(text) < _MIN_NOISE_CHARS:
        return False
    least = -(-len(text) // 100)
    if len(text.split(maxsplit=least)) >= least:  # splits no further than it has to
        return False
    foreign = len(text) - len(text.encode("ascii", "ignore")) - text.count("\ufffd")
    if foreign * 2 <= len(text):
        return False
    return sum(char >= _FIRST_UNSPACED and char.isalpha() for char in text) * 10 < len(text)


def remove_stray_data(root: etree._Element) -> None:
    """Blank the data in a page's text. Changes `root`."""
    # The long texts are found in C, a fifth of the time of looking at every element.
    for text in _long_texts()(root):
        if not looks_like_data(text):
            continue
        element = text.getparent()
        if text.is_tail:
            element.tail = " "
        elif element.tag not in _CODE_TAGS and next(element.iterancestors(*_CODE_TAGS), None) is None:
            element.text = " "


@lru_cache(maxsize=1)
def _long_texts() -> Any:
    from lxml import etree

    # Most long texts are scripts, which are never blanked.
    is_long, is_text = f"[string-length() >= {MIN_STRAY_CHARS}]", "[not(parent::script or parent::style)]"
    return etree.XPath(f"/descendant::text(){is_long}{is_text}")  # `//text()` would ask for every element's children


def is_stray_data(text: str) -> bool:
    """Return whether this is a long piece of data where a page has text."""
    return len(text) >= MIN_STRAY_CHARS and looks_like_data(text)
