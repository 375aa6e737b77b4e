"""Join what words found with what vectors found.

Two ways: `weighted` adds the scores of both sides, each divided by its best; `reciprocal` adds 1 / (60 + rank).
Both take lists that are sorted best first, and neither looks at what the keys stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

RANK_OFFSET = 60
"""Cormack, Clarke and Büttcher 2009: how much the first ranks are pulled together."""
LEAST_SHARE = 0.01
"""Meaning counts this little, and not nothing, where no word was found in anything that has a vector."""


class Fused(NamedTuple, Generic[K]):
    """Something that was found, its score, and what each side gave: 1 is the best of that side, 0 not found there."""

    key: K
    score: float
    lexical: float
    semantic: float


def weighted(
    lexical: Sequence[tuple[K, float]],
    semantic: Sequence[tuple[K, float]],
    lexical_weight: float = 0.5,
    is_by_words: Callable[[K], bool] | None = None,
) -> list[Fused[K]]:
    """Both sides by score / best score, best first; a weight of 1.0 is words alone, 0.0 vectors alone.

    What `is_by_words` says yes to has no other side: its words count in full, whatever the weight.
    """
    return _joined(_by_best(lexical), _by_best(semantic), _clamped(lexical_weight), is_by_words or _never)


def comparable_weight(lexical: Sequence[tuple[K, float]], weight: float, is_pending: Callable[[K], bool]) -> float:
    """The weight of words while some of what they found is pending: it has no vector yet.

    The nearest vector counts as 1 however far it is, because it is compared with the others. So meaning counts by the
    share of what words found that has a vector: with none of it the nearest may be nonsense.
    """
    found = sum(score for _, score in lexical)
    pending = sum(score for key, score in lexical if is_pending(key))
    share = max(LEAST_SHARE, 1 - pending / found) if found > 0 else 1.0
    clamped = _clamped(weight)
    return clamped / (clamped + (1 - clamped) * share)


def reciprocal(
    lexical: Sequence[tuple[K, float]], semantic: Sequence[tuple[K, float]], lexical_weight: float = 0.5
) -> list[Fused[K]]:
    """Both sides by rank alone, best first; the first of a side counts as 1."""
    return _joined(_by_rank(lexical), _by_rank(semantic), _clamped(lexical_weight), _never)


def _never(key: object) -> bool:
    return False


def _clamped(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _by_best(found: Sequence[tuple[K, float]]) -> dict[K, float]:
    best = max((score for _, score in found), default=0.0)
    return {key: max(0.0, score / best) for key, score in found} if best > 0 else {}


def _by_rank(found: Iterable[tuple[K, float]]) -> dict[K, float]:
    return {key: (RANK_OFFSET + 1) / (RANK_OFFSET + rank) for rank, (key, _) in enumerate(found, start=1)}


def _joined(
    lexical: dict[K, float], semantic: dict[K, float], weight: float, is_by_words: Callable[[K], bool]
) -> list[Fused[K]]:
    by_words = {key for key in lexical if is_by_words(key)}
    words = lexical if weight > 0 else [key for key in lexical if key in by_words]
    meaning = [key for key in semantic if not is_by_words(key)] if weight < 1 else ()
    fused = [
        Fused(key, lexical[key], lexical[key], 0.0)
        if key in by_words
        else _fused(key, lexical.get(key, 0.0), semantic.get(key, 0.0), weight)
        for key in dict.fromkeys([*words, *meaning])
    ]
    # Of equals first what meaning confirms; then in the order of words, then vectors.
    return sorted(fused, key=lambda found: (-found.score, -found.semantic))


def _fused(key: K, lexical: float, semantic: float, weight: float) -> Fused[K]:
    return Fused(key, round(weight * lexical + (1 - weight) * semantic, 12), lexical, semantic)
