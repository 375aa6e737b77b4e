"""Snippets and what is marked in them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.search.io.replica_stemming import terms
from core.search.letters import UNSPACED
from core.search.snippet_cutting import snippet
from core.search.snippet_matching import read_question


def marked(text: str, query: str, language: str = "en", width: int = 240) -> list[str]:
    shown, ranges = snippet(text, read_question(query, language, terms), width)
    return [shown[first:last] for first, last in ranges]


@pytest.mark.parametrize(
    ("name", "text", "query", "expected"),
    [
        ("case", "The Flood came", "FLOOD", ["Flood"]),
        ("diacritics", "Über die Brücke", "uber brucke", ["Über", "Brücke"]),
        ("diacritics asked", "Uber die Brucke", "über Brücke", ["Uber", "Brucke"]),
        ("decomposed", "cafe\u0301 noir", "café", ["cafe\u0301"]),
        ("ligature", "the ﬁnal word", "final", ["ﬁnal"]),
        ("sharp s", "die Straße dort", "STRASSE", ["Straße"]),
        ("another ending", "boundary layers", "layer", ["layers"]),
        ("runs marks run", "Run the mill as it ran, running", "runs", ["Run", "running"]),
        ("shortcut does not mark short", "a short cut, a shortcut", "shortcut", ["shortcut"]),
        ("same beginning, another word", "universal universe university", "universes", ["universe"]),
        ("short words are exact", "cart and cat", "car", []),
        ("small words", "What is the weir, and what is it for?", "what is the weir for", ["weir"]),
        ("small words alone", "To be, or not", "to be or not", ["To", "be", "or", "not"]),
        ("small word with the stem of another", "the other weirs", "others weir", ["weirs"]),
        ("phrase", "mill race, the race of the mill race", '"mill race"', ["mill race", "mill race"]),
        (
            "phrase with small words",
            "The head of the weir: of the head",
            'the "head of the weir"',
            ["head of the weir"],
        ),
        ("phrase beside words", "a race at the mill race in flood", 'floods "mill race"', ["mill race", "flood"]),
        ("phrase in Chinese", "天气预报，天气", '"天气预报"', ["天气预报"]),
        ("fraction", "¼0 of 10", "1", []),
        (
            "words around a dash and in quotes",
            "the mill–race ‘mills’ “Mühle”",
            "mills muhle",
            ["mill", "mills", "Mühle"],
        ),
        ("letters of two scripts in a word", "флоодflood flood", "flood", ["flood"]),
        ("signs between", "snake_case and kebab-case", "case", ["case", "case"]),
        ("Hindi vowel signs", "नदियाँ और नदी", "नदी", ["नदी"]),
        ("small pairs", "如何天气", "如何天气", ["何天气"]),
        ("not inside", "the reflooding", "flood", []),
        ("Russian", "Большая река", "РЕКА", ["река"]),
        ("Hebrew", "שלום עולם", "עולם", ["עולם"]),
        ("Arabic", "مرحبا بالعالم", "مرحبا", ["مرحبا"]),
        ("Chinese", "今天天气很好", "天气", ["天气"]),
        ("Chinese in pieces", "东京都的天气预报", "天气很好", ["天气"]),
        ("Japanese beside Latin", "東京Tokyoの天気", "tokyo 天気", ["Tokyo", "天気"]),
        ("Korean", "서울에서 만나요", "서울", ["서울"]),
        ("emoji around", "🌊flood🌊", "flood", ["flood"]),
        ("nothing asked", "some text", "", []),
        ("nonsense", "some text", '"(:*', []),
    ],
)
def test_marks(name: str, text: str, query: str, expected: list[str]) -> None:
    """Words are marked whatever their case, accents, ending or script."""
    assert marked(text, query) == expected


@pytest.mark.parametrize(
    ("language", "text", "query", "expected"),
    [
        ("de", "Die Brücken über den Fluss", "Brücke des Flusses", ["Brücken", "Fluss"]),
        ("de", "Die Brucken dort", "wo ist die Brücke", ["Brucken"]),
        ("fr", "Les mesures décidées hier", "décidé", ["décidées"]),
        ("ru", "Большие реки", "река", ["реки"]),
        ("xx", "runs and run", "run", ["run"]),
    ],
)
def test_stems_are_those_of_the_page(language: str, text: str, query: str, expected: list[str]) -> None:
    """Words are compared in the language of the page; where there is no stemmer, as they are written."""
    assert marked(text, query, language) == expected


def test_the_densest_place_is_shown() -> None:
    """Of a long text the stretch with most of the words is shown, cut between words, with dots where it was cut."""
    text = "flood " + "filler words here " * 50 + "the flood reached the bridge " + "more filler words " * 50

    shown, ranges = snippet(text, read_question("flood bridge"), 80)

    assert "flood reached the bridge" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 82
    assert [shown[first:last] for first, last in ranges] == ["flood", "bridge"]
    assert set(shown.strip("…").split()) <= set(text.split())


def test_the_rarest_word_decides() -> None:
    """Of places with as many words the one with the rarer word is shown, though others have more matches."""
    text = "flood flood " + "filler words here " * 50 + "a sluice " + "filler words here " * 50 + "flood"

    assert "sluice" in snippet(text, read_question("flood sluice"), 60)[0]


def test_a_phrase_counts_for_its_words() -> None:
    """The place with the whole phrase is shown rather than one with another word."""
    text = "flood and race " + "filler words here " * 50 + "the mill race " + "filler words here " * 50

    assert "mill race" in snippet(text, read_question('flood "mill race"'), 60)[0]


def test_sentences_stay_whole_where_they_fit() -> None:
    """A snippet begins with a sentence, and ends with one if that costs little."""
    sentences = [f"Sentence {number} tells of nothing at all." for number in range(40)]
    sentences[20] = "In 1911 the weir broke in the night."
    shown, _ = snippet(" ".join(sentences), read_question("when did the weir break"), 120)

    assert shown.startswith(("…Sentence 19 tells", "…In 1911"))
    assert shown.endswith("all.…")
    assert sentences[20] in shown


def test_without_a_match_the_beginning_is_shown() -> None:
    """A text that was found by its meaning shows how it begins."""
    shown, ranges = snippet("alpha beta gamma " * 50, read_question("omega"), 40)

    assert shown.startswith("alpha beta")
    assert ranges == []


LETTERS = st.text(st.sampled_from('aäbß .,*\n"_天気\u0301\u093e\u0928ﬁ'), max_size=200)

SPACED_LETTERS = re.compile(rf"[^\W_{UNSPACED}]{{2}}")


@given(st.text(max_size=300) | LETTERS, st.text(max_size=30) | LETTERS, st.integers(-1, 120))
def test_ranges_are_whole_words(text: str, query: str, width: int) -> None:
    """Any text, query and width: a bounded part of the text; ranges in order, without overlap, of whole words."""
    shown, ranges = snippet(text, read_question(query, "en", terms), width)

    edges = [edge for pair in ranges for edge in pair]
    assert edges == sorted(edges)
    assert all(0 <= first < last <= len(shown) for first, last in ranges)
    assert len(shown) <= max(1, width) + 2
    assert shown.strip("…") in text or "…" in text
    for edge in edges:
        assert not SPACED_LETTERS.fullmatch(shown[edge - 1 : edge + 1])


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize("text", ["ä" * 1_000_000, "flood " * 200_000, "天" * 1_000_000, "a. " * 300_000])
def test_a_megabyte_takes_no_time(text: str) -> None:
    """A text of a megabyte is read in a moment, and shown in part."""
    shown, _ = snippet(text, read_question('flood 天天 ää "flood flood" "a a a a"', "en", terms), 240)

    assert 0 < len(shown) < len(text)
