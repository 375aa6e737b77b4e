"""The replica follows Redis: after a stop, a gap, damage, loss."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.models import Chunk
from core.registry.io.item_forgetter import ItemForgetter
from core.search.io.replica_opener import replica_folder
from core.search.io.replica_state import try_lock
from core.search.io.searcher import open_searcher
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.models import Filters, IndexedPage, Query
from core.settings import Settings
from core.store.event_command import EVENTS_KEPT
from tests.search_site import Library, open_library


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """Three pages, embedded and searched once."""
    async with open_library(settings, {"/a": "The weir.", "/b": "The sluice."}) as opened:
        await opened.embed()
        assert await found(opened) == ["/a", "/b"]
        yield opened


async def found(library: Library) -> list[str]:
    return sorted(set(await library.urls("weir sluice lock", lexical_weight=1.0)) - {"/"})


async def compared(library: Library) -> dict[str, int]:
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        return await searcher.follower.compare()


def rebuilds(caplog: pytest.LogCaptureFixture) -> int:
    return caplog.text.count("Building the search replica anew")


async def test_catches_up_by_the_events_alone(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """Changed, new and gone pages while nobody followed; nothing is built anew."""
    library.site.page("/", links=["/a", "/b", "/c"])
    library.site.page("/c", "The lock.")
    library.site.page("/a", "The mill.")
    library.site.remove("/b", 410)
    await library.crawl()
    await library.embed()

    assert await found(library) == ["/c"]
    assert rebuilds(caplog) == 0
    assert await compared(library) == {"pages": 3, "chunks": 3, "missing": 0, "extra": 0}


async def test_trimmed_stream_is_a_gap(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """Events that nobody can read any more: everything is looked at."""
    library.site.page("/a", "The mill.")
    library.site.remove("/b", 410)
    await library.crawl()
    await library.embed()
    await library.context.client.xtrim(library.context.keys.events, maxlen=1, approximate=False)

    assert await found(library) == []
    assert rebuilds(caplog) == 1
    assert await compared(library) == {"pages": 2, "chunks": 2, "missing": 0, "extra": 0}


@pytest.mark.parametrize("what", ["emptied", "younger", "full since the beginning"])
async def test_stream_of_another_life_is_a_gap(library: Library, caplog: pytest.LogCaptureFixture, what: str) -> None:
    """A stream that was emptied, that ends before our place (the server lost its last writes), or that has trimmed
    what came after an empty beginning."""
    client, events = library.context.client, library.context.keys.events
    if what == "full since the beginning":
        await client.delete(events)
        await found(library)  # now at the beginning of an empty stream
        caplog.clear()
    await client.delete(events)
    library.site.remove("/b", 410)
    await library.crawl()
    if what == "younger":
        await client.delete(events)
        await client.xadd(events, {"type": "x"}, id="1-1")
    if what == "emptied":
        await client.delete(events)
    if what == "full since the beginning":
        pipe = client.pipeline(transaction=False)
        for _ in range(EVENTS_KEPT):
            pipe.xadd(events, {"type": "x"}, maxlen=EVENTS_KEPT, approximate=False)
        await pipe.execute()

    assert await found(library) == ["/a"]
    assert rebuilds(caplog) == 1


@pytest.mark.parametrize("what", ["folder", "state", "words", "vectors", "log", "garbled state", "garbled words"])
async def test_lost_or_damaged_replica_is_built_anew(library: Library, what: str) -> None:
    """Whatever is missing or garbled, the next search answers as before."""
    folder = replica_folder(library.settings)
    state, words = folder / "state.json", next(iter(sorted((folder / "lexical").glob("*.store"))))
    match what:
        case "folder":
            shutil.rmtree(folder)
        case "state":
            state.unlink()
        case "words":
            shutil.rmtree(folder / "lexical")
        case "vectors":
            for path in (folder / "vectors").glob("*.f32"):
                path.unlink()
        case "log":
            for path in (folder / "vectors").glob("*.log"):
                path.write_bytes(b"")
        case "garbled state":
            state.write_text("{")
        case _:
            garble(words)

    assert await found(library) == ["/a", "/b"]
    assert (await library.ask("weir")).by == "words and meaning"
    assert await compared(library) == {"pages": 3, "chunks": 3, "missing": 0, "extra": 0}


def garble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 8] = b"\xff" * 8
    path.write_bytes(content)


async def test_two_searchers_share_one_replica(library: Library) -> None:
    """One that idles keeps nobody behind: whoever finds something new writes it, and the other reads it."""
    client, keys = library.context.client, library.context.keys
    async with (
        open_searcher(library.settings, client, keys) as first,
        open_searcher(library.settings, client, keys) as second,
    ):
        answers = []
        for word, asked in (("mill", second), ("ferry", first), ("sluice gate", second)):
            library.site.page("/a", f"The {word}.")
            await library.crawl()
            await library.embed()
            for searcher in (asked, first, second):
                answers.append(len((await searcher.search(Query(f'"{word}"'), time.time())).results))

    assert answers == [1] * 9


async def test_busy_writer_is_waited_for(library: Library) -> None:
    """While another process writes, a search waits for what it writes; for one that takes too long it does not."""
    client, keys = library.context.client, library.context.keys
    async with open_searcher(library.settings, client, keys) as searcher:
        library.site.page("/a", "The mill.")
        await library.crawl()
        await library.embed()
        lock = try_lock(replica_folder(library.settings) / "writer.lock")
        assert lock is not None
        asking = asyncio.create_task(searcher.search(Query("mill", lexical_weight=1.0), time.time()))
        await asyncio.sleep(0.2)
        is_waiting = not asking.done()
        os.close(lock)
        found = await asking

        assert is_waiting
        assert [one.page.url for one in found.results] == [library.site.url("/a")]

        lock = try_lock(replica_folder(library.settings) / "writer.lock")
        assert lock is not None
        library.site.page("/a", "The ferry.")
        await library.crawl()
        await library.embed()
        late = await searcher.search(Query("ferry", lexical_weight=1.0), time.time())
        os.close(lock)
        after = await searcher.search(Query("ferry", lexical_weight=1.0), time.time())

    assert (len(late.results), len(after.results)) == (0, 1)


async def test_cut_over_is_followed_by_an_open_searcher(library: Library) -> None:
    """A searcher that stays open goes on by words with a sentence, and with the new model by meaning again."""
    client, keys = library.context.client, library.context.keys
    async with open_searcher(library.settings, client, keys) as searcher:
        before = await searcher.search(Query("weir"), time.time())
        await client.hset(keys.version, "space", "second-24-c1")
        between = await searcher.search(Query("weir"), time.time())
        await client.hset(keys.version, "space", "first-16-c1")
        after = await searcher.search(Query("weir"), time.time())

    assert (before.by, after.by) == ("words and meaning", "words and meaning")
    assert "second-24-c1" in between.by
    assert [found.results[0].page.url for found in (before, between, after)] == [library.site.url("/a")] * 3


async def test_folder_that_is_removed_under_an_open_searcher(library: Library) -> None:
    """It is made anew, and the question is answered."""
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        await searcher.search(Query("weir"), time.time())
        shutil.rmtree(replica_folder(library.settings))
        library.site.page("/a", "The mill.")
        await library.crawl()
        await library.embed()
        found = await searcher.search(Query("mill", lexical_weight=1.0), time.time())

    assert [one.page.url for one in found.results] == [library.site.url("/a")]


async def test_embedder_that_is_away_does_not_end_search(library: Library) -> None:
    """By words, with the reason; the replica keeps its vectors for when it is back."""
    await library.server.stop()
    away = await library.ask("weir")

    assert away.results[0].page.url.endswith("/a")
    assert away.by.startswith("words (")
    assert await VectorSpaceStore(library.context.client, library.context.keys).current() == "first-16-c1"


@pytest.mark.parametrize("ending", ["store", "idx", "fast"])
async def test_files_damaged_under_an_open_searcher(library: Library, ending: str) -> None:
    """tantivy panics, and the question is answered as before."""
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        before = await searcher.search(Query("weir"), time.time())
        for path in (replica_folder(library.settings) / "lexical").glob(f"*.{ending}"):
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.write(b"\xff" * size)
        after = [await searcher.search(Query("weir"), time.time()) for _ in range(2)]

    assert [[one.page.url for one in found.results] for found in after] == [
        [one.page.url for one in before.results]
    ] * 2


async def test_sample_finds_what_no_event_told(library: Library) -> None:
    """A page that the replica lacks, one that it has too much, one with other filters: set right without a rebuild."""
    client, keys = library.context.client, library.context.keys
    async with open_searcher(library.settings, client, keys) as searcher:
        follower = searcher.follower
        await follower.catch_up()
        assert await follower.check_sample() == 0
        replica = follower.replica
        assert replica.try_write_lock()
        await replica.delete([library.id("/a")])
        await replica.upsert(IndexedPage("url_stray", "v1"), [Chunk("c_stray", "A stray weir.")], {})
        await replica.commit(replica.checkpoint)
        replica.stop_writing()
        await client.hset(keys.item(library.id("/b")), "sources", "other.site")

        assert await follower.check_sample() == 3
        assert await follower.check_sample() == 0
        assert await searcher.follower.compare() == {"pages": 3, "chunks": 3, "missing": 0, "extra": 0}
        found = await searcher.search(Query("sluice", Filters(domains=("other",))), time.time())
        assert [one.page.url for one in found.results] == [library.site.url("/b")]


async def test_long_lived_searcher_takes_samples(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, once in a while."""
    monkeypatch.setattr("core.search.io.replica_follower.SAMPLE_SECONDS", 0.0)
    async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
        await searcher.search(Query("weir"), time.time())
        replica = searcher.follower.replica
        assert replica.try_write_lock()
        await replica.delete([library.id("/a")])
        await replica.commit(replica.checkpoint)
        replica.stop_writing()
        await searcher.search(Query("weir"), time.time())
        found = await searcher.search(Query("weir", lexical_weight=1.0), time.time())

    assert [one.page.url for one in found.results] == [library.site.url("/a")]


async def test_store_without_vectors_is_the_same_to_all(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """Redis decides what the replica holds: processes with a model and without one do not build it anew in turns."""
    await library.context.client.hdel(library.context.keys.version, "space")
    caplog.clear()
    with_model = await library.ask("weir")
    without = await library.ask("weir", library.with_(embedder="none"))
    again = await library.ask("weir")

    assert (with_model.by, again.by) == ("words (nothing is embedded yet)",) * 2
    assert without.by == "words (EMBEDDER is none)"
    assert rebuilds(caplog) == 1
    assert [found.results[0].page.url for found in (with_model, without, again)] == [library.site.url("/a")] * 3


async def test_forgotten_item_is_told(library: Library) -> None:
    """Whoever removes a record from everywhere tells the replica."""
    forgetter = ItemForgetter(library.context.client, library.context.keys)
    await forgetter.items(await forgetter.remover.read([library.id("/a")]))

    assert await compared(library) == {"pages": 2, "chunks": 2, "missing": 0, "extra": 0}
