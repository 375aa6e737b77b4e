"""Fusing what words found with what vectors found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cranfield import by_rank
from core.search import ranking

WORDS = [("a", 10.0), ("b", 5.0)]
MEANING = [("b", 0.8), ("c", 0.4)]
NOT_SPECIAL: ranking.Kinds[str] = ranking.Kinds(*[lambda key: False] * 3)
FOUND = st.dictionaries(st.integers(0, 20), st.floats(0.001, 1e6)).map(
    lambda scores: sorted(scores.items(), key=lambda pair: -pair[1])
)


def test_weighted_adds_what_each_side_gives() -> None:
    """Both sides count by (score / best)²; what both found comes first."""
    found = ranking.weighted(WORDS, MEANING, 0.5)

    assert [(hit.key, hit.score) for hit in found] == [("b", 0.625), ("a", 0.5), ("c", 0.125)]
    assert (found[0].lexical, found[0].semantic) == (0.25, 1.0)


def test_a_narrow_range_of_similarities_still_tells_near_from_far() -> None:
    """Similarities between .7 and .72 are spread: the last counts (2/3)² of the first, in the same order."""
    narrow = [("a", 0.72), ("b", 0.712), ("c", 0.70)]

    found = {hit.key: hit.score for hit in ranking.weighted([], narrow, 0.0)}

    assert found == pytest.approx({"a": 1.0, "b": (13 / 15) ** 2, "c": 4 / 9})


def test_what_is_equally_near_counts_alike() -> None:
    """One vector, and several with the same similarity, count in full."""
    assert [hit.score for hit in ranking.weighted([], [("a", 0.3)], 0.0)] == [1.0]
    assert [hit.score for hit in ranking.weighted([], [("a", 0.3), ("b", 0.3)], 0.0)] == [1.0, 1.0]


def test_words_count_less_the_less_of_the_question_the_best_has() -> None:
    """With half the confidence words count an eighth beside meaning, and in full where there is no meaning."""
    found = {hit.key: hit.score for hit in ranking.weighted(WORDS, MEANING, 0.5, confidence=0.5)}

    assert found == {"b": 0.515625, "c": 0.125, "a": 0.0625}
    assert ranking.weighted(WORDS, [], 0.5, confidence=0.5) == ranking.weighted(WORDS, [], 0.5)


def test_words_are_trusted_more_beside_a_weaker_model() -> None:
    """Beside it they weigh four times as much, and lose less by what they lack; one side alone stays alone."""
    weaker = ranking.beside_weaker_model(0.5)

    lost = [
        1 - ranking.weighted(WORDS, [("c", 0.5)], weight, confidence=0.5)[-1].lexical / 0.25 for weight in (0.5, weaker)
    ]

    assert weaker == pytest.approx(0.8)
    assert lost[1] < lost[0]
    assert [ranking.beside_weaker_model(weight) for weight in (0.0, 1.0)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "best", "most", "words", "least"),
    [
        ("one word", 4.0, 8.0, 1, 1.0),
        ("one word, once in a long text", 1.0, 8.0, 1, 1.0),
        ("one of five", 4.0, 45.0, 5, 0.1),
        ("two of five", 14.0, 45.0, 5, 0.6),
        ("a very rare one of five", 18.0, 45.0, 5, 1.0),
        ("half of a long question", 30.0, 60.0, 7, 1.0),
    ],
)
def test_confidence_in_words(name: str, best: float, most: float, words: int, least: float) -> None:
    """A question of one word is answered by it; one word of five tells little; half of many words is enough."""
    assert least <= ranking.word_confidence(best, most, 18.0, words) <= least + 0.2


def test_confidence_where_nothing_is_found() -> None:
    """Without any word there is no confidence, and no division by zero."""
    assert ranking.word_confidence(0.0, 5.0, 5.0, 2) == ranking.word_confidence(1.0, 0.0, 0.0, 0) == 0.0


def test_a_page_counts_more_than_the_chunk() -> None:
    """A chunk has three tenths of its own score; a page is found by one chunk where no other was."""
    found = ranking.by_chunk_and_page([("a1", 10.0), ("a2", 5.0)], [("a1", 4.0), ("b1", 20.0)], lambda key: key[0])

    assert found == [("b1", pytest.approx(14.0)), ("a1", pytest.approx(5.8)), ("a2", pytest.approx(4.3))]


def test_what_words_found_further_down_stands_below() -> None:
    """It comes after all that was fused, never above it, and what was fused is not there again."""
    words = ranking.WordMatches(first=WORDS, below=[("d", 9.0), ("c", 4.0)], confidence=1.0)

    found = ranking.fuse(words, MEANING, 0.5, NOT_SPECIAL)

    assert [hit.key for hit in found] == ["b", "a", "c", "d"]
    assert found[-1].score <= found[-2].score


def test_a_passage_counts_by_its_page_too() -> None:
    """The passage of a page that is all about it stands before a nearer one of a page about something else."""
    found = ranking.by_chunk_and_page_meaning(
        [("a1", 0.60), ("b1", 0.58), ("b2", 0.30), ("c1", 0.05)], {"a": 0.3, "b": 0.44, "c": -0.5}, lambda key: key[0]
    )

    assert [key for key, _ in found] == ["b1", "a1", "b2", "c1"]
    assert [score for _, score in found] == pytest.approx([0.524, 0.48, 0.356, 0.0])


def test_meaning_tells_more_sharply_for_a_short_question() -> None:
    """Half as near as the nearest is less than a quarter as good."""
    words = ranking.WordMatches(first=WORDS, confidence=1.0, question_words=ranking.SHORT_QUESTION - 1)

    found = {hit.key: hit for hit in ranking.fuse(words, MEANING, 0.5, NOT_SPECIAL)}

    semantic = 0.25**ranking.SHORT_SHARPNESS
    assert (found["c"].semantic, found["c"].score) == (semantic, pytest.approx(semantic / 2))
    assert (found["b"].score, found["a"].score) == (0.625, 0.5)


def test_a_part_of_a_long_question_counts_as_far_as_both_sides_agree() -> None:
    """Of what one side alone found the rest counts, of what both found more; what can only have words keeps all."""
    words = ranking.WordMatches(first=[*WORDS, ("d", 5.0)], confidence=1.0, question_words=ranking.SHORT_QUESTION)

    found = {hit.key: hit for hit in ranking.fuse(words, MEANING, 0.5, NOT_SPECIAL._replace(is_words_only="d".__eq__))}

    alone = 1 - ranking.AGREEMENT
    assert found["a"][2:] == pytest.approx((alone, 0.0))
    assert found["c"][2:] == pytest.approx((0.0, alone * 0.25))
    assert found["b"][2:] == pytest.approx((alone * 0.25 + ranking.AGREEMENT * 0.5, alone + ranking.AGREEMENT * 0.5))
    assert found["b"].score == pytest.approx(sum(found["b"][2:]) / 2)
    assert found["d"].score == pytest.approx(0.25)


@pytest.mark.parametrize(("meaning", "weight"), [([], 0.5), (MEANING, 0.0), (MEANING, 1.0)])
def test_one_side_alone_need_not_agree_with_the_other(meaning: list[tuple[str, float]], weight: float) -> None:
    """The best of a long question counts in full where only words, or only meaning, are asked for."""
    words = ranking.WordMatches(first=WORDS, confidence=1.0, question_words=ranking.SHORT_QUESTION)
    weight = weight if meaning else ranking.weight_of_words(weight, has_words=True, has_meaning=False)

    best = ranking.fuse(words, meaning, weight, NOT_SPECIAL)[0]

    assert best.score == pytest.approx(1.0)


@pytest.mark.parametrize(("sharpness", "agreement"), [(1.0, 0.0), (ranking.SHORT_SHARPNESS, 0.0), (1.0, 0.6)])
def test_how_sharply_meaning_tells_leaves_out_nothing_more(sharpness: float, agreement: float) -> None:
    """What is too faint is so by its nearness, whatever the power by which it counts."""
    meaning = [("a", 0.9), ("b", 0.36), ("c", 0.34), ("d", 0.2)]
    hits = ranking.weighted([("a", 9.0), ("d", 1.0)], meaning, 0.5, sharpness=sharpness, agreement=agreement)

    assert {hit.key for hit in ranking.without_faint(hits, sharpness, agreement)} == {"a", "b", "d"}


def test_what_is_only_remotely_like_the_question_is_left_out() -> None:
    """Less than .39 times as near as the nearest a page needs one of the words; where no page has any, all are kept."""
    meaning = [("a", 0.9), ("b", 0.36), ("c", 0.34), ("d", 0.2)]
    hits = ranking.weighted([("a", 9.0), ("d", 1.0)], meaning, 0.5)

    assert [hit.key for hit in ranking.without_faint(hits)] == ["a", "b", "d"]
    assert len(ranking.without_faint(ranking.weighted([], meaning))) == 4
    assert ranking.without_faint([]) == []


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("far, by none of its words", {}, 5),
        ("far, and no text has any", {"is_unknown": True}, 3),
        ("far, by a fifth of its words", {"confidence": 0.2}, 5),
        ("far, by half of its words", {"confidence": 0.5}, 0),
        ("near", {"by_vector": [("a", 0.51), ("b", 0.2)]}, 0),
        ("near, by the model of other languages", {"by_vector": [("b", 0.31), ("a", 0.26)]}, 0),
        ("a phrase was found", {"phrases": frozenset("a")}, 0),
        ("words that only words can find", {"first": [("c", 1.0)]}, 0),
        ("no words are looked for", {"question_words": 0}, 0),
        ("nothing to compare", {"by_vector": []}, 0),
        ("a model that is not known", {"clear": (0.0, 0.0)}, 0),
        ("such a model, and no sentence", {"clear": (0.0, 0.0), "is_unknown": True, "is_sentence": False}, 3),
    ],
)
def test_few_are_shown_where_nothing_is_near(name: str, given: dict[str, Any], expected: int) -> None:
    """Nearness is asked for as far as words are lacking, by the measure of the model that found it."""
    by_vector, clear = given.pop("by_vector", [("a", 0.26), ("b", 0.2)]), given.pop("clear", (0.5, 0.3))
    is_sentence = given.pop("is_sentence", True)
    words = ranking.WordMatches(**{"first": [("a", 1.0)], "question_words": 4, **given})
    kinds: ranking.Kinds[str] = ranking.Kinds(lambda key: False, "c".__eq__, "b".__eq__)

    assert ranking.most_guesses(words, by_vector, kinds, clear, is_sentence) == expected, name


def test_quoted_phrases_come_first() -> None:
    """What has the phrases stands before what scores higher, each in its order."""
    hits = ranking.weighted(WORDS, MEANING, 0.5)

    assert [hit.key for hit in ranking.phrases_first(hits, {"a", "c"})] == ["a", "c", "b"]
    assert ranking.phrases_first(hits, ()) == hits


def test_reciprocal_looks_at_ranks_alone() -> None:
    """Scores of any size change nothing; what both found comes first."""
    found = by_rank([(1, 10.0), (2, 5.0)], [(2, 0.8), (3, 0.4)], 0.5)
    larger = by_rank([(1, 10e6), (2, 5e6)], [(2, 0.8), (3, 0.4)], 0.5)

    assert [hit.key for hit in found] == [2, 1, 3]
    assert found == larger


@pytest.mark.parametrize(
    ("weight", "keys"), [(1.0, ["a", "b"]), (0.0, ["b", "c"]), (7.0, ["a", "b"]), (-1, ["b", "c"])]
)
def test_a_weight_of_one_or_zero_is_one_side_alone(weight: float, keys: list[str]) -> None:
    """What only the other side found is not there."""
    assert [hit.key for hit in ranking.weighted(WORDS, MEANING, weight)] == keys


def test_a_side_may_have_found_nothing() -> None:
    """One empty side leaves the order of the other; two give nothing."""
    assert [hit.key for hit in ranking.weighted([], MEANING)] == ["b", "c"]
    assert [hit.key for hit in ranking.weighted(WORDS, [])] == ["a", "b"]
    assert ranking.weighted([], []) == []


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_what_has_words_alone_is_scored_by_them_alone(weight: float) -> None:
    """Its words stand for its meaning too, and a vector that found it counts nothing; others are as before."""
    found = {hit.key: hit for hit in ranking.weighted(WORDS, [*MEANING, ("d", 0.1)], weight, {"b", "d"}.__contains__)}
    before = {hit.key: hit for hit in ranking.weighted(WORDS, MEANING, weight)}

    assert found.pop("b") == ranking.FusedHit("b", 0.25, 0.25, 0.0)
    assert found["a"].lexical == before["a"].lexical if weight else "a" not in found


def test_scores_without_a_best_are_nothing() -> None:
    """A side whose best score is 0 has found nothing."""
    assert ranking.weighted([("a", 0.0)], []) == []


@given(FOUND, FOUND, st.floats(0, 1))
def test_scores_lie_between_zero_and_one(words, meaning, weight: float) -> None:  # type: ignore[no-untyped-def]
    """Whatever the sides give: score and parts are between 0 and 1, best first, each key once."""
    found = ranking.weighted(words, meaning, weight)

    assert all(0 <= value <= 1.000001 for hit in found for value in (hit.score, hit.lexical, hit.semantic))
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert len({hit.key for hit in found}) == len(found)


@pytest.mark.parametrize(
    ("words", "weight"),
    [
        ([], 0.55),
        ([("a", 1.0)], 0.55),
        ([("p", 1.0)], 0.55 / (0.55 + 0.45 * ranking.LEAST_SHARE)),
        ([("a", 1.0), ("p", 1.0)], 0.55 / (0.55 + 0.45 / 2)),
    ],
)
def test_meaning_counts_as_far_as_it_can_be_compared(words: list[tuple[str, float]], weight: float) -> None:
    """All that words found has a vector: the weight is as it was; half of it: meaning counts half; none: hardly."""
    assert ranking.comparable_weight(words, 0.55, "p".__eq__) == pytest.approx(weight)
    assert ranking.comparable_weight(words, 0.0, "p".__eq__) == 0.0
    assert ranking.comparable_weight(words, 1.0, "p".__eq__) == 1.0
