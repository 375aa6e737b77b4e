"""Tell whether a word is English, by the vocabulary that the local model's tokenizer was trained with.

It is there anyway: 22,500 words, the commonest of an encyclopaedia and of books. Read at first use, in 6 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.search.io.local_embedder import wordpiece

LEAST_LETTERS = 2
"""Of a word: the vocabulary also has each letter."""


def is_english(word: str) -> bool:
    """Return whether the vocabulary has a word as it is, or without the `s` at its end; rare words it has in pieces."""
    small, is_piece = word.lower(), wordpiece().is_piece
    return len(small) >= LEAST_LETTERS and (is_piece(small) or is_piece(small.removesuffix("s")))


def strange_share(words: Sequence[str], known: Sequence[bool]) -> float:
    """Return the share of the words that neither texts have, which `known` tells of each, nor English has."""
    strange = [not is_known and not is_english(word) for word, is_known in zip(words, known, strict=True)]
    return sum(strange) / max(1, len(strange))
