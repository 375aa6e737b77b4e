"""Words of a question that no text has, corrected by the words that texts have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.models import Chunk
from core.search import spelling
from core.search.io import english_vocabulary, foreign_vocabulary, multilingual_embedder
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from core.search.models import IndexedPage
from core.search.query_stop_words import possible_languages
from core.search.spelling import Correction

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
        ("a slip in each word", "boundry layr", "boundary layer"),
        ("a slip in each word but one of English that no text has", "boundry convinncing", "boundry convinncing"),
        ("without spaces", "今天天汽", "今天天汽"),
        ("English that no text has", "boundaries of planes", "boundaries of planes"),
        ("English made of a word and an ending", "a platter of boundless layering", "a platter of boundless layering"),
        ("long English that no text has", "a boundary is convinncing", "a boundary is convincing"),
        ("common English that no text has", "a boundary of papwr", "a boundary of paper"),
        ("short English in no sentence", "boundary papwr", "boundary papwr"),
        ("rare English that no text has", "a boundary of cockz", "a boundary of cockz"),
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


@pytest.fixture
async def harbour(tmp_path: Path) -> Replica:
    """Two English pages, a German and a French one."""
    replica = Replica(tmp_path / "search")
    assert replica.try_write_lock()
    texts = [
        (
            "en",
            "a basket of fish, a slice of bread, the point, a pinch of salt, a node of the cluster, a look at a frame",
        ),
        ("en", "they want grain, has a hand won the strike vote, combine it with poison fast, see sharepoint, arden"),
        ("de", "Die Müllabfuhr fährt bis zum Hafen, und das Haus am Markt wird gebraucht."),
        ("fr", "Le bis de la fanfare est pour les familles de la ville, et il faut une combinaison."),
    ]
    for number, (language, text) in enumerate(texts):
        page = IndexedPage(f"page_{number}", "v1", detected_language=language)
        await replica.upsert(page, [Chunk(str(number), text)], {})
    await replica.commit(Checkpoint("1"))
    return replica


@pytest.mark.parametrize(
    "question",
    [
        *("gasket", "sluice", "pint", "winch", "inode", "vole", "loom", "`iframe`", "erase", "voles and looms"),
        "when are the bins emptied",
        "Wann werden die Mülltonnen geleert?",
        *("combien", "combien de poisson faut-il", "Hund", "Haus", "ein Hund im Haus", "poisson", "faut-il", "mansión"),
        "wer hat die Wahl gewonen",
        "quelle est la vots de la ville",
        *("who is at the Hafem", "hvor er frane", "frane i hvor", "wer hat ein Haus am Bild", "wer hat die Bahn"),
        *("ksalt", "qote", "zippier", "dockers", "weirs and sluices", "untied", "hurried copies", "canneries"),
    ],
)
async def test_a_real_word_is_no_slip(harbour: Replica, question: str) -> None:
    """English words that no text has stay, with their endings; so do words of other languages, and in a question that
    tells its language what only pages in another one could correct."""
    assert await harbour.corrected(question) == Correction(question)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("stirke", "strike"),
        ("who won the strike voet", "who won the strike vote"),
        ("who won the stirke voet", "who won the strike vote"),
        ("grian", "grain"),
        ("clsuter", "cluster"),
        ("sharepiont", "sharepoint"),
        ("Müllabfur", "müllabfuhr"),
        ("Wann fährt die Müllabfur?", "Wann fährt die müllabfuhr?"),
        ("basekt", "basket"),
        ("absket", "basket"),
        ("quelle est la fanfarre de la ville", "quelle est la fanfare de la ville"),
        ("who has the basekt", "who has the basket"),
        ("vasket of grain", "basket of grain"),
        ("who has the asket", "who has the basket"),
        ("who votess", "who votes"),
        ("who has the combin", "who has the combine"),
        ("a framd of bread", "a frame of bread"),
    ],
)
async def test_a_slip_is_corrected(harbour: Replica, question: str, expected: str) -> None:
    """One slip, also in the first letter; what is no form of an English word is a slip in one."""
    assert (await harbour.corrected(question)).text == expected


async def test_words_are_told_without_the_lists_too(harbour: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither list is installed, the vocabulary of the English model and the other rules are left."""
    monkeypatch.setattr(english_vocabulary, "_PACKAGE", "not_installed_at_all")
    monkeypatch.setattr(multilingual_embedder, "_PACKAGE", "not_installed_at_all")
    english_vocabulary._listed.cache_clear()
    foreign_vocabulary._vocabulary.cache_clear()
    try:
        assert (await harbour.corrected("sluice")).text == "slice"
        assert (await harbour.corrected("poisson")).text == "poison"
        assert (await harbour.corrected("erase")).text == "erase"
    finally:
        english_vocabulary._listed.cache_clear()
        foreign_vocabulary._vocabulary.cache_clear()


def test_small_words_say_in_which_languages_a_question_may_be() -> None:
    """All without small words; else those that have as many as any, and those of which no list is there."""
    among = ["da", "en", "no", "pl"]

    assert possible_languages(["staken"], among) == {"da", "en", "no", "pl"}
    assert possible_languages(["Hvor", "er", "broen", "over"], among) == {"da", "no", "pl"}
    assert possible_languages(["le", "poisson"], among) == {"pl"}


def test_the_commonest_word_comes_first() -> None:
    """Of several words the one that most pages have; what no page has is none."""
    assert spelling.commonest_first({"later": 3, "layer": 5, "lazer": 0, "laker": 3}) == ["layer", "laker", "later"]
    assert spelling.commonest_first({}) == []


def test_a_short_word_is_doubted_less() -> None:
    """In four letters only an exchange or a letter that was left out is a slip; in five any but of the first one."""
    short, longer = set(spelling.neighbours("vole", [])), set(spelling.neighbours("voles", []))

    assert {"volve", "vloe", "ovle"} <= short
    assert not {"vote", "vol", "ole", "mole", "avole"} & short
    assert {"votes", "vole", "vovles", "ovles"} <= longer
    assert not {"oles", "moles", "avoles"} & longer


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
    assert spelling.corrected(question, lambda word: True, lambda word, is_doubtful: "x").text == question
    assert spelling.corrected(question, lambda word: False, lambda word, is_doubtful: "").text == question
