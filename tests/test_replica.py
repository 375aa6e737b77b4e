"""The search replica on disk: what is found, who may write, and what a crash leaves."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("tantivy")

import numpy as np

from core.models import Chunk
from core.search.io import replica_lexical, replica_log, replica_stemming, replica_table, replica_vectors
from core.search.io.replica import Replica
from core.search.io.replica_state import SCHEMA, Checkpoint, InvalidVector, ReplicaBroken, ReplicaBusy
from core.search.io.replica_writer import erase
from core.search.models import ChunkText, Filters, Hit, IndexedPage, IndexQuery
from core.search.protocols import Index, Vector

ROOT = Path(__file__).parents[1]
DIMENSION = 8
EVERYTHING = Filters()


def unit(*numbers: float) -> Vector:
    """A vector that points there."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[: len(numbers)] = numbers
    return bytes((vector / np.linalg.norm(vector)).astype("<f4").tobytes())


def page(item: str, version: str = "v1", **facts: object) -> IndexedPage:
    return IndexedPage(item, version, **facts)  # type: ignore[arg-type]


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    """An empty replica that may be written."""
    opened = Replica(tmp_path, DIMENSION)
    assert opened.try_write_lock()
    yield opened
    opened.close()


async def put(replica: Replica, item: str, text: str, *, vector: Vector | None = None, **facts: object) -> None:
    """A page of one chunk."""
    version = str(facts.pop("version", "v1"))
    chunk = Chunk(f"{item}-c", text)
    await replica.upsert(page(item, version, **facts), [chunk], {chunk.id: vector} if vector else {})


async def commit(replica: Replica, position: str = "1") -> None:
    await replica.commit(Checkpoint(position, "space"))


async def found(replica: Replica, text: str, filters: Filters = EVERYTHING, **more: object) -> list[str]:
    return [
        hit.item_id for hit in await replica.search(IndexQuery(text, more.pop("vector", None), filters, 10, **more))
    ]  # type: ignore[arg-type]


async def said(replica: Replica, hits: list[Hit]) -> list[str]:
    """What these chunks say, as far as they are there."""
    texts = await replica.texts(hits)
    return [texts[hit.chunk_id].text for hit in hits if hit.chunk_id in texts]


# ── the contract of an Index ──


def test_it_is_an_index(replica: Replica) -> None:
    """Replica has the shape of the protocol."""
    index: Index = replica

    assert index is replica


async def test_what_is_committed_is_found(replica: Replica) -> None:
    """A page is found by its words with page and parts of the score; text and headings come when asked for."""
    chunks = [Chunk("c1", "The flood reached the bridge.", ("News", "River")), Chunk("c2", "Something else.")]
    given = page("i", title="Gazette", url="https://a.example/", language="en", categories=("world",))
    await replica.upsert(given, chunks, {"c1": unit(1), "c2": unit(0, 1)})
    await commit(replica)

    hits = await replica.search(IndexQuery("flooded bridges", unit(1), EVERYTHING, 10))

    assert hits[0] == Hit("c1", "i", "v1", hits[0].score, hits[0].lexical, 1.0, given)
    assert 0 < hits[0].lexical <= 1
    assert (await replica.texts(hits))["c1"] == ChunkText(chunks[0].text, ("News", "River"))
    assert await replica.count() == 2
    assert [ids async for ids in replica.iter_ids()] == [("c1", "i", "v1"), ("c2", "i", "v1")]


async def test_nothing_is_seen_before_the_commit(replica: Replica) -> None:
    """Writes wait for the commit: searches see all of a batch or nothing."""
    await put(replica, "i", "flood")

    assert (await found(replica, "flood"), await replica.count()) == ([], 0)


async def test_versions_stand_beside_each_other_until_the_flip(replica: Replica) -> None:
    """A new version hides nothing by itself; the flip leaves it alone, also where a chunk kept its id."""
    await put(replica, "i", "old flood", version="v1", vector=unit(1))
    await put(replica, "i", "new flood", version="v2", vector=unit(1))
    await commit(replica)
    both = {hit.version for hit in await replica.search(IndexQuery("flood", None, EVERYTHING, 10))}
    await replica.keep_only("i", "v2")
    await commit(replica)

    after = await replica.search(IndexQuery("flood", unit(1), EVERYTHING, 10))

    assert both == {"v1", "v2"}
    assert [(hit.version, text) for hit, text in zip(after, await said(replica, after), strict=True)] == [
        ("v2", "new flood")
    ]
    assert [ids async for ids in replica.iter_ids()] == [("i-c", "i", "v2")]


