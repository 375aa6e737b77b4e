"""Tell whether a word is English, by the vocabulary that the local model's tokenizer was trained with.

It is there anyway: 22,500 words, the commonest of an encyclopaedia and of books. Read at first use, in 6 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from core.search.io.local_embedder import wordpiece

LEAST_LETTERS = 2
"""Of a word: the vocabulary also has each letter."""
LEAST_STEM_LETTERS = 4
"""Of what is left of a word without its ending."""


_ENDINGS = ("s", "es", "d", "ed", "ing", "r", "er", "rs", "ers", "ly", "less", "ness", "able")
_BEGINNINGS = ("un", "re", "non")


def is_english(word: str) -> bool:
    """Return whether the vocabulary has a word as it is, or without a common ending or beginning."""
    is_piece = wordpiece().is_piece
    return len(word) >= LEAST_LETTERS and any(map(is_piece, _forms(word.lower())))


def _forms(word: str) -> Iterator[str]:
    """Yield a word and what it may be made of: `formatter` of `format`, `untrusted` of `trusted`."""
    yield word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(stem := word.removesuffix(ending)) >= LEAST_STEM_LETTERS:
            yield from (stem, stem + "e", stem[:-1] if stem[-1] == stem[-2] else stem)
    for beginning in _BEGINNINGS:
        if word.startswith(beginning) and len(stem := word.removeprefix(beginning)) >= LEAST_STEM_LETTERS:
            yield stem


def commonest(words: Iterable[str]) -> str:
    """Return the commonest of those that are English, in small letters; empty if none is."""
    pieces = wordpiece()
    # The vocabulary is in the order of how often its words occurred.
    return min(filter(pieces.is_piece, words), key=pieces.number, default="")


def strange_share(words: Sequence[str], known: Sequence[bool]) -> float:
    """Return the share of the words that neither texts have, which `known` tells of each, nor English has."""
    strange = [not is_known and not is_english(word) for word, is_known in zip(words, known, strict=True)]
    return sum(strange) / max(1, len(strange))
