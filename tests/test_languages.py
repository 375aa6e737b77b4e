"""Pages in other languages than English have vectors of a model of their own; those that no model speaks have none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.pages.text_cleaning import content_hash
from core.search import chunking
from core.search.io import multilingual_embedder
from core.search.io.chunk_store import ChunkStore
from core.search.io.embedders import open_embedder
from core.search.io.local_embedder import wordpiece
from core.search.io.multilingual_embedder import MultilingualEmbedder
from core.search.io.vector_migration import Migration
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.languages import cut, language_of, language_of_question
from core.search.models import Filters
from core.search.protocols import EmbedderUnavailable
from core.search.vector_spaces import Spaces, parse_spaces
from core.settings import Settings
from core.store import connect
from tests.search_site import Library, open_library

ENGLISH_SPACE, OTHER_SPACE = "all-MiniLM-L6-v2-int8-384-c1", "use-multilingual-3-512-c2"
PAGES = {
    "/lock": "The lock at the lower gate was repaired after the flood and opened again in May.",
    "/streik": "Die Hafenarbeiter stimmten für die Niederlegung der Arbeit, sieben von zehn waren dafür.",
    "/pegel": "Der Pegel meldet alle zehn Minuten die Höhe des Flusses an das Amt im Tal.",
    "/plotina": "Плотина поднимает воду выше мельницы, рыба идёт по лестнице.",
    "/apergia": "Οι λιμενεργάτες ψήφισαν υπέρ της απεργίας, επτά στους δέκα.",
}
GERMAN_QUESTION = "Wer will nicht mehr arbeiten, bis es mehr Lohn gibt?"


async def spaces_of(library: Library, path: str) -> set[str]:
    """The spaces of the chunks of a page."""
    client, keys = library.context.client, library.context.keys
    names = await client.zrange(keys.chunks(library.id(path)), 0, -1)
    return {str(await client.hget(keys.chunk(name), "space")) for name in names}


@asynccontextmanager
async def open_foreign(settings: Settings) -> AsyncIterator[Library]:
    """The pages, each with nothing but its text."""
    async with open_library(settings, dict.fromkeys(PAGES, "x"), embedder="local") as library:
        for path, text in PAGES.items():
            library.site.web.page(path, f"<meta charset=utf-8><title>{path[1:]}</title><main><p>{text}</p></main>")
        await library.crawl()
        yield library


async def migrate(library: Library, settings: Settings) -> tuple[int, int]:
    """As `freshet reindex --embeddings` does it, and a worker after it."""
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    store = ChunkStore(library.context.client, raw, library.context.keys)
    try:
        return await Migration(library.context.client, library.context.keys, store, embedder).run()
    finally:
        await embedder.close()
        await raw.aclose()
        await library.embed(search_across_languages=settings.search_across_languages)


async def test_every_page_by_the_model_that_speaks_its_language(settings: Settings) -> None:
    """German and Russian by the second model, English by the first, Greek by none; each is found in its language, by
    meaning where a model speaks it; a question in German finds no English page unless that is switched on."""
    async with open_foreign(settings) as library:
        await library.embed()
        spaces = {path: await spaces_of(library, path) for path in PAGES}
        german = await library.ask(GERMAN_QUESTION)
        greek = await library.ask("απεργίας")
        english = await library.ask("when did ships pass again")
        unknown = await library.ask("Schleusentor repariert")
        errors = await library.index_errors()
        across = library.with_(search_across_languages=True)
        made, waiting = await migrate(library, across)
        both = await spaces_of(library, "/lock")
        found = await library.urls("Schleusentor repariert", across)
        still = await library.urls("when did ships pass again", across)

    assert spaces == {
        "/lock": {ENGLISH_SPACE},
        **{path: {OTHER_SPACE} for path in ("/streik", "/pegel", "/plotina")},
        "/apergia": {""},
    }
    assert german.by.startswith("words and meaning")
    assert german.results[0].page.url.endswith("/streik")
    assert (greek.by.startswith("words ("), greek.results[0].page.url.rpartition("/")[2]) == (True, "apergia")
    assert english.results[0].page.url.endswith("/lock")
    assert unknown.by.startswith("meaning (no text has any of these words")
    assert len(errors) == 1, "the Greek page has no vector"
    assert (made >= 1, waiting >= 1, both) == (True, True, {f"{ENGLISH_SPACE}+{OTHER_SPACE}"})
    assert found[0] == "/lock"
    assert still[0] == "/lock"


async def test_store_of_before_goes_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package other languages are found by words, and the answer says what to install; once it is there
    English vectors stay as they are, and one command adds the others."""
    async with open_foreign(settings) as library:
        client, keys = library.context.client, library.context.keys
        with monkeypatch.context() as patch:
            patch.setattr(multilingual_embedder, "is_installed", lambda: False)
            await library.embed()
            before = await VectorSpaceStore(client, keys).current()
            without = await library.ask("Die Hafenarbeiter stimmten für die Niederlegung")
        chunk_ids = await client.zrange(keys.chunks(library.id("/lock")), 0, -1)
        library.site.web.page("/lock", f"<title>lock</title><main><p>{PAGES['/lock']} Ships pass.</p></main>")
        await library.crawl()
        await library.embed()
        extended = await VectorSpaceStore(client, keys).current()
        unchanged = await spaces_of(library, "/pegel")
        _, waiting = await migrate(library, library.settings)
        german = await library.ask(GERMAN_QUESTION)

    assert before == ENGLISH_SPACE
    assert "./scripts/setup" in without.by
    assert without.results[0].page.url.endswith("/streik")
    assert len(chunk_ids) == 1
    assert extended == f"{ENGLISH_SPACE}+{OTHER_SPACE}"
    assert (unchanged, waiting) == ({""}, 3)
    assert german.results[0].page.url.endswith("/streik")


