"""Which language a text reads as, whatever its page says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.pages.language_by_stop_words import UNKNOWN_SCRIPT, clear_language, language_by_stop_words
from tests.pages import PARAGRAPH

GERMAN = "Die Mühle steht seit vierhundert Jahren am Fluss, und der Fluss war nicht immer gut zu ihr."
SPANISH = "El molino lleva cuatrocientos años junto al río, y el río no siempre fue bueno con él."
POLISH = "Młyn stoi nad rzeką od czterystu lat, a rzeka nie zawsze była dla niego dobra, jak się mówi."
RUSSIAN = "Мельница стоит у реки четыреста лет."
CODE = "for (i = 0; i < n; i++) { x[i] = y[i] + foo(bar); }"


@pytest.mark.parametrize(
    ("text", "stated", "expected"),
    [
        (PARAGRAPH, "", "en"),
        (PARAGRAPH, "de", "en"),
        (GERMAN, "", "de"),
        (GERMAN, "en", "de"),
        (SPANISH, "en", "es"),
        (POLISH, "en", "pl"),
        (RUSSIAN, "", UNKNOWN_SCRIPT),
        (RUSSIAN, "ru", "ru"),
        (RUSSIAN, "en", UNKNOWN_SCRIPT),
        ("会議は東京で開かれた", "en", UNKNOWN_SCRIPT),
        ("اجتمع المجلس", "", UNKNOWN_SCRIPT),
        ("東京 iPhone 会議は開かれた", "ja", "ja"),
        (
            "系统启动的目录 /run 挂载为 tmpfs，替代了 Filesystem Hierarchy Standard 中的目录 /var/run",
            "",
            UNKNOWN_SCRIPT,
        ),
        ("Обновите список: apt-get update, затем apt-get upgrade --with-new-pkgs", "", UNKNOWN_SCRIPT),
        (f"{PARAGRAPH} The sign at the gate reads 東京水門.", "", "en"),
        (CODE, "", ""),
        (CODE, "en", "en"),
        ("12.50 · 13.99 · 14", "en", "en"),
        ("", "", ""),
    ],
)
def test_reads_as(text: str, stated: str, expected: str) -> None:
    """The text decides where it tells something, the page's own word where it does not."""
    assert language_by_stop_words(text, stated) == expected


def test_families_share_small_words() -> None:
    """A Norwegian page is not called Danish for the words that both have."""
    assert (
        language_by_stop_words(
            "Det er en mølle som ligger på den andre siden av elven, og den har ikke vært i bruk.", "no"
        )
        == "no"
    )


@pytest.mark.parametrize("question", ["who won", "die hard 4", "Rio de Janeiro", "strike vote", "la scala opera"])
def test_short_questions_tell_nothing(question: str) -> None:
    """A name with a foreign article is not yet a foreign question."""
    assert language_by_stop_words(question) == ""


MENU = " ".join(f"Autoracing Motor{n} Stock{n} Calendar{n} Classific{n} Piloto{n}" for n in range(20)) + " "
GERMAN_NEWS = "Die Mühle steht am Fluss, und der Fluss war nicht immer gut zu ihr, wie auch das Dorf. "


def test_clear_between_menus() -> None:
    """A text between long menus is clear by its few stop words, if those of no other language are among them."""
    assert clear_language(MENU + GERMAN_NEWS * 2) == "de"
    assert clear_language(MENU + GERMAN_NEWS) == ""


def test_placeholder_is_not_clear() -> None:
    """Lorem ipsum has words of several languages and is none of them."""
    lorem = "Lorem ipsum dolor sit amet, consectetur adipisicing elit, sed do eiusmod tempor incididunt ut labore et "
    lorem += "dolore magna aliqua. Duis aute irure dolor in reprehenderit in voluptate velit esse cillum dolore. "
    assert clear_language(lorem * 8) == ""


@given(st.text(max_size=3_000), st.sampled_from(["", "en", "ja", "xx"]))
def test_any_text_has_an_answer(text: str, stated: str) -> None:
    """Nothing is refused, and what comes out is short."""
    assert len(language_by_stop_words(text, stated)) <= 3
