"""Fuse what words found with what vectors found: each side between 0 and 1, then added by weight.

Both sides count by (score / best) squared; of a short question meaning by a higher power, of a longer one a part of
either only as far as the other agrees. Words count as much as the best of them has of the question, and the better the
model beside them is, the more it must have.
Takes lists that are sorted best first, and does not look at what the keys stand for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from core.value_class import value_class

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)

LEXICAL_WEIGHT = 0.55
"""Of the score: the weight of words beside the main model."""
FUSION_DEPTH = 200
"""How many chunks each side contributes to the fusion. Further down there are words alone."""
PAGE_SHARE = 0.7
"""Of a word score the part of the whole page; the rest is the chunk's own. Mean reciprocal rank of words alone on
English, German and Spanish documentation: 0 .549, .5 .572, .7 .578, 1 .579; with 1 all passages of a page are alike."""
PAGE_MEANING_SHARE = 0.4
"""Of a similarity the part of the whole page: the mean of its chunks. Mean reciprocal rank of meaning alone on the
Debian Reference in English, German, French and Japanese: 0 .763 .520 .519 .529, .3 .776 .560 .540 .561, .4 .777 .565
.550 .565, .7 .754 .547 .533 .553; paraphrased questions 0 .535, .4 .568."""
SHARPNESS = 2
"""Power of a score: a page with half of the words, or half as similar, is less than half as good."""
SHORT_QUESTION, SHORT_SHARPNESS = 8, 2.5
"""A question of fewer words asks for one page, and meaning counts by this further power (2 x 2.5 = 5). Words and
meaning on two sets of paraphrased questions: without .514 and .443, with it .539 and .434; on thirteen other sets
-.005 to +.020. A longer one is about what many pages say: Cranfield would lose .007 of nDCG, and loses .003."""
AGREEMENT = 0.6
"""Of both sides of a longer question the part that counts by the other side too: by the product of both. Words and
meaning on 15 sets: .002 more on average, and .001 less at worst; for 111 questions to the entries of a dictionary .009,
for sentences with synonyms for their words .008 and .015. With short ones a set of paraphrases would lose .004."""
FARTHEST = 2 / 3
"""So similar, compared with the best, may the last that is fused count at most: models differ in how narrow a range
their similarities have."""
SHARE_OF_QUESTION, RARE_WORDS = 0.8, 1.0
"""Words are trusted in full where the best has this share of the question but for half a word (no text is about nothing
else, and one word is all or nothing), or as much as so many very rare words. With 1.5 of them questions of whole
sentences (Cranfield) lose .006."""
CAUTION = 6
"""How quickly trust in words falls with what the best lacks: by this power, times the weight of meaning. With the
weight, picked on halves of Cranfield, the Debian Reference and lists of questions with answers in ten languages."""
FAINT = 0.15
"""What has none of the words is left out if its meaning counts less: it is less than .39 times as near as the nearest.
Of all judged answers in the first ten of ten sets the faintest has .157."""
NEAR_AS_FAR_AS_WORDS_LACK = 1.4
"""Nothing here is about a question if even the nearest is less similar than the model's `clear_similarity` times
(1 - 1.4 times the confidence in words). Of 70 questions about everything else 46 to 70 are below it, on six English
sets; of 1,139 judged ones to these ten, which keep their answer among the five pages; with 1.3 one would lose it."""
MOST_GUESSES, MOST_WILD_GUESSES = 5, 3
"""Pages that are shown where nothing is near, and where besides no text has any of the words."""
WEAKER_MODEL = 4.0
"""So many times as much do words count beside the model of other languages as beside that of English."""
LEAST_SHARE = 0.01
"""Meaning counts this little, and not nothing, where no word was found in anything that has a vector."""


@value_class
class WordMatches(Generic[K]):
    """What words found: keys with their scores, best first."""

    first: Sequence[tuple[K, float]] = ()
    """By chunk and page: what is fused with meaning."""
    below: Sequence[tuple[K, float]] = ()
    """Further chunks, for those who read on."""
    phrases: frozenset[K] = frozenset()
    """Those with all quoted phrases."""
    confidence: float = 0.0
    """How much of the question the best has: 0 to 1."""
    has_more: bool = False
    question_words: int = 0
    """How many words are looked for."""
    is_unknown: bool = False
    """No text has any of the words."""
    lacks_phrases: bool = False
    """The question has quoted phrases, and no text has them all."""


class QuestionWords(NamedTuple):
    """What an index says of the words of a question."""

    number: int
    has_phrases: bool
    is_known: bool
    """Some text has one of them."""
    full: float
    """Score of a text with all of them."""
    rarest: float
    """Score of a text with one very rare word."""


class Kinds(NamedTuple, Generic[K]):
    """How a key is compared."""

    is_pending: Callable[[K], bool]
    """It has no vector yet."""
    is_words_only: Callable[[K], bool]
    """For this or another reason it cannot be compared by meaning."""
    is_other: Callable[[K], bool]
    """It is compared by the model of other languages."""


class FusedHit(NamedTuple, Generic[K]):
    """A key with its score, and what each side gave: 1 is the best of that side, 0 not found there."""

    key: K
    score: float
    lexical: float
    semantic: float


def weight_of_words(lexical_weight: float, has_words: bool, has_meaning: bool) -> float:
    """Return the weight of words: all where there is no meaning to compare, none where there are no words."""
    return _clamped(lexical_weight) if has_words and has_meaning else float(not has_meaning)


def word_depth(limit: int) -> int:
    """Return how many chunks words look for: one more than is fused tells whether there are more."""
    return limit if limit > 2 * FUSION_DEPTH else FUSION_DEPTH + 1


def vector_depth(weight: float, limit: int) -> int:
    """Return how many chunks vectors look for; whatever the limit, the same are fused."""
    return 0 if weight >= 1 else FUSION_DEPTH if weight > 0 else limit


def word_matches(
    by_chunk: Sequence[tuple[K, float]],
    by_page: Sequence[tuple[K, float]],
    by_phrase: Sequence[tuple[K, float]],
    page_of: Callable[[K], Hashable],
    question: QuestionWords,
    most: int,
) -> WordMatches[K]:
    """Return what words found, of `most` chunks that were looked for.

    A page that was found by all its words together, and none of whose chunks was, is there with its first chunk.
    """
    first = by_chunk_and_page(by_chunk[:FUSION_DEPTH], by_page, page_of)
    listed = {key for key, _ in first}
    first += [(key, 0.0) for key, _ in by_phrase if key not in listed]
    best = first[0][1] if first else 0.0
    return WordMatches(
        first,
        by_chunk[FUSION_DEPTH:],
        frozenset(key for key, _ in by_phrase),
        word_confidence(best, question.full, question.rarest, question.number),
        len(by_chunk) >= most,
        question.number,
        not by_chunk and not question.is_known,
        question.has_phrases and not by_phrase,
    )


def by_chunk_and_page(
    by_chunk: Sequence[tuple[K, float]], by_page: Sequence[tuple[K, float]], page_of: Callable[[K], Hashable]
) -> list[tuple[K, float]]:
    """Return chunks by their score and their page's, best first.

    `by_page` has one chunk of each page, which stands for it where words found none of its chunks.
    """
    page_scores = {page_of(key): score for key, score in by_page}
    own = 1 - PAGE_SHARE
    scores = {key: own * score + PAGE_SHARE * page_scores.get(page_of(key), 0.0) for key, score in by_chunk}
    seen = {page_of(key) for key, _ in by_chunk}
    scores |= {key: PAGE_SHARE * score for key, score in by_page if page_of(key) not in seen}
    return sorted(scores.items(), key=lambda pair: -pair[1])


def by_chunk_and_page_meaning(
    by_vector: Sequence[tuple[K, float]], page_means: Mapping[P, float], page_of: Callable[[K], P]
) -> list[tuple[K, float]]:
    """Return chunks by their similarity and the mean of their page's, nearest first."""
    own = 1 - PAGE_MEANING_SHARE
    scores = [(key, max(0.0, own * one + PAGE_MEANING_SHARE * page_means[page_of(key)])) for key, one in by_vector]
    return sorted(scores, key=lambda pair: -pair[1])


