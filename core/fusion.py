"""Join what words found with what vectors found.

Two ways: `weighted` adds the scores of both sides, each divided by its best; `reciprocal` adds 1 / (60 + rank).
Both take lists that are sorted best first, and neither looks at what the keys stand for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

RANK_OFFSET = 60
"""Cormack, Clarke and Büttcher 2009: how much the first ranks are pulled together."""


@dataclass(frozen=True, slots=True)
class Fused(Generic[K]):
    """Something that was found, its score, and what each side gave: 1 is the best of that side, 0 not found there."""

    key: K
    score: float
    lexical: float
    semantic: float


def weighted(
    lexical: Sequence[tuple[K, float]], semantic: Sequence[tuple[K, float]], lexical_weight: float = 0.5
) -> list[Fused[K]]:
    """Both sides by score / best score, best first; a weight of 1.0 is words alone, 0.0 vectors alone."""
    return _joined(_by_best(lexical), _by_best(semantic), _clamped(lexical_weight))


def reciprocal(
    lexical: Sequence[tuple[K, float]], semantic: Sequence[tuple[K, float]], lexical_weight: float = 0.5
) -> list[Fused[K]]:
    """Both sides by rank alone, best first; the first of a side counts as 1."""
    return _joined(_by_rank(lexical), _by_rank(semantic), _clamped(lexical_weight))


def _clamped(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _by_best(found: Sequence[tuple[K, float]]) -> dict[K, float]:
    best = max((score for _, score in found), default=0.0)
    return {key: max(0.0, score / best) for key, score in found} if best > 0 else {}


def _by_rank(found: Iterable[tuple[K, float]]) -> dict[K, float]:
    return {key: (RANK_OFFSET + 1) / (RANK_OFFSET + rank) for rank, (key, _) in enumerate(found, start=1)}


def _joined(lexical: dict[K, float], semantic: dict[K, float], weight: float) -> list[Fused[K]]:
    keys = dict.fromkeys([*(lexical if weight > 0 else ()), *(semantic if weight < 1 else ())])
    fused = [_fused(key, lexical.get(key, 0.0), semantic.get(key, 0.0), weight) for key in keys]
    return sorted(fused, key=lambda found: -found.score)  # stable: equals stay in the order of words, then vectors


def _fused(key: K, lexical: float, semantic: float, weight: float) -> Fused[K]:
    return Fused(key, weight * lexical + (1 - weight) * semantic, lexical, semantic)
