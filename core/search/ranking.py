"""Fuse what words found with what vectors found: each side between 0 and 1, then added by weight.

Words count by score / best score, squared, and as much as the best of them has of the question. Meaning counts from the
farthest to the nearest of what was found: models differ in how narrow a range their similarities have.
Takes lists that are sorted best first, and does not look at what the keys stand for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

SHARPNESS = 2
"""Power of a word score: a page with half of the words is less than half as good."""
SHARE_OF_QUESTION, RARE_WORDS = 0.6, 1.2
"""Words count in full where the best has this share of the question, or as much as so many very rare words, of a
question that is worth one such word (by the fourth root of its worth where it is longer)."""
FAINT = 0.15
"""What has none of the words is left out below this share of the best score. Of all judged answers in the first ten of
seven sets (Cranfield, and documentation in four languages) the faintest has .164."""
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
    confidence: float = 1.0,
) -> list[FusedHit[K]]:
    """Return both sides, best first; a weight of 1.0 is words alone, 0.0 vectors alone.

    What is words only has no other side: its words count in full, whatever the weight. `confidence`: how much words
    count beside meaning.
    """
    by_words, by_vector, weight = _by_best(lexical), _by_range(semantic), _clamped(lexical_weight)
    trust = 1.0 if weight == 1.0 or not by_vector else _clamped(confidence)
    words_only = {key for key in by_words if is_words_only(key)} if is_words_only else set()
    words = by_words if weight > 0 else [key for key in by_words if key in words_only]
    meaning = [key for key in by_vector if not (is_words_only and is_words_only(key))] if weight < 1 else ()
    fused = []
    for key in dict.fromkeys([*words, *meaning]):
        by_word = by_words.get(key, 0.0)
        if key in words_only:  # its words stand for its meaning too
            score = round((weight * trust + 1 - weight) * by_word, 12)
            fused.append(FusedHit(key, score, score, 0.0))
        else:
            fused.append(_fused(key, trust * by_word, by_vector.get(key, 0.0), weight))
    # Of equals first what meaning confirms; then in the order of words, then vectors.
    return sorted(fused, key=lambda hit: (-hit.score, -hit.semantic))


def without_faint(hits: Sequence[FusedHit[K]]) -> list[FusedHit[K]]:
    """Return the hits, best first, without those that only mean something remotely like the question."""
    least = FAINT * hits[0].score if hits and any(hit.lexical for hit in hits) else 0.0
    return [hit for hit in hits if hit.lexical > 0 or hit.score >= least]


def phrases_first(hits: Sequence[FusedHit[K]], has_phrases: Collection[K]) -> list[FusedHit[K]]:
    """Return what has the quoted phrases before all others."""
    if not has_phrases:
        return list(hits)
    raised = [hit._replace(score=hit.score + 1.0) if hit.key in has_phrases else hit for hit in hits]
    return sorted(raised, key=lambda hit: -hit.score)


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


def word_confidence(best: float, most: float, rarest: float) -> float:
    """Return how far words alone can be trusted, between 0 and 1.

    `best`: score of the best; `most`: of a text with all words of the question; `rarest`: with one very rare word.
    """
    if best <= 0 or most <= 0 or rarest <= 0:
        return 0.0
    asked = most / rarest
    needed = min(SHARE_OF_QUESTION * asked, RARE_WORDS * math.pow(asked, 0.25))
    return min(1.0, best / rarest / needed)


def _clamped(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _fused(key: K, lexical: float, semantic: float, weight: float) -> FusedHit[K]:
    return FusedHit(key, round(weight * lexical + (1 - weight) * semantic, 12), lexical, semantic)


def _by_best(scores: Sequence[tuple[K, float]]) -> dict[K, float]:
    best = max((score for _, score in scores), default=0.0)
    return {key: max(0.0, score / best) ** SHARPNESS for key, score in scores} if best > 0 else {}


def _by_range(scores: Sequence[tuple[K, float]]) -> dict[K, float]:
    if not scores:
        return {}
    values = [score for _, score in scores]
    least, width = min(values), max(values) - min(values)
    return {key: (score - least) / width if width > 0 else 1.0 for key, score in scores}
