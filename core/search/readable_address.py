"""Reduce a URL to its readable words: `blog.example.org/river-floods` of `https://blog.example.org/p/8f3a9c/river-floods`.

A model reads hashes and numbers letter by letter: they take the room of words, and mean nothing.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_WORD_BREAK = re.compile(r"[\W_]+")
_NAME = re.compile(r"[^\W\d_]{3,24}\d{0,4}")
"""Letters, perhaps with a number behind them: `rfc9110`, `windows11`."""
_CASE_CHANGE = re.compile(r"[a-z][A-Z]")
_HEXADECIMAL = re.compile(r"(?=.*\d)[0-9a-f]{6,}", re.IGNORECASE)
MOST_CASE_CHANGES = 3
"""`getElementById` is a name, `aBcDeFgHiJk` is none."""


def readable_address(url: str) -> str:
    """Return the host and those parts of the path that have words; empty if the path has parts and none of them has."""
    address = re.split(r"[?#]", url.partition("://")[2] or url, maxsplit=1)[0]
    parts = address.strip("/").split("/")
    host = [parts.pop(0)] if "://" in url else []
    readable = [part for part in parts if _has_words(unquote(part, errors="replace"))]
    return "/".join([*host, *readable]) if readable or not parts else ""


def _has_words(part: str) -> bool:
    stem = part.rpartition(".")[0] or part  # `12345.html` has no word
    return any(_is_word(word) for word in _WORD_BREAK.split(stem))


def _is_word(word: str) -> bool:
    if _HEXADECIMAL.fullmatch(word) or len(_CASE_CHANGE.findall(word)) > MOST_CASE_CHANGES:
        return False
    return _NAME.fullmatch(word) is not None or (not word.isascii() and any(map(str.isalpha, word)))
