"""Fuse what words found with what vectors found: both scores divided by the best of their side, then added by weight.

Takes lists that are sorted best first, and does not look at what the keys stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

LEAST_SHARE = 0.01
"""Meaning counts this little, and not nothing, where no word was found in anything that has a vector."""


class FusedHit(NamedTuple, Generic[K]):
    """A key with its score, and what each side gave: 1 is the best of that side, 0 not found there."""

    key: K
    score: float
    lexical: float
    semantic: float


def weighted(
    lexical: Sequence[tuple[K, float]],
    semantic: Sequence[tuple[K, float]],
    lexical_weight: float = 0.5,
    is_words_only: Callable[[K], bool] | None = None,
) -> list[FusedHit[K]]:
    """Return both sides by score / best score, best first; a weight of 1.0 is words alone, 0.0 vectors alone.

    What is words only has no other side: its words count in full, whatever the weight.
    """
    by_words, by_vector, weight = _normalised(lexical), _normalised(semantic), _clamped(lexical_weight)
    words_only = {key for key in by_words if is_words_only(key)} if is_words_only else set()
    words = by_words if weight > 0 else [key for key in by_words if key in words_only]
    meaning = [key for key in by_vector if not (is_words_only and is_words_only(key))] if weight < 1 else ()
    fused = [
        FusedHit(key, by_words[key], by_words[key], 0.0)
        if key in words_only
        else _fused(key, by_words.get(key, 0.0), by_vector.get(key, 0.0), weight)
        for key in dict.fromkeys([*words, *meaning])
    ]
    # Of equals first what meaning confirms; then in the order of words, then vectors.
    return sorted(fused, key=lambda hit: (-hit.score, -hit.semantic))


def comparable_weight(lexical: Sequence[tuple[K, float]], weight: float, is_pending: Callable[[K], bool]) -> float:
    """Return the weight of words while some of what they found is pending: it has no vector yet.

    The nearest vector counts as 1 however far it is, because it is compared with the others. So meaning counts by the
    share of what words found that has a vector: with none of it the nearest may be nonsense.
    """
    total = sum(score for _, score in lexical)
    pending = sum(score for key, score in lexical if is_pending(key))
    share = max(LEAST_SHARE, 1 - pending / total) if total > 0 else 1.0
    clamped = _clamped(weight)
    return clamped / (clamped + (1 - clamped) * share)


def _clamped(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _normalised(scores: Sequence[tuple[K, float]]) -> dict[K, float]:
    best = max((score for _, score in scores), default=0.0)
    return {key: max(0.0, score / best) for key, score in scores} if best > 0 else {}


def _fused(key: K, lexical: float, semantic: float, weight: float) -> FusedHit[K]:
    return FusedHit(key, round(weight * lexical + (1 - weight) * semantic, 12), lexical, semantic)