async def test_a_version_is_replaced_by_itself(replica: Replica) -> None:
    """The same version again, within a batch or after a commit, is there once, as it came last."""
    await put(replica, "i", "flood one", categories=("a",))
    await put(replica, "i", "flood two", categories=("b",))
    await commit(replica)
    await put(replica, "i", "flood three", categories=("c",))
    await commit(replica)

    hits = await replica.search(IndexQuery("flood", None, EVERYTHING, 10))

    assert await said(replica, hits) == ["flood three"]
    assert [hit.page.categories for hit in hits if hit.page] == [("c",)]
    assert await replica.count() == 1


async def test_deleted_pages_are_gone(replica: Replica) -> None:
    """All versions go, by words and by vector; unknown pages do not matter."""
    await put(replica, "i", "flood", vector=unit(1))
    await put(replica, "i", "flood", version="v2", vector=unit(1))
    await put(replica, "other", "flood", vector=unit(1))
    await commit(replica)
    await replica.delete(["i", "unknown"])
    await replica.keep_only("unknown", "v9")
    await commit(replica)

    assert await found(replica, "flood", vector=unit(1)) == ["other"]
    assert await replica.count() == 1


async def test_pages_may_have_no_chunks(replica: Replica) -> None:
    """A page without chunks can come, flip and go."""
    await replica.upsert(page("i"), [], {})
    await commit(replica)
    await replica.delete(["i"])
    await commit(replica)

    assert await replica.count() == 0


# ── words and vectors ──


async def test_chunks_without_a_vector_are_found_by_words_alone(replica: Replica) -> None:
    """A missing vector costs a chunk nothing but its meaning."""
    await put(replica, "bare", "flood")
    await put(replica, "with", "flood", vector=unit(1))
    await put(replica, "meaning", "inundation", vector=unit(1, 0.1))
    await commit(replica)

    assert await found(replica, "flood", vector=unit(1)) == ["with", "bare", "meaning"]
    assert await found(replica, "flood", vector=unit(1), lexical_weight=0.0) == ["with", "meaning"]
    assert sorted(await found(replica, "flood", vector=unit(1), lexical_weight=1.0)) == ["bare", "with"]
    assert await found(replica, "", vector=unit(1)) == ["with", "meaning"]


async def test_titles_and_headings_are_words_too(replica: Replica) -> None:
    """A word of the title or of a heading finds the chunk, and counts more than one in passing."""
    await replica.upsert(page("text", title="Other", language="en"), [Chunk("a", "bridge of the town")], {})
    await replica.upsert(page("title", title="Bridge", language="en"), [Chunk("b", "some of the town")], {})
    await replica.upsert(page("head", title="Other", language="en"), [Chunk("c", "some town", ("Bridge",))], {})
    await commit(replica)

    results = await found(replica, "bridge")

    assert set(results) == {"text", "title", "head"}
    assert results[-1] == "text"


async def test_a_quoted_phrase_asks_for_these_words(replica: Replica) -> None:
    """Quotes: in this order, and no help from vectors."""
    await put(replica, "right", "the boundary layer grows", language="en", vector=unit(1))
    await put(replica, "wrong", "a layer at the boundary", language="en", vector=unit(1))
    await commit(replica)

    assert await found(replica, '"boundary layers"', vector=unit(1)) == ["right"]
    assert await found(replica, 'what is a "boundary layer"', vector=unit(1)) == ["right"]
    assert await found(replica, '"boundary') == await found(replica, "boundary")
    assert await found(replica, '"天" "" "unheard of"') == []


async def test_a_phrase_in_a_sentence_comes_first(replica: Replica) -> None:
    """A sentence with a quoted phrase finds what has the phrase first, then what else has its words or meaning."""
    await put(replica, "words", "growth of a layer at the boundary: growth", language="en", vector=unit(1))
    await put(replica, "phrase", "the boundary layer of this plate", language="en", vector=unit(0, 1))
    await put(replica, "other", "a sluice", language="en", vector=unit(1, 0.2))
    await commit(replica)

    assert await found(replica, 'growth of the "boundary layer"', vector=unit(1)) == ["phrase", "words", "other"]
    assert await found(replica, 'growth of the "layer boundary"', vector=unit(1)) == ["words", "other", "phrase"]


async def test_nonsense_gets_few_answers(replica: Replica) -> None:
    """Words that no text has, and that are no sentence of any language, find the nearest three, called a guess."""
    for number in range(6):
        await put(replica, f"p{number}", f"sluice {number}", language="en", vector=unit(1, number / 10))
    await commit(replica)

    nonsense, foreign, words = [
        await replica.search(IndexQuery(text, unit(1), EVERYTHING, 10))
        for text in ("qzxv jkwp", "wie öffnet man Wehre", "sluice")
    ]

    assert ([hit.item_id for hit in nonsense], nonsense.is_guess) == (["p0", "p1", "p2"], True)
    assert (len(foreign), foreign.is_guess, len(words), words.is_guess) == (6, False, 6, False)


