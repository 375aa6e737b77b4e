"""Words of a question that no text has, corrected by the words that texts have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.models import Chunk
from core.search import spelling
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from core.search.models import IndexedPage

TEXTS = {
    "en": "the boundary layer of a plate, and another boundary; a bounty; the café",
    "de": "Die Überraschung der Straße und die Wörter",
    "ru": "установка пакетов на сервер",
    "zh": "今天天气很好",
}


@pytest.fixture
async def replica(tmp_path: Path) -> Replica:
    """A replica with a page in each of four languages."""
    replica = Replica(tmp_path / "search")
    assert replica.try_write_lock()
    for language, text in TEXTS.items():
        await replica.upsert(IndexedPage(language, "v1", detected_language=language), [Chunk(language, text)], {})
    await replica.commit(Checkpoint("1"))
    return replica


@pytest.mark.parametrize(
    ("name", "question", "expected"),
    [
        ("a letter less", "boundry", "boundary"),
        ("a letter more", "the boundarry layer", "the boundary layer"),
        ("another letter", "boundsry layers", "boundary layers"),
        ("two exchanged", "Boundray layer?", "boundary layer?"),
        ("known words stay", "boundary layers plates", "boundary layers plates"),
        ("known without its accent", "cafe", "cafe"),
        ("German", "Überaschung", "überraschung"),
        ("Russian", "устновка пакетов", "установка пакетов"),
        ("quotes", 'layer "boundry"', 'layer "boundry"'),
        ("quoted and not", 'layr of the "boundry" plate', 'layer of the "boundry" plate'),
        ("two slips in a word", "boundrie", "boundrie"),
        ("short words stay", "lay", "lay"),
        ("names of files and numbers stay", "boundry.py boundry7 a/boundry", "boundry.py boundry7 a/boundry"),
        ("mostly unknown", "boundry xylophon quartett", "boundry xylophon quartett"),
        ("without spaces", "今天天汽", "今天天汽"),
        ("English that no text has", "boundaries of planes", "boundaries of planes"),
        ("English made of a word and an ending", "a platter of boundless layering", "a platter of boundless layering"),
        ("long English that no text has", "a boundary is convinncing", "a boundary is convincing"),
        ("short English that no text has", "a boundary of papwr", "a boundary of papwr"),
        ("nothing", "", ""),
    ],
)
async def test_corrections(replica: Replica, name: str, question: str, expected: str) -> None:
    """One slip in a word that no text has is set right; what is known, quoted or mostly unknown stays as it is."""
    found = await replica.corrected(question)

    assert found.text == expected
    assert bool(found.changes) == (question != expected)


async def test_a_page_that_is_new_teaches_its_words(replica: Replica) -> None:
    """What is committed is known at once, and corrects from then on."""
    before = await replica.corrected("sluce")
    await replica.upsert(IndexedPage("new", "v1", detected_language="en"), [Chunk("n", "a sluice")], {})
    await replica.commit(Checkpoint("2"))

    assert (before.text, (await replica.corrected("sluce")).text) == ("sluce", "sluice")


async def test_english_is_no_yardstick_for_other_languages(tmp_path: Path) -> None:
    """A word that English has too is a slip where no text is English."""
    replica = Replica(tmp_path / "search")
    assert replica.try_write_lock()
    await replica.upsert(IndexedPage("de", "v1", detected_language="de"), [Chunk("de", "ein Brand am Hafen")], {})
    await replica.commit(Checkpoint("1"))

    assert (await replica.corrected("am Brandy")).text == "am brand"


def test_the_commonest_word_is_taken() -> None:
    """Of several words the one that most pages have; one with another first letter must be much commoner."""
    assert spelling.best_neighbour("lager", {"later": 3, "layer": 5}) == "layer"
    assert spelling.best_neighbour("lager", {"layer": 1, "wager": 3}) == "layer"
    assert spelling.best_neighbour("lager", {"layer": 1, "wager": 9}) == "wager"
    assert spelling.best_neighbour("lager", {}) == ""


@given(st.text("abcdeü", min_size=1, max_size=8))
def test_neighbours_are_one_slip_away(word: str) -> None:
    """Each neighbour once, never the word itself, and no longer or shorter than by one letter."""
    found = list(spelling.neighbours(word, ["de"]))

    assert len(found) == len(set(found))
    assert word not in found
    assert all(abs(len(one) - len(word)) <= 1 for one in found)


@given(st.text(max_size=60))
def test_a_question_of_known_words_is_never_changed(question: str) -> None:
    """Whatever is asked: nothing changes where all is known, and nothing where nothing is near."""
    assert spelling.corrected(question, lambda word: True, lambda word: "x").text == question
    assert spelling.corrected(question, lambda word: False, lambda word: "").text == question
