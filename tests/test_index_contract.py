"""What every index back end keeps: the protocol, run over each of them."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from core.models import Chunk, VectorSpace
from core.search.io import qdrant_connect
from core.search.io.qdrant_index import QdrantIndex
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from core.search.models import ChunkText, Filters, IndexedPage, IndexQuery, QueryVector
from core.search.protocols import Index
from core.search.vector_spaces import Spaces
from core.settings import Settings

DIMENSION, OTHER_DIMENSION = 4, 2
SPACES = Spaces([VectorSpace("test", DIMENSION, "1"), VectorSpace("other", OTHER_DIMENSION, "1")])
QDRANT_URL = os.environ.get("QDRANT_URL", "")


class Opened(Protocol):
    """An index, how its writes become visible, and how its writer makes room for another and comes back."""

    index: Index

    async def settle(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class OpenedReplica:
    def __init__(self, folder: Path) -> None:
        self.replica = Replica(folder, DIMENSION, OTHER_DIMENSION)
        assert self.replica.try_write_lock()
        self.index: Index = self.replica

    async def settle(self) -> None:
        await self.replica.commit(Checkpoint("1-1", "test"))

    def pause(self) -> None:
        self.replica.stop_writing()

    def resume(self) -> None:
        assert self.replica.try_write_lock()


@asynccontextmanager
async def open_replica(folder: Path) -> AsyncIterator[Opened]:
    opened = OpenedReplica(folder)
    yield opened
    opened.replica.close()


class OpenedQdrant:
    def __init__(self, index: QdrantIndex) -> None:
        self.qdrant = index
        self.index: Index = index

    async def settle(self) -> None:
        await self.qdrant.commit(Checkpoint("1-1", "test"))

    def pause(self) -> None:
        self.qdrant.forget_writes()

    def resume(self) -> None:
        pass


@asynccontextmanager
async def open_qdrant(folder: Path) -> AsyncIterator[Opened]:
    """Its local mode; the same tests on a server, if QDRANT_URL of the environment names one."""
    async with qdrant_connect.open_client(Settings(qdrant_url=QDRANT_URL or str(folder))) as client:
        index = QdrantIndex(client, "freshet-test", SPACES, is_local=not QDRANT_URL)
        await index.open()
        yield OpenedQdrant(index)
        await index.delete_all()


@pytest.fixture(params=[open_replica, open_qdrant], ids=["redis", "qdrant"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    async with request.param(tmp_path / "index") as made:
        yield made


def vector(*numbers: float) -> bytes:
    length = sum(number * number for number in numbers) ** 0.5
    return struct.pack("<4f", *(number / length for number in numbers))


EAST, NORTH = vector(1, 0, 0, 0), vector(0, 1, 0, 0)


def chunk(name: str, text: str, order: int = 0) -> Chunk:
    return Chunk(name, text, (), order, f"hash-{text}")


async def ask(opened: Opened, text: str = "", near: bytes | None = None, **more: Any) -> list[str]:
    """Ids of the chunks that are found, best first."""
    found = await opened.index.search(IndexQuery(text, near, Filters(**more), 10))
    return [hit.chunk_id for hit in found]


async def test_words_vectors_and_both(opened: Opened) -> None:
    """A chunk is found by what it says, by where its vector points, and best by both."""
    page = IndexedPage("url_1", "v1", language="en")
    chunks = [chunk("c_weir", "The weir."), chunk("c_lock", "The lock.", 1)]
    await opened.index.upsert(page, chunks, {"c_weir": EAST, "c_lock": NORTH})
    await opened.index.keep_only("url_1", "v1")
    await opened.settle()

    assert await ask(opened, "weir") == ["c_weir"]
    assert (await ask(opened, "", NORTH))[0] == "c_lock"
    assert (await ask(opened, "lock", NORTH))[0] == "c_lock"
    assert await opened.index.count() == 2


async def test_flip_leaves_one_version(opened: Opened) -> None:
    """Before the flip both versions may be found, each named as what it is; after it only the new one."""
    await opened.index.upsert(IndexedPage("url_1", "v1"), [chunk("c_1", "weir old")], {"c_1": EAST})
    await opened.index.upsert(IndexedPage("url_1", "v2"), [chunk("c_2", "weir new")], {"c_2": EAST})
    await opened.settle()
    both = {hit.version for hit in await opened.index.search(IndexQuery("weir", None, Filters(), 10))}
    await opened.index.keep_only("url_1", "v2")
    await opened.settle()

    assert both == {"v1", "v2"}
    assert await ask(opened, "weir", EAST) == ["c_2"]
    assert [row async for row in opened.index.iter_ids()] == [("c_2", "url_1", "v2")]


async def test_deleted_pages_are_gone_and_others_are_not(opened: Opened) -> None:
    """With all their versions; deleting what is not there is nothing."""
    for name in ("url_1", "url_2"):
        await opened.index.upsert(IndexedPage(name, "v1"), [chunk(f"c_{name}", "weir")], {})
    await opened.settle()
    await opened.index.delete(["url_1", "url_nobody"])
    await opened.settle()

    assert await ask(opened, "weir") == ["c_url_2"]
    assert await opened.index.count() == 1


async def test_writing_twice_is_writing_once(opened: Opened) -> None:
    """The same version again takes the place of the first."""
    for _ in range(3):
        await opened.index.upsert(IndexedPage("url_1", "v1"), [chunk("c_1", "weir")], {"c_1": EAST})
        await opened.index.keep_only("url_1", "v1")
        await opened.settle()

    assert await opened.index.count() == 1
    assert await ask(opened, "weir", EAST) == ["c_1"]


@pytest.mark.parametrize(
    "one",
    [
        {"categories": ("world",)},
        {"domains": ("docs",)},
        {"hosts": ("example.org",)},
        {"languages": ("de",)},
        {"types": ("file",)},
        {"since_ts": 150.0},
    ],
    ids=lambda one: next(iter(one)),
)
async def test_filters_hold_for_words_and_vectors(opened: Opened, one: dict[str, Any]) -> None:
    """Only what passes is found, by either way."""
    passing = {"categories": ("world",), "domains": ("docs",), "host": "example.org", "language": "de", "type": "file"}
    await opened.index.upsert(
        IndexedPage("url_1", "v1", published_ts=200.0, **passing), [chunk("c_1", "weir")], {"c_1": EAST}
    )
    await opened.index.upsert(
        IndexedPage("url_2", "v1", language="en", published_ts=100.0), [chunk("c_2", "weir")], {"c_2": EAST}
    )
    await opened.settle()

    assert sorted(await ask(opened, "weir", EAST)) == ["c_1", "c_2"]
    assert await ask(opened, "weir", **one) == ["c_1"]
    assert await ask(opened, "", EAST, **one) == ["c_1"]


async def test_no_text_and_no_question_is_an_error(opened: Opened) -> None:
    """Nothing, marks, another script, a page without chunks."""
    await opened.index.upsert(IndexedPage("url_1", "v1"), [], {})
    await opened.index.upsert(IndexedPage("url_2", "v1"), [chunk("c_1", ""), chunk("c_2", "🦦 水位", 1)], {})
    await opened.settle()
    for text in ("", " ", '"', "(", "x" * 10_000):
        assert await ask(opened, text) == [], text
    for text in ("水位", "🦦"):
        assert set(await ask(opened, text)) <= {"c_2"}, text


async def test_texts_come_when_asked_for(opened: Opened) -> None:
    """By chunk id, with headings; what went since the search is left out."""
    said = [Chunk("c_1", "The weir.", ("River", "Works"), 0, "h1"), chunk("c_2", "Another weir.", 1)]
    await opened.index.upsert(IndexedPage("url_1", "v1"), said, {})
    await opened.index.upsert(IndexedPage("url_2", "v1"), [chunk("c_3", "A third weir.")], {})
    await opened.settle()
    hits = await opened.index.search(IndexQuery("weir", None, Filters(), 10))

    assert await opened.index.texts(hits) == {
        "c_1": ChunkText("The weir.", ("River", "Works")),
        "c_2": ChunkText("Another weir."),
        "c_3": ChunkText("A third weir."),
    }
    assert await opened.index.texts([]) == {}

    await opened.index.delete(["url_1"])
    await opened.settle()
    assert list(await opened.index.texts(hits)) == ["c_3"]


async def test_vectors_say_nothing_of_a_language_that_is_not_spoken(opened: Opened) -> None:
    """A page that reads as one is found by its words alone, and these count in full; not known counts as spoken."""
    for name, reads_as in (("c_en", "en"), ("c_unknown", ""), ("c_ru", "ru")):
        page = IndexedPage(f"url_{name}", "v1", detected_language=reads_as)
        await opened.index.upsert(page, [chunk(name, f"weir {name}")], {name: EAST})
    await opened.settle()
    understood = frozenset({"en", "de"})

    near = await opened.index.search(IndexQuery("", EAST, Filters(), 10, 0.5, understood))
    both = await opened.index.search(IndexQuery("c_ru", NORTH, Filters(), 10, 0.3, understood))
    by_vector = await opened.index.search(IndexQuery("weir", EAST, Filters(), 10, 0.0, understood))

    assert sorted(hit.chunk_id for hit in near) == ["c_en", "c_unknown"]
    assert [(hit.chunk_id, hit.score, hit.semantic) for hit in both[:1]] == [("c_ru", 1.0, 0.0)]
    assert sorted((hit.chunk_id, hit.semantic) for hit in by_vector) == [
        ("c_en", 1.0),
        ("c_ru", 0.0),
        ("c_unknown", 1.0),
    ]
    assert len(await opened.index.search(IndexQuery("", EAST, Filters(), 10, 0.5, None))) == 3


async def test_a_writer_makes_room_and_comes_back(opened: Opened) -> None:
    """What was committed stays findable meanwhile, what was not is lost, and after it writing goes on."""
    await opened.index.upsert(IndexedPage("url_1", "v1"), [chunk("c_1", "weir")], {"c_1": EAST})
    await opened.settle()
    await opened.index.upsert(IndexedPage("url_2", "v1"), [chunk("c_2", "weir")], {"c_2": EAST})
    await opened.index.delete(["url_1"])
    opened.pause()
    assert await ask(opened, "weir", EAST) == ["c_1"]

    opened.resume()
    await opened.index.delete(["url_1"])
    await opened.index.upsert(IndexedPage("url_3", "v1"), [chunk("c_3", "weir")], {"c_3": EAST})
    await opened.settle()
    opened.pause()

    assert await ask(opened, "weir", EAST) == ["c_3"]
    assert [row async for row in opened.index.iter_ids()] == [("c_3", "url_3", "v1")]


# ── chunks that wait for their vectors ──


async def test_what_has_no_vector_is_ranked_by_its_words(opened: Opened) -> None:
    """On equal terms: a chunk that has the words of the question and no vector yet comes before one whose vector is
    merely the nearest there is, and before one that has fewer of the words and the nearest vector."""
    nonsense, weak = chunk("c_nonsense", "An unrelated note."), chunk("c_weak", "A weir and many other things " * 8)
    await opened.index.upsert(IndexedPage("url_1", "v1"), [nonsense, weak], {"c_nonsense": EAST, "c_weak": EAST})
    await opened.index.upsert(IndexedPage("url_2", "v1"), [chunk("c_new", "The weir was repaired.")], {})
    await opened.settle()

    hits = await opened.index.search(IndexQuery("weir repaired", EAST, Filters(), 10, 0.55))

    assert hits[0].chunk_id == "c_new"
    assert hits[0].score == hits[0].lexical > 0.8
    assert {hit.chunk_id for hit in hits} == {"c_new", "c_weak", "c_nonsense"}


async def test_nonsense_with_vectors_does_not_pass_many_that_wait(opened: Opened) -> None:
    """As long as nothing that words find has a vector, what is nearest by meaning comes after all that words find."""
    await opened.index.upsert(
        IndexedPage("url_1", "v1"), [chunk("c_nonsense", "An unrelated note.")], {"c_nonsense": EAST}
    )
    for n in range(8):
        await opened.index.upsert(IndexedPage(f"url_w{n}", "v1"), [chunk(f"c_{n}", "weir " + "filler " * 12 * n)], {})
    await opened.settle()

    assert (await ask(opened, "weir", EAST))[-1] == "c_nonsense"


async def test_one_that_waits_changes_little_for_the_others(opened: Opened) -> None:
    """The order of chunks that have vectors is as it was when one more that has none comes in."""
    near = {f"c_{n}": vector(1, n, 0, 0) for n in range(20)}
    chunks = [chunk(name, f"The weir number {name} {'and more ' * n}") for n, name in enumerate(near)]
    await opened.index.upsert(IndexedPage("url_1", "v1"), chunks, near)
    await opened.settle()
    before = await ask(opened, "weir", EAST)
    await opened.index.upsert(IndexedPage("url_2", "v1"), [chunk("c_new", f"A weir {'far away ' * 20}")], {})
    await opened.settle()

    after = [name for name in await ask(opened, "weir", EAST) if name != "c_new"]
    assert len(after) >= 9
    assert after == before[: len(after)]


async def test_what_nothing_is_near_gets_few_answers(opened: Opened) -> None:
    """Little of the question is in any text, and nothing is near: a few answers, called a guess; fewer where no text
    has any of the words. Where something is near, the words may be others for the same."""
    for n in range(6):
        name = f"c_{n}"
        await opened.index.upsert(
            IndexedPage(f"url_{n}", "v1", detected_language="en"),
            [chunk(name, f"A weir {n}")],
            {name: vector(0.4, 0.9, n / 9, 0)},
        )
    await opened.settle()

    async def hits(text: str, clear: float = 0.5) -> tuple[int, bool]:
        query = IndexQuery(text, EAST, Filters(), 10, 0.5, frozenset({"en"}), None, clear)
        found = await opened.index.search(query)
        return len(found), found.is_guess

    assert await hits("where is the zxqv blorft of wuggle") == (3, True)
    assert await hits("who erased the film") == (3, True)
    assert await hits("which film and river has a weir") == (5, True)
    assert await hits("a weir with the number 4") == (6, False)
    assert await hits("who erased the film", 0.2) == (6, False)


async def test_a_quoted_phrase_that_no_text_has_is_told(opened: Opened) -> None:
    """Beside other words, whether these are found or only near; where all phrases are in one text, nothing is said."""
    await opened.index.upsert(IndexedPage("url_1", "v1"), [chunk("c_1", "A weir of stone, and a mill.")], {"c_1": EAST})
    await opened.settle()

    async def lacks(text: str, weight: float = 0.5) -> bool:
        return (await opened.index.search(IndexQuery(text, EAST, Filters(), 10, weight))).lacks_phrases

    assert await lacks('weir "stone of a"')
    assert await lacks('weir "of stone" "mill of"')
    assert await lacks('harbour "stone of a"')
    assert not await lacks('weir "of stone"')
    assert not await lacks("weir of a stone")


# ── a model of other languages ──


async def test_each_page_is_compared_by_one_model(opened: Opened) -> None:
    """An English page by the main one, also if it has vectors of both; a German page by the other one."""
    near, far = struct.pack("<2f", 1, 0), struct.pack("<2f", 0.6, 0.8)
    english, german = (
        IndexedPage("url_en", "v1", detected_language="en"),
        IndexedPage("url_de", "v1", detected_language="de"),
    )
    await opened.index.upsert(english, [chunk("c_en", "weir")], {"c_en": vector(1, 1, 0, 0)}, {"c_en": near})
    await opened.index.upsert(german, [chunk("c_de", "Wehr")], {}, {"c_de": far})
    await opened.index.upsert(IndexedPage("url_ru", "v1", detected_language="ru"), [chunk("c_ru", "плотина")], {})
    await opened.settle()
    other = QueryVector(near, frozenset({"de"}))

    both = await opened.index.search(IndexQuery("", EAST, Filters(), 10, 0.5, frozenset({"en"}), other))
    alone = await opened.index.search(IndexQuery("", None, Filters(), 10, 0.5, frozenset({"en"}), other))
    words = await opened.index.search(IndexQuery("плотина", None, Filters(), 10, 0.5, frozenset({"en"}), other))

    assert [hit.chunk_id for hit in both] == ["c_en", "c_de"]
    assert [hit.chunk_id for hit in alone] == ["c_de"]
    assert "c_ru" in [hit.chunk_id for hit in words]
