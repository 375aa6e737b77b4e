"""Tell whether a word is English, by a list of 82,834 words and by the vocabulary of the local model's tokenizer.

The list comes with a spelling corrector, of which nothing else is used. The vocabulary, 22,500 words, has the commonest
of an encyclopaedia and of books, and so names that the list lacks. Both are read at first use, in 22 and 6 ms; the
list takes 9 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from core.search.io.local_embedder import wordpiece

LEAST_LETTERS = 2
"""Of a word: the vocabulary also has each letter."""
LEAST_STEM_LETTERS = 5
"""Of what is left of a word without its ending."""

_PACKAGE, _LIST = "symspellpy", "frequency_dictionary_en_82_765.txt"
_ENDINGS, _ENDINGS_AFTER_E, _ENDINGS_FOR_E = (
    ("s", "ly", "less", "ness"),
    ("d", "r", "rs"),
    ("es", "ed", "ing", "er", "ers", "able"),
)
_BEGINNINGS = ("un", "re", "non")


def is_english(word: str) -> bool:
    """Return whether it is a known word as it is, or without a common ending or beginning."""
    if len(word) < LEAST_LETTERS:
        return False
    plain = word.lower()
    # Both have rare short words too, such as `flt`, of which `fltter` is not made.
    forms = [plain, *(form for form in _forms(plain) if len(form) >= LEAST_STEM_LETTERS)]
    # The list is read when the vocabulary does not tell, as of most words it does.
    return any(map(wordpiece().is_piece, forms)) or not _listed().isdisjoint(forms)


@lru_cache(1)
def _listed() -> frozenset[str]:
    """Return the words of the list: each stands at the beginning of a line, before its frequency."""
    package = find_spec(_PACKAGE)  # finds the file; importing the package would load the corrector too
    if package is None or not package.submodule_search_locations:
        return frozenset()
    text = (Path(package.submodule_search_locations[0]) / _LIST).read_text(encoding="utf-8-sig")
    return frozenset(line.partition(" ")[0] for line in text.splitlines())


def _forms(word: str) -> Iterator[str]:
    """Yield what a word may be made of: `format` of `formatter`, `trusted` of `untrusted`; of `problemd` nothing."""
    for ending in (*_ENDINGS, *_ENDINGS_AFTER_E, *_ENDINGS_FOR_E):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < LEAST_STEM_LETTERS - 1:
            continue
        if ending in _ENDINGS_FOR_E:
            if stem[-1] != "e" or stem[-2] == "e":
                yield from (stem + "e", stem[:-1] if stem[-1] == stem[-2] else stem)
        elif stem[-1] == "e" or (ending in _ENDINGS and stem[-1] + ending != "ss"):
            yield stem
        if stem[-1] == "i" and len(ending) > 1:
            yield stem[:-1] + "y"
    for beginning in _BEGINNINGS:
        if word.startswith(beginning):
            yield word.removeprefix(beginning)


def commonest(words: Iterable[str], most: int) -> str:
    """Return the commonest of those that are English, in small letters; empty if none is of the `most` commonest."""
    pieces = wordpiece()
    # The vocabulary is in the order of how often its words occurred.
    best = min(filter(pieces.is_piece, words), key=pieces.number, default="")
    return best if best and pieces.number(best) < most else ""