async def test_a_word_that_languages_stem_differently_counts_once(replica: Replica) -> None:
    """English and German pages in one index: the stems of both find the word, and it does not count twice."""
    await put(replica, "en", "packages and packages", language="en")
    await put(replica, "de", "viele Pakete und Pakete", language="de")
    await commit(replica)
    hits = await replica.search(IndexQuery("packages", None, EVERYTHING, 10))

    assert [hit.item_id for hit in hits] == ["en"]
    assert await found(replica, "Paketen") == ["de"]


async def test_small_words_are_not_looked_for(replica: Replica) -> None:
    """A page with nothing but the small words of a question is not found; a question of small words alone is asked."""
    await put(replica, "small", "what is it that they do", language="en")
    await put(replica, "right", "a sluice", language="en")
    await commit(replica)

    assert await found(replica, "what is a sluice") == ["right"]
    assert await found(replica, "what is it") == ["small"]


async def test_a_page_is_found_by_words_of_several_chunks(replica: Replica) -> None:
    """A page that has the words of a question in different chunks stands before one that has a part of them."""
    together = [Chunk("a", "a weir in the river"), Chunk("b", "the gates of a lock"), Chunk("c", "nothing")]
    await replica.upsert(page("all", language="en"), together, {})
    await put(replica, "some", "a weir in the river", language="en")
    await commit(replica)

    assert (await found(replica, "weir gates lock"))[0] == "all"
    assert (await found(replica, "weir lock"))[0] == "all"


async def test_a_page_is_near_by_all_of_its_chunks(replica: Replica) -> None:
    """A page that is about the question as a whole stands before one with a single nearer chunk."""
    chunks = [Chunk("a", "one"), Chunk("b", "two")]
    await replica.upsert(page("strays"), chunks, {"a": unit(1, 0.4), "b": unit(0, 1)})
    chunks = [Chunk("c", "three"), Chunk("d", "four")]
    await replica.upsert(page("whole"), chunks, {"c": unit(1, 0.5), "d": unit(1, 0.5)})
    await commit(replica)

    assert await found(replica, "", vector=unit(1), lexical_weight=0.0) == ["whole", "whole", "strays"]


@pytest.mark.parametrize("others", [0, 100])
def test_the_mean_of_a_page_is_the_same_for_few_rows_and_for_many(others: int) -> None:
    """Whether some rows are picked or all are compared, a page's mean is that of its rows."""
    rows = [unit(1), unit(0, 1), unit(1, 1), *[unit(-1)] * others]
    matrix = np.frombuffer(b"".join(rows), dtype="<f4").reshape(-1, DIMENSION)
    query = np.frombuffer(unit(1), dtype="<f4")

    means = replica_vectors.mean_by_page(matrix, query, np.array([0, 1, 2]), np.array([7, 7, 9], dtype=np.int32))

    assert means == pytest.approx({7: 0.5, 9: 0.5**0.5})


LANGUAGES = [
    ("English", "en", "the runners were running", "run"),
    ("German", "de", "viele Häuser am Fluss", "hauser"),
    ("German plural", "de", "viele Häuser am Fluss", "Haus"),
    ("French", "fr", "les élèves de l'école", "eleve ecole"),
    ("Russian", "ru", "новости большого города", "город"),
    ("Turkish", "tr", "İstanbul'da evler", "istanbul"),
    ("unknown language", "", "Ægir's café", "cafe"),
    ("decomposed", "fr", "cafe\u0301 noir", "café"),
    ("Chinese", "zh", "今天天气很好", "天气"),
    ("Chinese, one character", "zh", "我有一只猫。", "猫"),
    ("Japanese", "ja", "東京タワーに行きました", "タワー"),
    ("Korean", "ko", "서울에서 만나요", "서울"),
    ("Thai", "th", "ประเทศไทยอยู่ในเอเชีย", "ไทย"),
    ("Hindi", "hi", "हिन्दी भाषा में समाचार", "हिन्दी"),
    ("Hebrew with points", "he", "שָׁלוֹם עולם", "שלום"),
    ("Arabic with points", "ar", "مُحَمَّد في المدينة", "محمد"),
    ("Latin inside Chinese", "zh", "使用Redis数据库", "redis"),
    ("full width", "ja", "ＡＢＣ放送", "abc"),
    ("digits", "en", "RFC 9110 says", "9110"),
]


@pytest.mark.parametrize(("name", "language", "text", "query"), LANGUAGES, ids=[row[0] for row in LANGUAGES])
async def test_languages(replica: Replica, name: str, language: str, text: str, query: str) -> None:
    """Each language finds its own words, in other forms and without accents, and gives its text back unchanged."""
    await put(replica, "other", "completely unrelated", language="en")
    await put(replica, "i", text, language=language)
    await commit(replica)

    hits = await replica.search(IndexQuery(query, None, EVERYTHING, 10))

    assert [hit.item_id for hit in hits] == ["i"]
    assert await said(replica, hits) == [text]