@pytest.mark.parametrize(
    ("text", "stated", "language"),
    [
        ("Wer hat die Schleuse für den Fluss gebaut?", "", "de"),
        ("забастовка докеров", "", "ru"),
        ("страйк докерів", "uk", "uk"),
        ("港湾労働者はストライキに賛成した", "en", "ja"),
        ("码头工人投票赞成罢工", "", "zh"),
        ("부두 노동자", "", "ko"),
        ("απεργία", "", "und"),
        ("weir", "", ""),
        ("weir", "de-AT", "de"),
    ],
)
def test_language_of(text: str, stated: str, language: str) -> None:
    """By its words, then by its letters; what is stated counts where it can be."""
    assert language_of(text, stated) == language


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("who ended the strike", "en"),
        ("the river rose", "en"),
        ("what is a comet", "en"),
        ("who won", "en"),
        ("Warum ist die Strecke gesperrt", "de"),
        ("¿dónde está el río?", "es"),
        ("забастовка докеров", "ru"),
        ("grain prices", ""),
        ("die hard 4", ""),
        ("Rio de Janeiro", ""),
        ("la scala opera", ""),
        ("kama sutra", ""),
        ("San Jose de la Montana", ""),
        ("2026", ""),
        ("", ""),
    ],
)
def test_language_of_question(question: str, language: str) -> None:
    """Two small words of one language tell, or an English one that opens the question; names tell nothing."""
    assert language_of_question(question) == language


