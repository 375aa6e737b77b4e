"""Fold letters as search compares them, without case and diacritics; tell which scripts write words without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # CJK
)
"""Scripts that write words without spaces, or glue endings to them (Korean); the inside of a character class."""
PHRASE = re.compile('["“”„«»]([^"“”„«»]+)["“”„«»]')
"""Quoted words of a question."""

_MOST_CACHED_LETTERS = 20_000


def fold_letters(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without case and diacritics, and for each of its letters where it came from."""
    if text.isascii():
        return text.lower(), range(len(text))
    folded = text.translate(_folded_letters)
    if _folded_letters.longer_or_gone.isdisjoint(text):
        return folded, range(len(text))
    return folded, [at for at, letter in enumerate(text) for _ in _folded_letters[ord(letter)]]


def end_with_accents(text: str, end: int) -> int:
    """Move an end behind the accents that stand on their own: they go with their letter."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return end


class _FoldedLetters(dict[int, str]):
    """A cache of letters without case and diacritics. Hangul stays whole, since NFKD takes it apart."""

    def __init__(self) -> None:
        super().__init__()
        self.longer_or_gone: set[str] = set()
        """Letters that do not become one letter: ß, ligatures, accents that stand on their own."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        parts = letter if "\uac00" <= letter <= "\ud7af" else unicodedata.normalize("NFKD", letter.casefold())
        plain = "".join(part for part in parts if not unicodedata.combining(part))
        if letter.isalnum() and plain and not plain.isalnum():
            plain = letter  # ¼ would become two words, one slash between
        if len(plain) != 1:
            self.longer_or_gone.add(letter)
        if len(self) >= _MOST_CACHED_LETTERS:
            self.clear()
        self[code] = plain
        return plain


_folded_letters = _FoldedLetters()