@pytest.mark.parametrize("language", ["en", "de", "ru", "tr", "ar", ""])
def test_remembered_words_are_what_the_analyzer_says(language: str) -> None:
    """What is remembered of single words gives the very terms that the whole text would give, also the second time."""
    for text in [*(row[2] for row in LANGUAGES), *STRANGE, "Rock’n’Roll—l'Été snake_case CAFÉ½ a" + "b" * 120]:
        spaced, has_marks = replica_stemming._spaced(text, is_query=False)
        pieces = [piece.decode() for piece in replica_stemming._pieces(spaced)]
        in_pieces = (
            replica_stemming._analyzed(piece, replica_stemming.stemmer(language), has_marks) for piece in pieces
        )
        expected = [term for terms in in_pieces for term in terms]

        assert replica_stemming.terms(text, language).split(" ") == (expected or [""])
        assert replica_stemming.terms(text, language).split(" ") == (expected or [""])


STRANGE = [
    *(
        "",
        " ",
        '"',
        '""',
        "'",
        ":",
        "title:flood",
        "a AND",
        "(",
        "[a TO b]",
        "*",
        "\\",
        "^2",
        "~",
        "+",
        "-",
        "/x/",
        "!",
    ),
    *(
        "😀",
        "👩‍👩‍👧",
        "\x00",
        "\ud800",
        "\u202eabc",
        "\ufeff",
        "%s",
        "a" * 5_000,
        "天" * 5_000,
        "x " * 50_000,
        '"' * 99,
    ),
    *("\u0301", "“flood", "«»", "flood\nflood\tflood", "<script>", "{}", "field.sub:1", "ﷺ", "İ"),
]


async def test_no_query_is_an_error(replica: Replica) -> None:
    """Quotes, colons, brackets, emoji, half characters, nonsense, very long ones: an answer, never an exception."""
    await put(replica, "i", "flood at the bridge 😀", language="en", vector=unit(1))
    await put(replica, "j", "天气", language="zh")
    await commit(replica)

    for query in STRANGE:
        for vector in (None, unit(1)):
            assert len(await replica.search(IndexQuery(query, vector, EVERYTHING, 10))) <= 2, query
    assert await replica.search(IndexQuery("flood", unit(1), EVERYTHING, 0)) == []
    assert len(await replica.search(IndexQuery("flood", unit(1), EVERYTHING, 100_000))) == 1


@pytest.mark.parametrize("text", ["", " ", "a" * 1_000_000, "天" * 300_000, "😀" * 1000, "\x00", "\u202e\u200f"])
async def test_no_text_is_an_error(replica: Replica, text: str) -> None:
    """Empty texts, a word of a megabyte, emoji: kept, counted, and the page is found by its title."""
    await put(replica, "i", text, title="Gazette")
    await commit(replica)

    hits = await replica.search(IndexQuery("gazette", None, EVERYTHING, 10))

    assert await said(replica, hits) == [text]


# ── filters ──

FILTERS = [
    ("nothing", Filters(), "abc"),
    ("category", Filters(categories=("world",)), "ab"),
    ("two categories", Filters(categories=("world", "sport")), "abc"),
    ("domain", Filters(domains=("docs",)), "c"),
    ("host", Filters(hosts=("a.example",)), "a"),
    ("language", Filters(languages=("de",)), "b"),
    ("type", Filters(types=("file",)), "c"),
    ("since", Filters(since_ts=200), "b"),
    ("until", Filters(until_ts=200), "a"),
    ("between", Filters(since_ts=100, until_ts=300), "ab"),
    ("from zero", Filters(since_ts=0), "ab"),
    ("before all", Filters(until_ts=-5), ""),
    ("all of them", Filters(categories=("world",), languages=("en",), since_ts=50, hosts=("a.example",)), "a"),
    ("never together", Filters(categories=("world",), types=("file",)), ""),
    ("unknown", Filters(categories=("nowhere",)), ""),
    ("a strange name", Filters(categories=('"x" OR category:world',)), ""),
]


@pytest.mark.parametrize(("name", "filters", "expected"), FILTERS, ids=[row[0] for row in FILTERS])
async def test_filters(replica: Replica, name: str, filters: Filters, expected: str) -> None:
    """Words and vectors obey the same filters; a page without a date matches no span of time."""
    common = {"vector": unit(1)}
    await put(
        replica, "a", "flood", **common, categories=("world", "x"), host="a.example", language="en", published_ts=100.0
    )
    await put(replica, "b", "flood", **common, categories=("world",), host="b.example", language="de", updated_ts=300.0)
    await put(replica, "c", "flood", **common, categories=("sport",), domains=("docs",), type="file")
    await commit(replica)

    assert "".join(sorted(await found(replica, "flood", filters))) == expected
    assert "".join(sorted(await found(replica, "", filters, vector=unit(1)))) == expected


