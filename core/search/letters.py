"""Fold letters as search compares them, without case and diacritics; tell which scripts write words without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # CJK
)
"""Scripts that write words without spaces, or glue endings to them (Korean); the inside of a character class."""
PHRASE = re.compile('["“”„«»]([^"“”„«»]+)["“”„«»]')
"""Quoted words of a question."""

_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_MOST_CACHED_LETTERS = 20_000
_FEW_LETTERS = 20
"""So many different ones are replaced one after the other: for dashes, quotes and accents in 900 letters 9 instead of
25 µs by a look at each letter. Other alphabets have more."""


def fold_letters(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without case and diacritics, and for each of its letters where it came from."""
    if text.isascii():
        return text.lower(), range(len(text))
    others = set(_NON_ASCII.findall(text))
    plain_of = {letter: _folded_letters[ord(letter)] for letter in others}
    if len(others) > _FEW_LETTERS:
        folded = text.translate(_folded_letters)
    else:
        folded = text
        for letter, plain in plain_of.items():
            folded = folded.replace(letter, plain)
        folded = folded.lower()
    if all(len(plain) == 1 for plain in plain_of.values()):
        return folded, range(len(text))
    return folded, _origin(text, plain_of)


def _origin(text: str, plain_of: Mapping[str, str]) -> list[int]:
    """Return for each letter of the folded text its place in the text."""
    origin: list[int] = []
    end = 0
    for one in _NON_ASCII.finditer(text):
        at = one.start()
        origin += range(end, at)
        origin += [at] * len(plain_of[one[0]])
        end = at + 1
    return [*origin, *range(end, len(text))]


def end_with_accents(text: str, end: int) -> int:
    """Move an end behind the accents that stand on their own: they go with their letter."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return end


class _FoldedLetters(dict[int, str]):
    """A cache of letters without case and diacritics. Hangul stays whole, since NFKD takes it apart."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        parts = letter if "\uac00" <= letter <= "\ud7af" else unicodedata.normalize("NFKD", letter.casefold())
        plain = "".join(part for part in parts if not unicodedata.combining(part)).lower()  # ℂ has become C
        if letter.isalnum() and plain and not plain.isalnum():
            plain = letter  # ¼ would become two words, one slash between
        if len(self) >= _MOST_CACHED_LETTERS:
            self.clear()
        self[code] = plain
        return plain


_folded_letters = _FoldedLetters()
