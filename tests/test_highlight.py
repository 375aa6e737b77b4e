"""Snippets and what is marked in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.search.highlight import snippet, words


def marked(text: str, query: str, width: int = 240) -> list[str]:
    shown, ranges = snippet(text, words(query), width)
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
        ("two endings", "running water", "runner", ["running"]),
        ("short words are exact", "cart and cat", "car", []),
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


def test_the_densest_place_is_shown() -> None:
    """Of a long text the stretch with most of the words is shown, cut between words, with dots where it was cut."""
    text = "flood " + "filler words here " * 50 + "the flood reached the bridge " + "more filler words " * 50

    shown, ranges = snippet(text, ["flood", "bridge"], 80)

    assert "flood reached the bridge" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= 82
    assert [shown[first:last] for first, last in ranges] == ["flood", "bridge"]
    assert set(shown.strip("…").split()) <= set(text.split())


def test_without_a_match_the_beginning_is_shown() -> None:
    """A text that was found by its meaning shows how it begins."""
    shown, ranges = snippet("alpha beta gamma " * 50, ["omega"], 40)

    assert shown.startswith("alpha beta")
    assert ranges == []


@given(st.text(max_size=300), st.text(max_size=30), st.integers(-1, 120))
def test_ranges_are_inside_and_in_order(text: str, query: str, width: int) -> None:
    """Any text, query and width: ranges lie in the snippet, in order, without overlap."""
    shown, ranges = snippet(text, [query], width)

    edges = [edge for pair in ranges for edge in pair]
    assert edges == sorted(edges)
    assert all(0 <= first < last <= len(shown) for first, last in ranges)
    assert shown.strip("…") in text or "…" in text


@pytest.mark.usefixtures("no_runaway")
@pytest.mark.parametrize("text", ["ä" * 1_000_000, "flood " * 200_000, "天" * 1_000_000])
def test_a_megabyte_takes_no_time(text: str) -> None:
    """A text of a megabyte is read in a moment, and shown in part."""
    shown, _ = snippet(text, ["flood", "天天", "ää"])

    assert 0 < len(shown) < len(text)
