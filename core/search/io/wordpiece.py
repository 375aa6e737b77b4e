"""Turn text into the numbers of a vocabulary, by the WordPiece that BERT's uncased models were trained with.

The library for this brings a hub client and ten more packages along, and takes three to five times as long, because it
remembers no words; chunks are counted by the thousand. A test compares the two, number by number.
What a page writes is text: `[SEP]` in it is three pieces here, never a mark to the model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

LONGEST_WORD = 100
"""Longer ones are unknown, as in training."""
_REMEMBERED_WORDS = 50_000
_UNKNOWN = "[UNK]"
_BLANKS = "\t\n\r"
# Without `Cn`: a letter that this Python does not know yet is still a letter, and the next one counts the same.
_CONTROLS = ("Cc", "Cf", "Co", "Cs")
# The ideographs that stand alone, as in BERT's own tokenizer.
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)),
    *((0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class WordPiece:
    """Counts and numbers the pieces of texts; whole texts, without marks for begin and end."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = (self._numbers[_UNKNOWN],)
        self._pieces = lru_cache(_REMEMBERED_WORDS)(self._split)

    def number(self, piece: str) -> int:
        """Return the number of a piece in the vocabulary."""
        return self._numbers[piece]

    def is_piece(self, word: str) -> bool:
        """Return whether the vocabulary has a word in one piece."""
        return word in self._numbers

    def count(self, text: str) -> int:
        """Return how many pieces a text has."""
        return sum(map(len, map(self._known, _words(text))))

    def encode(self, text: str) -> list[int]:
        """Return the numbers of its pieces."""
        return [number for word in _words(text) for number in self._known(word)]

    def _known(self, word: str) -> tuple[int, ...]:
        return self._pieces(word) if len(word) <= LONGEST_WORD else self._unknown

    def _split(self, word: str) -> tuple[int, ...]:
        """Take the longest piece that fits, again and again; a word with one unknown piece is unknown."""
        numbers: list[int] = []
        begin = 0
        while begin < len(word):
            mark = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if mark + word[begin:end] in self._numbers), begin)
            if end == begin:
                return self._unknown
            numbers.append(self._numbers[mark + word[begin:end]])
            begin = end
        return tuple(numbers)


def _words(text: str) -> list[str]:
    return text.translate(_FORMS).split()


class _Forms(dict[int, str]):
    """Maps each letter to its form, worked out when it first occurs."""

    def __missing__(self, code: int) -> str:
        form = self[code] = _form(chr(code))
        return form


_FORMS = _Forms()


def _form(letter: str) -> str:
    """Drop controls and accents, make capitals small; punctuation and ideographs stand alone."""
    if letter in _BLANKS:
        return " "
    if letter == "\ufffd" or unicodedata.category(letter) in _CONTROLS:
        return ""
    if letter.isspace():
        return " "
    form = ""
    for part in unicodedata.normalize("NFD", letter):
        # Parts may be punctuation although the whole is none.
        if _is_punctuation(part):
            form += f" {part} "
        elif unicodedata.category(part) != "Mn":
            form += part.lower()
    is_ideograph = any(first <= ord(letter) <= last for first, last in _IDEOGRAPHS)
    return f" {form} " if is_ideograph else form


def _is_punctuation(letter: str) -> bool:
    """Return whether this is punctuation: ASCII's symbols (`$`, `+`, `~`) are, those of Unicode are not."""
    is_ascii_symbol = letter.isascii() and letter.isprintable() and not letter.isalnum() and letter != " "
    return is_ascii_symbol or unicodedata.category(letter).startswith("P")