async def test_english_question_does_not_load_the_other_model(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its small words, or by the pages that have its words, it is English: loading took 1.5 of 2 CPU s. Where pages
    in another language have its words, or none that the search is limited to has, both models are asked; not the other
    one where no such page is in what the search is limited to."""
    asked: list[str] = []
    embed = MultilingualEmbedder.embed

    async def counted(embedder: MultilingualEmbedder, texts: Sequence[str]) -> list[bytes]:
        asked.extend(texts)
        return await embed(embedder, texts)

    async with open_foreign(settings) as library:
        await library.embed()
        monkeypatch.setattr(MultilingualEmbedder, "embed", counted)
        first = [(await library.ask(text)).results[0].page.url for text in ("who repaired it", "lower gate flood")]
        by_english = list(asked)
        await library.ask("Schleusentor repariert")
        await library.ask("Pegel flood")
        await library.ask("lower gate flood", filters=Filters(languages=("de",)))
        limited = await library.ask("Wer hat das Schleusentor repariert", filters=Filters(languages=("en",)))

    assert all(url.endswith("/lock") for url in first)
    assert by_english == []
    assert set(asked) == {"Schleusentor repariert", "Pegel flood", "lower gate flood"}
    assert limited.by == "words (of these pages none in other languages is embedded)"


@pytest.mark.parametrize(
    ("question", "more_english", "limit", "is_asked"),
    [
        ("blorft", 40, Filters(), False),
        ("blörft", 40, Filters(), True),
        ("blorft", 40, Filters(languages=("de",)), True),
        ("blorft", 2, Filters(), True),
    ],
)
async def test_a_word_of_no_page_is_taken_for_english_where_most_pages_are(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    more_english: int,
    limit: Filters,
    is_asked: bool,
) -> None:
    """Other letters, a limit, or a tenth of the chunks in other languages say that it may be of these."""
    asked: list[str] = []
    embed = MultilingualEmbedder.embed

    async def counted(embedder: MultilingualEmbedder, texts: Sequence[str]) -> list[bytes]:
        asked.extend(texts)
        return await embed(embedder, texts)

    english = {f"/{number}": f"The gate of lock {number} is open for ships." for number in range(more_english)}
    async with open_library(settings, english | {"/pegel": "x"}, embedder="local") as library:
        library.site.web.page("/pegel", f"<title>pegel</title><main><p>{PAGES['/pegel']}</p></main>")
        await library.crawl()
        await library.embed()
        monkeypatch.setattr(MultilingualEmbedder, "embed", counted)
        await library.ask(question, filters=limit)

    assert asked == [question] * is_asked


def test_other_languages_are_cut_by_letters() -> None:
    """A Russian chunk is as long as an English one, not a fifth of it; English chunks keep the ids they had."""
    sentence = "Уровень реки измеряют каждые десять минут и сообщают в управление. "
    embedder = open_embedder(Settings(embedder="none"))
    russian = cut("url_1", sentence * 100, "ru", embedder)
    chinese = cut("url_1", "水位每十分钟向管理局报告一次。" * 200, "zh", embedder)
    text = "The gauge reports the level of the river every ten minutes. " * 100
    english = cut("url_1", text, "en", open_embedder(Settings(embedder="local")))

    assert 350 < sum(len(one.text) for one in russian) / len(russian) <= 850
    assert 170 < sum(len(one.text) for one in chinese) / len(chinese) <= 425
    assert english == chunking.chunks("url_1", text, wordpiece().count)
    assert english[0].id == chunking.chunk_id("url_1", (), content_hash(english[0].text), 1)


def test_vectors_of_two_spaces_stand_one_behind_the_other() -> None:
    """They are told apart by the name; what is too short, too long or no unit vector is damaged as a whole."""
    spaces = parse_spaces("a-1-c1+b-2-c2")
    one, two = b"\0\0\x80?", b"\0\0\0\0\0\0\x80?"

    assert [space.name for space in spaces] == ["a-1-c1", "b-2-c2"]
    assert spaces.split(one + two) == {"a-1-c1": one, "b-2-c2": two}
    assert [spaces.split(value) for value in (one, two + one, one + two + one, b"")] == [{}, {}, {}, {}]
    assert Spaces().split(b"") == {}
    assert [parse_spaces(name) for name in ("", "a", "a-1-c1+b")] == [(), (), ()]


async def test_another_file_of_the_model_is_refused(tmp_path: Path) -> None:
    """Its files are only used if they are the ones we know."""
    for name in multilingual_embedder.SHA256:
        (tmp_path / name).write_bytes(b"not it")
    embedder = MultilingualEmbedder(folder=tmp_path)
    with pytest.raises(EmbedderUnavailable, match="sha256"):
        await embedder.prepare()
    await embedder.close()