async def test_few_of_many_are_compared_alone(replica: Replica) -> None:
    """A filter that leaves few rows gives the same order as one that leaves all."""
    dice = np.random.default_rng(1)
    for number in range(200):
        category = "few" if number % 10 == 0 else "many"
        await put(replica, f"i{number}", "x", vector=unit(*dice.normal(size=DIMENSION)), categories=(category,))
    await commit(replica)
    query = unit(1, 1)

    everything = await replica.search(IndexQuery("", query, EVERYTHING, 200))
    few = await replica.search(IndexQuery("", query, Filters(categories=("few",)), 200))

    assert 0 < len(few) <= 20
    assert [hit.item_id for hit in few] == [h.item_id for h in everything if h.page and h.page.categories == ("few",)]


# ── vectors that do not fit ──


async def test_a_wrong_dimension_is_refused_with_a_sentence(replica: Replica, tmp_path: Path) -> None:
    """In a write, in a search and at opening; a refused page changes nothing and the writer goes on."""
    await put(replica, "i", "flood", vector=unit(1))
    with pytest.raises(InvalidVector, match="5 dimensions, this search replica 8"):
        await put(replica, "i", "other", vector=bytes(20))
    with pytest.raises(InvalidVector, match="not finite"):
        await put(replica, "i", "other", vector=np.full(8, np.nan, dtype="<f4").tobytes())
    await commit(replica)

    with pytest.raises(InvalidVector, match="two models"):
        await replica.search(IndexQuery("flood", bytes(12), EVERYTHING, 10))
    with pytest.raises(ReplicaBroken, match="8 dimensions, not 16"):
        Replica(tmp_path, 16)
    assert await found(replica, "flood") == ["i"]
    assert await found(Replica(tmp_path, None), "flood", vector=unit(1)) == ["i"]


async def test_a_replica_without_vectors_searches_by_words(tmp_path: Path) -> None:
    """Without a dimension vectors are left out when given, and a search with one is refused."""
    replica = Replica(tmp_path)
    assert replica.try_write_lock()
    await put(replica, "i", "flood", vector=unit(1))
    await commit(replica)

    assert await found(replica, "flood") == ["i"]
    with pytest.raises(InvalidVector, match="without vectors"):
        await found(replica, "flood", vector=unit(1))
    with pytest.raises(ReplicaBroken):
        Replica(tmp_path, DIMENSION)


# ── who writes, who reads ──


async def test_a_second_writer_is_refused(replica: Replica, tmp_path: Path) -> None:
    """One writes; another may when the first lets go."""
    other = Replica(tmp_path, DIMENSION)

    assert (replica.try_write_lock(), other.try_write_lock()) == (True, False)
    with pytest.raises(ReplicaBusy):
        await put(other, "i", "flood")
    with pytest.raises(ReplicaBusy):
        await commit(other)
    assert not erase(tmp_path)
    replica.close()
    assert other.try_write_lock()
    await put(other, "i", "flood")
    await commit(other)
    assert await found(other, "flood") == ["i"]


async def test_a_reader_beside_the_writer_sees_each_commit(replica: Replica, tmp_path: Path) -> None:
    """A reader opened before follows puts, flips and deletions with its next search, and nothing before the commit."""
    reader = Replica(tmp_path, DIMENSION)
    seen = []
    await put(replica, "i", "flood", vector=unit(1))
    seen.append(await found(reader, "flood"))
    await commit(replica, "7")
    seen.append(await found(reader, "flood", vector=unit(1)))
    await put(replica, "i", "fire", version="v2", vector=unit(1))
    await replica.keep_only("i", "v2")
    await put(replica, "j", "flood")
    await commit(replica, "8")
    seen += [await found(reader, "flood"), await found(reader, "fire", lexical_weight=1.0)]
    await replica.delete(["i", "j"])
    await commit(replica, "9")
    seen.append(await found(reader, "flood fire", vector=unit(1)))

    assert seen == [[], ["i"], ["j"], ["i"], []]
    assert reader.checkpoint == Checkpoint("9", "space")