def fuse(
    words: WordMatches[K],
    by_vector: Sequence[tuple[K, float]],
    lexical_weight: float,
    kinds: Kinds[K],
) -> list[FusedHit[K]]:
    """Return all that words and vectors found, best first: what was fused, then what words found further down."""
    weight = comparable_weight(words.first, lexical_weight, kinds.is_pending)
    is_short, has_both = words.question_words < SHORT_QUESTION, bool(by_vector) and 0 < weight < 1
    sharpness, agreement = SHORT_SHARPNESS if is_short else 1.0, AGREEMENT if has_both and not is_short else 0.0
    fused = weighted(words.first, by_vector, weight, kinds.is_words_only, words.confidence, sharpness, agreement)
    fused = phrases_first(without_faint(fused, sharpness, agreement), words.phrases)
    return [*fused, *_below(words, fused)]


def most_guesses(
    words: WordMatches[K],
    by_vector: Sequence[tuple[K, float]],
    kinds: Kinds[K],
    clear: tuple[float, float],
    is_sentence: bool,
) -> int:
    """Return how many pages are shown if nothing is near the question, by its words and by meaning; 0: something is.

    `clear`: the `clear_similarity` of both models.
    """
    if not by_vector or not words.question_words or words.phrases:
        return 0
    lacking = 1 - NEAR_AS_FAR_AS_WORDS_LACK * words.confidence
    # Of a model that is not known no similarity is clear, so that only what looks like no words is a guess.
    unclear = math.inf if words.is_unknown and not is_sentence else 0.0
    limits = [lacking * one if one else unclear for one in clear]
    is_far = all(score < limits[kinds.is_other(key)] for key, score in by_vector)
    if not is_far or any(kinds.is_words_only(key) for key, _ in words.first):
        return 0
    return MOST_WILD_GUESSES if words.is_unknown else MOST_GUESSES