async def test_a_reader_follows_a_compaction_and_a_rebuild(
    replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are replaced as a whole are followed too; what is dead leaves the disk."""
    monkeypatch.setattr(replica_table, "COMPACT_ABOVE_ROWS", 10)
    reader = Replica(tmp_path, DIMENSION)
    for number in range(60):
        await put(replica, f"i{number}", f"flood number{number}", vector=unit(1, number))
    await commit(replica)
    assert await reader.count() == 60
    await replica.delete([f"i{number}" for number in range(50)])
    await commit(replica)

    assert [path.name for path in sorted((tmp_path / "vectors").iterdir())] == ["1.f32", "1.log", "1.other.f32"]
    assert (tmp_path / "vectors" / "1.f32").stat().st_size == 10 * DIMENSION * 4
    for one in (reader, replica):
        assert await found(one, "number55") == ["i55"]
        assert (await found(one, "", vector=unit(1, 59)))[0] == "i59"
    await put(replica, "late", "flood", vector=unit(1))
    await commit(replica)
    assert "late" in await found(reader, "flood", vector=unit(1))
    replica.close()

    assert erase(tmp_path)
    assert await reader.count() == 11
    anew = Replica(tmp_path, DIMENSION)
    assert anew.try_write_lock()
    await put(anew, "anew", "flood")
    await commit(anew)
    assert await found(reader, "flood") == ["anew"]


async def test_two_writers_take_turns(replica: Replica, tmp_path: Path) -> None:
    """Who lets go after each commit leaves room; each continues after what the other wrote, also after a compaction."""
    other = Replica(tmp_path, DIMENSION)
    replica.stop_writing()
    for number in range(20):
        for turn, writer in enumerate((replica, other)):
            assert writer.try_write_lock()
            assert not (other, replica)[turn].try_write_lock()
            await writer.delete([f"i{turn}"])  # the first thing a new writer does
            await put(writer, f"i{turn}", f"flood number{number}", vector=unit(1, number), version=f"v{number}")
            await commit(writer, f"{number}-{turn}")
            writer.stop_writing()

    for one in (replica, other, Replica(tmp_path, DIMENSION)):
        assert sorted(await found(one, "flood number19", vector=unit(1))) == ["i0", "i1"]
        assert (await one.count(), one.checkpoint.position) == (2, "19-1")
        assert await found(one, "number18") == []


async def test_a_writer_that_comes_back_looks_only_at_what_is_new(
    replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checksums are compared the first time; then not of what we wrote ourselves, and once of what another wrote."""
    looked: list[str] = []
    rows, words = replica_vectors.verify, replica_lexical._is_whole
    monkeypatch.setattr(replica_vectors, "verify", lambda *given: (looked.append("rows"), rows(*given)))
    monkeypatch.setattr(replica_lexical, "_is_whole", lambda path: (looked.append(path.suffix), words(path))[1])
    await put(replica, "i", "flood", vector=unit(1))
    await commit(replica)
    replica.stop_writing()
    assert replica.try_write_lock()
    replica.stop_writing()
    assert looked == []

    other = Replica(tmp_path, DIMENSION)
    assert other.try_write_lock()
    assert {"rows", ".store"} <= set(looked)
    await put(other, "j", "flood", vector=unit(1))
    await commit(other)
    other.close()
    looked.clear()

    assert replica.try_write_lock()
    assert (looked.count("rows"), looked.count(".store")) == (1, 1)


@pytest.mark.parametrize("name", ["a vector changed", "a text changed"])
async def test_a_writer_that_comes_back_refuses_what_another_damaged(
    replica: Replica, tmp_path: Path, name: str
) -> None:
    """What another wrote meanwhile is compared with its checksums as at the first time."""
    replica.stop_writing()
    await filled(tmp_path)
    QUIET_DAMAGE[name](tmp_path)

    with pytest.raises(ReplicaBroken, match="damaged"):
        replica.try_write_lock()


async def test_a_writer_that_lets_go_lets_tantivy_tidy_up(replica: Replica) -> None:
    """Many small commits, each with a writer of its own, leave few segments."""
    for number in range(40):
        assert replica.try_write_lock()
        await put(replica, f"i{number}", "flood")
        await commit(replica)
        replica.stop_writing()

    assert replica.try_write_lock()
    await commit(replica)
    assert replica._snapshot
    assert replica._snapshot.searcher.num_segments <= 10
    assert await replica.count() == 40


async def test_it_is_all_there_after_opening_again(replica: Replica, tmp_path: Path) -> None:
    """Words, vectors, pages and position survive; what was not committed does not."""
    await put(replica, "i", "flood", vector=unit(1), title="Gazette", categories=("world",))
    await commit(replica, "42-1")
    await put(replica, "lost", "flood", vector=unit(1))
    replica.close()

    again = Replica(tmp_path, DIMENSION)

    assert again.checkpoint == Checkpoint("42-1", "space")
    assert await found(again, "flood", vector=unit(1)) == ["i"]
    assert again.try_write_lock()
    await put(again, "more", "flood", vector=unit(1))
    await commit(again)
    assert sorted(await found(again, "flood", vector=unit(1))) == ["i", "more"]


async def test_removing_the_folder_under_the_writer_is_noticed(replica: Replica, tmp_path: Path) -> None:
    """Somebody deleted the lock: the commit says so and does not write into the void."""
    await put(replica, "i", "flood")
    (tmp_path / "writer.lock").unlink()

    with pytest.raises(ReplicaBroken, match="was removed while we wrote it"):
        await commit(replica)
    assert replica._writer is None


async def test_a_failed_write_gives_the_lock_back(replica: Replica, tmp_path: Path) -> None:
    """After a write that broke in the middle the lock can be taken again, and the last commit is what there is."""
    await put(replica, "i", "flood", vector=unit(1))
    await commit(replica)
    with pytest.raises(AttributeError):
        await replica.upsert(page("j"), [Chunk("c", 5)], {})  # type: ignore[arg-type]

    assert replica._writer is None
    assert replica.try_write_lock()
    await put(replica, "k", "flood", vector=unit(1))
    await commit(replica)
    assert sorted(await found(replica, "flood", vector=unit(1))) == ["i", "k"]


# ── damage ──


def flip_a_byte(path: Path, at: float = 0.5) -> None:
    raw = bytearray(path.read_bytes())
    raw[int(len(raw) * at)] ^= 0xFF
    path.write_bytes(raw)


async def filled(folder: Path) -> None:
    replica = Replica(folder, DIMENSION)
    assert replica.try_write_lock()
    for number in range(50):
        await put(replica, f"i{number}", f"flood number{number}", vector=unit(1, number))
    await commit(replica)
    await replica.delete(["i3"])
    await commit(replica)
    replica.close()


DAMAGE = {
    "state is no JSON": lambda f: (f / "state.json").write_text("{"),
    "state is a list": lambda f: (f / "state.json").write_text("[]"),
    "state of another schema": lambda f: (f / "state.json").write_text('{"schema": 99}'),
    "state lacks a field": lambda f: (f / "state.json").write_text(f'{{"schema": {SCHEMA}}}'),
    "log cut": lambda f: os.truncate(f / "vectors" / "0.log", 100),
    "log gone": lambda f: (f / "vectors" / "0.log").unlink(),
    "log changed": lambda f: flip_a_byte(f / "vectors" / "0.log"),
    "vectors cut": lambda f: os.truncate(f / "vectors" / "0.f32", 100),
    "vectors gone": lambda f: (f / "vectors" / "0.f32").unlink(),
    "words gone": lambda f: [path.unlink() for path in (f / "lexical").iterdir()],
    "words lack a meta": lambda f: (f / "lexical" / "meta.json").unlink(),
    "words have a broken meta": lambda f: (f / "lexical" / "meta.json").write_text("{"),
    "a segment gone": lambda f: next((f / "lexical").glob("*.term")).unlink(),
    "a segment cut": lambda f: os.truncate(next((f / "lexical").glob("*.idx")), 20),
    "a segment empty": lambda f: os.truncate(next((f / "lexical").glob("*.fast")), 0),
}
QUIET_DAMAGE = {
    "a vector changed": lambda f: flip_a_byte(f / "vectors" / "0.f32"),
    "a text changed": lambda f: flip_a_byte(next((f / "lexical").glob("*.store")), 0.1),
    "a term changed": lambda f: flip_a_byte(next((f / "lexical").glob("*.term")), 0.3),
    "a deletion changed": lambda f: flip_a_byte(next((f / "lexical").glob("*.del")), 0.01),
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_damage_is_seen_at_opening(tmp_path: Path, name: str) -> None:
    """Files that are cut, missing or foreign: ReplicaBroken, and after erasing it can be built anew."""
    await filled(tmp_path)
    DAMAGE[name](tmp_path)

    with pytest.raises(ReplicaBroken, match="search replica"):
        Replica(tmp_path, DIMENSION)
    assert erase(tmp_path)
    assert await Replica(tmp_path, DIMENSION).count() == 0


@pytest.mark.parametrize("name", QUIET_DAMAGE)
async def test_changed_bytes_are_seen_by_the_writer(tmp_path: Path, name: str) -> None:
    """A byte that changed on disk is found by its checksum before anything is added."""
    await filled(tmp_path)
    QUIET_DAMAGE[name](tmp_path)
    replica = Replica(tmp_path, DIMENSION)

    with pytest.raises(ReplicaBroken, match="damaged"):
        replica.try_write_lock()
    replica.close()
    assert erase(tmp_path)


async def test_erasing_touches_nothing_else(tmp_path: Path) -> None:
    """A folder that was named by mistake keeps its files."""
    (tmp_path / "letter.txt").write_text("mine")
    await filled(tmp_path)

    assert erase(tmp_path)
    assert (tmp_path / "letter.txt").read_text() == "mine"


# ── crashes ──

WRITER = """
import asyncio, sys
from pathlib import Path
from core.search.io import replica_table
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from tests.test_replica import put, unit, DIMENSION

replica_table.COMPACT_ABOVE_ROWS = 20

async def main():
    replica = Replica(Path(sys.argv[1]), DIMENSION)
    assert replica.try_write_lock()
    number = int(replica.checkpoint.position or 0)
    while True:
        for _ in range(7):
            number += 1
            await put(replica, f"i{number}", f"flood number{number}", vector=unit(1, number))
            if number > 40:
                await replica.delete([f"i{number - 40}"])
        await replica.commit(Checkpoint(str(number)))
        print(number, flush=True)
        if number % 3 == 0:
            replica.stop_writing()
            assert replica.try_write_lock()

asyncio.run(main())
"""


def killed_writer(folder: Path, seconds: float) -> int:
    """Let a process write for a while and kill it at any moment; gives the last commit it told of."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        first = writer.stdout.readline()
        try:
            rest, _ = writer.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
            rest, _ = writer.communicate()
    return int([first, *rest.split()][-1])


async def test_a_writer_killed_at_any_moment_leaves_a_whole_replica(tmp_path: Path, full: bool) -> None:
    """After kill -9 the state claims what is there: each page by words and by vector, nothing twice, nothing dead."""
    dice = random.Random(5)
    for _ in range(40 if full else 2):
        told = killed_writer(tmp_path, dice.uniform(0.05, 0.4))
        replica = Replica(tmp_path, DIMENSION)
        assert replica.try_write_lock()
        last = int(replica.checkpoint.position)
        expected = [f"i{number}" for number in range(max(1, last - 39), last + 1)]

        assert last >= told
        assert [item async for _, item, _ in replica.iter_ids()] == expected
        by_vector = await replica.search(IndexQuery("", unit(1, last), EVERYTHING, 100))
        assert sorted(hit.item_id for hit in by_vector) == sorted(expected)
        for item in (expected[-1], expected[-7]):
            assert await found(replica, item.replace("i", "number")) == [item]
        replica.close()


async def test_a_commit_that_only_lacks_its_state_is_finished(replica: Replica, tmp_path: Path) -> None:
    """A crash between tantivy's commit and the state: the next writer finishes it."""
    await put(replica, "old", "flood", vector=unit(1))
    await commit(replica, "1")
    state = (tmp_path / "state.json").read_bytes()
    await put(replica, "new", "flood", vector=unit(1))
    await commit(replica, "2")
    await put(replica, "torn", "flood", vector=unit(1))
    replica.close()
    (tmp_path / "state.json").write_bytes(state)

    again = Replica(tmp_path, DIMENSION)
    before = (await found(again, "flood", vector=unit(1)), again.checkpoint.position)
    assert again.try_write_lock()
    after = (sorted(await found(again, "flood", vector=unit(1))), again.checkpoint.position)
    await put(again, "next", "flood", vector=unit(1))
    await commit(again, "3")

    assert (before, after) == ((["old"], "1"), (["new", "old"], "2"))
    assert sorted(await found(again, "flood", vector=unit(1))) == ["new", "next", "old"]


async def test_what_a_crash_left_of_a_commit_is_in_nobodys_way(replica: Replica, tmp_path: Path) -> None:
    """A crash after tantivy wrote its deletions and before it spoke of them: the same commit again succeeds."""
    files = [tmp_path / "state.json", tmp_path / "lexical" / "meta.json"]

    async def change() -> None:
        assert replica.try_write_lock()
        await put(replica, "i", "fire", version="v2")
        await replica.keep_only("i", "v2")
        await commit(replica, "2")
        replica.stop_writing()

    await put(replica, "i", "flood")
    await put(replica, "j", "flood")
    await commit(replica, "1")
    replica.stop_writing()
    before = [path.read_bytes() for path in files]
    await change()
    replica.close()
    for path, raw in zip(files, before, strict=True):
        path.write_bytes(raw)

    replica = Replica(tmp_path, DIMENSION)
    assert list((tmp_path / "lexical").glob("*.del"))
    await change()

    assert (await found(replica, "flood"), await found(replica, "fire")) == (["j"], ["i"])


async def test_a_commit_that_tantivy_never_saw_is_cut_off(replica: Replica, tmp_path: Path) -> None:
    """A crash before tantivy's commit, log and vectors already on disk, the last line torn: as if it never was."""
    await put(replica, "old", "flood", vector=unit(1))
    await commit(replica, "1")
    replica.close()
    with (tmp_path / "vectors" / "0.log").open("ab") as log, (tmp_path / "vectors" / "0.f32").open("ab") as rows:
        lost = replica_log.PutPage(page("lost"), 1, ("lost-c",), (True,), 0)
        log.write(
            replica_log.encode(lost) + replica_log.encode(replica_log.CommitMarker(2, Checkpoint("2"))) + b"0123 torn"
        )
        rows.write(unit(1) + b"torn")

    again = Replica(tmp_path, DIMENSION)
    assert again.try_write_lock()
    await put(again, "next", "flood", vector=unit(1))
    await commit(again, "2")

    assert sorted(await found(again, "flood", vector=unit(1))) == ["next", "old"]
    assert sorted(await found(Replica(tmp_path, DIMENSION), "flood", vector=unit(1))) == ["next", "old"]