def weighted(
    lexical: Sequence[tuple[K, float]],
    semantic: Sequence[tuple[K, float]],
    lexical_weight: float = 0.5,
    is_words_only: Callable[[K], bool] | None = None,
    confidence: float = 1.0,
    sharpness: float = 1.0,
    agreement: float = 0.0,
) -> list[FusedHit[K]]:
    """Return both sides, best first; a weight of 1.0 is words alone, 0.0 vectors alone.

    What is words only has no other side: its words count in full, whatever the weight. `confidence`: how far words
    can be trusted, 0 to 1. `sharpness`: by this power meaning counts. `agreement`: the part of either side that counts
    by the other too.
    """
    by_words, by_vector, weight = _by_best(lexical), _by_nearest(semantic), _clamped(lexical_weight)
    trust = _clamped(confidence) ** (CAUTION * (1 - weight)) if by_vector else 1.0
    words_only = {key for key in by_words if is_words_only(key)} if is_words_only else set()
    words = by_words if weight > 0 else [key for key in by_words if key in words_only]
    meaning = [key for key in by_vector if not (is_words_only and is_words_only(key))] if weight < 1 else ()
    alone, of_words, of_meaning = 1 - agreement, weight * trust, 1 - weight
    fused: list[FusedHit[K]] = []
    # Some 500 keys a question: a call or a comparison of tuples for each would be a tenth of a millisecond.
    for key in dict.fromkeys([*words, *meaning]):
        by_word = by_words.get(key, 0.0)
        if key in words_only:  # its words stand for its meaning too
            score = round((of_words + of_meaning) * by_word, 12)
            fused.append(FusedHit(key, score, score, 0.0))
            continue
        meant = by_vector.get(key, 0.0) ** sharpness
        both = agreement * trust * math.sqrt(by_word * meant) if agreement else 0.0
        worded, meant = alone * trust * by_word + both, alone * meant + both
        fused.append(FusedHit(key, round(weight * worded + of_meaning * meant, 12), worded, meant))
    # Of equals first what meaning confirms; then in the order of words, then vectors.
    fused.sort(key=attrgetter("semantic"), reverse=True)
    fused.sort(key=attrgetter("score"), reverse=True)
    return fused


def without_faint(hits: Sequence[FusedHit[K]], sharpness: float = 1.0, agreement: float = 0.0) -> list[FusedHit[K]]:
    """Return the hits, best first, without those that only mean something remotely like the question.

    `sharpness`: the power by which meaning was counted; `agreement`: the part of it that words had to confirm.
    """
    if not any(hit.lexical for hit in hits):
        return list(hits)
    least = (1 - agreement) * FAINT**sharpness
    return [hit for hit in hits if hit.lexical > 0 or hit.semantic >= least]


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


def word_confidence(best: float, most: float, rarest: float, words: int) -> float:
    """Return how far words alone can be trusted, between 0 and 1, for a question of so many words.

    `best`: score of the best; `most`: of a text with all words of the question; `rarest`: with one very rare word.
    """
    if words == 1:  # a long text that has it once scores low, and is what was asked for all the same
        return float(best > 0)
    needed = min(SHARE_OF_QUESTION * most * (words - 0.5) / max(words, 1), RARE_WORDS * rarest)
    return min(1.0, best / needed) if best > 0 and needed > 0 else 0.0


def beside_weaker_model(weight: float) -> float:
    """Return the weight of words beside the model of other languages."""
    return WEAKER_MODEL * weight / (WEAKER_MODEL * weight + 1 - weight)


def _below(words: WordMatches[K], fused: Sequence[FusedHit[K]]) -> list[FusedHit[K]]:
    """Return what words alone found further down, to stand after all that was fused: the first places do not depend on
    the limit."""
    known, floor = {hit.key for hit in fused}, fused[-1].score if fused else 1.0
    best = words.first[0][1] if words.first else 1.0
    return [
        FusedHit(key, min(floor, score / best), min(1.0, score / best), 0.0)
        for key, score in words.below
        if key not in known
    ]


def _clamped(weight: float) -> float:
    return min(1.0, max(0.0, weight))


def _by_best(scores: Sequence[tuple[K, float]]) -> dict[K, float]:
    best = max((score for _, score in scores), default=0.0)
    return {key: max(0.0, score / best) ** SHARPNESS for key, score in scores} if best > 0 else {}


def _by_nearest(scores: Sequence[tuple[K, float]]) -> dict[K, float]:
    if not scores:
        return {}
    nearest, farthest = scores[0][1], scores[-1][1]
    floor = max(0.0, nearest - (nearest - farthest) / (1 - FARTHEST))
    width = nearest - floor
    return {key: ((score - floor) / width if width > 0 else 1.0) ** SHARPNESS for key, score in scores}
