"""From one vector space to another: beside the live index, then one cut."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis

from core.search.io.chunk_store import ChunkStore
from core.search.io.embedders import open_embedder
from core.search.io.page_contents import PageContentReader
from core.search.io.vector_migration import Migration, NothingToMigrate
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.vector_spaces import NO_SPACES, Spaces
from core.settings import Settings
from core.store import connect
from scripts import reindex
from tests import commands
from tests.faults.crash import Crash, every_point
from tests.search_site import Library, open_library

PAGES = {f"/{name}": f"A page about the {name} of the valley." for name in ("weir", "sluice", "gauge", "ladder")}
NEXT: dict[str, Any] = {"embed_model": "second", "embed_dimensions": 24}


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """Embedded in the first space."""
    async with open_library(settings, PAGES) as opened:
        await opened.embed()
        yield opened


def adopt(monkeypatch: pytest.MonkeyPatch, library: Library, **more: str) -> None:
    """The command line sees the second model."""
    words = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "second"}
    commands.adopt(monkeypatch, library.settings, **(words | {"EMBED_DIMENSIONS": "24"} | more))


async def migrate(library: Library, **changes: Any) -> tuple[int, int]:
    settings = library.with_(**(NEXT | changes))
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    try:
        store = ChunkStore(library.context.client, raw, library.context.keys)
        return await Migration(library.context.client, library.context.keys, store, embedder).run()
    finally:
        await embedder.close()
        await raw.aclose()


async def space(library: Library) -> str:
    return await VectorSpaceStore(library.context.client, library.context.keys).current()


async def test_another_model_is_refused_with_a_sentence(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    """The job ends well, nothing is marked failed, the sentence is in the log, and the timer sends nothing for a while;
    search answers by words and says why."""
    library.site.page("/weir", "The weir has a new crest.")
    await library.crawl()
    with caplog.at_level(logging.WARNING):
        counts = await library.embed(**NEXT)
    client, keys = library.context.client, library.context.keys
    record = await library.record("/weir")
    found = await library.ask("sluice", library.with_(**NEXT))

    assert not counts
    assert "This store's vectors are of first-16-c1, the settings ask for second-24-c1" in caplog.text
    assert "scripts.reindex --embeddings" in str(await client.get(keys.embed_away))
    assert 0 < await client.ttl(keys.embed_away) <= 60
    assert (record["status"], record["errorMessage"]) == ("Crawled", "")
    assert len(await library.waiting()) == 1
    assert found.by.startswith("words (This store's vectors are of first-16-c1")
    assert found.results[0].page.url.endswith("/sluice")
    assert (await library.ask("sluice")).by == "words and meaning"  # the others' replica was not destroyed


async def test_dry_run_counts_and_changes_nothing(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many chunks there are, and how many are embedded already."""
    adopt(monkeypatch, library)
    before = await library.context.client.dbsize()
    capsys.readouterr()

    assert await reindex.migrate(dry_run=True) == 0
    assert capsys.readouterr().out == (
        "From first-16-c1 to second-24-c1: 5 chunks of 5 items, 0 of them embedded already.\nNothing was changed.\n"
    )
    assert await library.context.client.dbsize() == before
    assert await space(library) == "first-16-c1"


async def test_migration_end_to_end(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each chunk is embedded once, before the cut; after it search has the new space at once, and workers swap every
    page without asking the model; a second run has nothing to do."""
    adopt(monkeypatch, library)
    await library.context.client.set(library.context.keys.embed_away, "refused", ex=600)
    capsys.readouterr()

    assert await reindex.migrate() == 0

    said = capsys.readouterr().out
    assert "Embedded: 5 chunks. Live now: second-24-c1; 5 items to be swapped." in said
    assert not await library.context.client.exists(library.context.keys.embed_away)
    new = library.with_(**NEXT)
    meanwhile = await library.ask("sluice", new)
    assert meanwhile.by == "words and meaning"
    assert meanwhile.results[0].page.url.endswith("/sluice")
    assert await vector_lengths(library, new) == {4 * 24}
    old = await library.ask("sluice")
    assert old.by.startswith("words (This store's vectors are of second-24-c1, the settings ask for first-16-c1")
    assert old.results[0].page.url.endswith("/sluice")

    library.server.questions.clear()
    counts = await library.embed(**NEXT)
    assert counts == {"indexed": 5, "reused": 5}
    assert library.server.texts == ["."]  # only the question after the dimension
    assert (await library.record("/weir"))["status"] == "Indexed"
    assert await library.index_errors() == []
    await library.context.client.delete(*[key async for key in library.context.client.scan_iter("embed:cache:*")])
    assert await vector_lengths(library, new) == {4 * 24}

    assert await reindex.migrate() == 0
    assert "Embedded: 0 chunks. Live now: second-24-c1; 0 items to be swapped." in capsys.readouterr().out


async def vector_lengths(library: Library, settings: Settings) -> set[int]:
    """Bytes of the vectors that search has of all pages in the space of these settings."""
    raw, embedder = connect.open_raw(settings), open_embedder(settings)
    await embedder.prepare()
    contents = PageContentReader(library.context.client, raw, library.context.keys, embedder)
    found = await contents.read([library.id(path) for path in ("/", *PAGES)], Spaces([embedder.space]))
    await embedder.close()
    await raw.aclose()
    vectors = [one.vectors.get(chunk.id, {}) for one in found.values() if one for chunk in one.chunks]
    return {sum(map(len, own.values())) for own in vectors}


async def test_search_answers_during_the_whole_migration(library: Library) -> None:
    """After every step of it, old settings and new find the page; meaning counts for whom the live space is."""
    asked: list[str] = []
    embedder = open_embedder(library.with_(**NEXT))
    raw = connect.open_raw(library.settings)
    try:
        store = ChunkStore(library.context.client, raw, library.context.keys)
        migration = Migration(library.context.client, library.context.keys, store, embedder)
        new = await migration.spaces()
        for step in (
            lambda: migration.build(lambda _: None),
            lambda: VectorSpaceStore(library.context.client, library.context.keys).cut_over(new),
            lambda: VectorSpaceStore(library.context.client, library.context.keys).make_all_due(new, time.time()),
            lambda: library.embed(**NEXT),
        ):
            await step()
            for settings in (library.settings, library.with_(**NEXT)):
                found = await library.ask("sluice", settings)
                assert found.results[0].page.url.endswith("/sluice")
                asked.append(found.by.partition(" (")[0])
    finally:
        await embedder.close()
        await raw.aclose()

    assert asked == ["words and meaning", "words", *["words", "words and meaning"] * 3]


async def test_migration_that_dies_anywhere_goes_on(library: Library, full: bool) -> None:
    """Before the cut nothing live has changed, and what is embedded is not embedded again; after it, the same command
    or the doctor's sample brings the rest."""
    client, keys = library.context.client, library.context.keys
    points, died_before_cut = 0, 0
    for point in every_point(1 if full else 7):
        await client.hset(keys.version, "space", "first-16-c1")
        for name in [key async for key in client.scan_iter(keys.embed_cache("*", "*"))]:
            await client.delete(name)
        await VectorSpaceStore(client, keys).make_due(list(map(library.id, ["/", *PAGES])), 0, known=["first-16-c1"])
        await library.embed()
        statuses = await client.smembers(keys.status("Indexed"))
        assert len(statuses) == 5
        try:
            with point:
                await migrate_with_own_client(library)
        except Crash:
            pass
        points += point.is_dead
        if await space(library) == "first-16-c1":
            died_before_cut += 1
            assert await client.smembers(keys.status("Indexed")) == statuses, point
            assert await library.urls("sluice") != [], point
        library.server.questions.clear()
        cached = len([key async for key in client.scan_iter(keys.embed_cache("second*", "*"))])
        embedded, _ = await migrate(library)
        assert embedded == 5 - cached, point
        await library.embed(**NEXT)
        assert await client.scard(keys.status("Indexed")) == 5, point
        assert await library.index_errors() == [], point

    assert points > 3
    assert died_before_cut > 2


async def first(library: Library) -> Any:
    embedder = open_embedder(library.settings)
    await embedder.prepare()
    await embedder.close()
    return embedder.space


async def migrate_with_own_client(library: Library) -> None:
    """A process of its own, as far as Redis can tell."""
    settings = library.with_(**NEXT)
    client, raw, embedder = connect.open_store(settings), connect.open_raw(settings), open_embedder(settings)
    try:
        store = ChunkStore(client, raw, library.context.keys)
        await Migration(client, library.context.keys, store, embedder).run()
    finally:
        await embedder.close()
        await raw.aclose()
        await client.aclose()


async def test_model_that_is_away_is_waited_for_or_ends_the_run(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A short pause is waited out; a long one ends the run with a sentence, the old space still live."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    settings = library.with_(**NEXT)
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    migration = Migration(
        library.context.client,
        library.context.keys,
        ChunkStore(library.context.client, raw, library.context.keys),
        embedder,
        sleep,
    )
    await migration.spaces()
    library.server.then(429, retry_after="7")
    assert await migration.build(lambda _: None) == 5
    await embedder.close()
    await raw.aclose()
    assert waited == [7]

    library.site.page("/weir", "The weir has a new crest.")
    await library.crawl()
    adopt(monkeypatch, library)
    library.server.then_data(lambda data: data).then(401)
    assert await reindex.migrate() == 2
    assert "the same command goes on" in capsys.readouterr().err
    assert await space(library) == "first-16-c1"


async def test_way_back_to_the_former_model_needs_no_model(library: Library) -> None:
    """Its vectors were live until the swap wrote over them; they are kept for a while, as of a text that goes."""
    client, keys = library.context.client, library.context.keys
    await client.delete(*[key async for key in client.scan_iter(keys.embed_cache("*", "*"))])
    await migrate(library)
    await library.embed(**NEXT)
    lives = [await client.ttl(key) async for key in client.scan_iter(keys.embed_cache("first-16-c1", "*"))]
    library.server.questions.clear()

    assert len(lives) == 5
    assert all(29 * 86_400 < life <= 30 * 86_400 for life in lives)
    assert await migrate(library, embed_model="first", embed_dimensions=None) == (0, 5)
    assert await library.embed() == {"indexed": 5, "reused": 5}
    assert set(library.server.texts) == {"."}
    assert await vector_lengths(library, library.settings) == {4 * 16}


async def test_pages_in_trouble_change_over_too(library: Library) -> None:
    """Their text is found, so its vectors have to be of the live space; they stay in trouble."""
    library.site.remove("/weir", 500)
    await library.crawl()
    failed = await library.record("/weir")

    assert (await migrate(library))[1] == 5
    assert await library.embed(**NEXT) == {"indexed": 5, "reused": 5}
    assert await vector_lengths(library, library.with_(**NEXT)) == {4 * 24}
    assert (failed["status"], (await library.record("/weir"))["status"]) == ("Error", "Error")


async def test_first_question_is_waited_for_too(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The endpoint is busy when it is asked for the dimension: a short pause is waited out; a minute, which nobody
    named, ends the run with the sentence."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    client, keys, settings = library.context.client, library.context.keys, library.with_(**NEXT)
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    library.server.then(429, retry_after="7")
    made = await Migration(client, keys, ChunkStore(client, raw, keys), embedder, sleep).run()
    await embedder.close()
    await raw.aclose()
    adopt(monkeypatch, library)
    library.server.then(500)

    assert (made, waited) == ((5, 5), [7])
    assert await reindex.migrate() == 2
    assert "the same command goes on" in capsys.readouterr().err


# ── to no vectors, and back ──


async def all_vectors(library: Library) -> int:
    return len([key async for key in library.context.client.scan_iter(library.context.keys.vector("*"))])


async def test_way_to_no_vectors_and_back(library: Library) -> None:
    """The dry run tells; one step takes the space away; workers without a model take the vectors; search goes on by
    words; a worker with the old model finds all its vectors in the cache."""
    client, keys = library.context.client, library.context.keys
    await client.delete(*[key async for key in client.scan_iter(keys.embed_cache("*", "*"))])
    command, none = ("scripts.reindex", "--embeddings"), library.with_(embedder="none")
    told = await commands.run(library.settings, *command, "--dry-run", EMBEDDER="none")
    before = await space(library)
    await client.set(keys.embed_away, "refused", ex=600)
    done = await commands.run(library.settings, *command, EMBEDDER="none")
    cut = (await space(library), len(await library.waiting()), await client.exists(keys.embed_away))
    meanwhile = await library.ask("sluice", none)
    counts = await library.embed(embedder="none")
    words = await library.ask("sluice", none)
    left = await all_vectors(library)

    assert (told.returncode, before) == (0, "first-16-c1")
    assert "From first-16-c1 to no vectors: 5 chunks of 5 items" in told.stdout
    assert "Nothing was changed." in told.stdout
    assert done.returncode == 0, done.stderr
    assert "Embedded: 0 chunks. Live now: no vectors; 5 items to be swapped." in done.stdout
    assert cut == ("", 5, 0)
    assert (counts, left) == ({"indexed": 5}, 0)
    assert set(await library.index_errors()) == {f"{keys.vector(name)} is not there" for name in await live(library)}
    for found in (meanwhile, words):
        assert found.results[0].page.url.endswith("/sluice")

    library.server.questions.clear()
    claimed = await library.embed()  # nothing waits: it only claims the store
    back = await library.embed()
    assert (claimed["indexed"], back) == (0, {"indexed": 5, "reused": 5})
    assert set(library.server.texts) == {"."}
    assert await space(library) == "first-16-c1"
    assert (await library.ask("sluice")).by == "words and meaning"
    assert await library.index_errors() == []


async def test_way_back_to_a_model_that_cuts_otherwise(settings: Settings) -> None:
    """The local model counts tokens by its own words, a worker without one estimates: all cuts are others, and still
    the way back embeds nothing."""
    text = "</p><p>".join(f"Paragraph {n} on hydrogeological embankments at gauge {n:05}. " * 9 for n in range(9))
    async with open_library(settings, {"/a": text}, embedder="local") as library:
        first = await library.embed()
        before = await live(library)
        await library.context.client.delete(
            *[key async for key in library.context.client.scan_iter(library.context.keys.embed_cache("*", "*"))]
        )
        await migrate(library, embedder="none")
        await library.embed(embedder="none")
        between = await live(library)
        await library.embed()  # claims the store
        back = await library.embed()

        assert first["embedded"] > 3
        assert between != before
        assert (back["indexed"], back["embedded"]) == (2, 0)
        assert await live(library) == before
        assert await library.index_errors() == []


async def live(library: Library) -> set[str]:
    client, keys = library.context.client, library.context.keys
    return {
        name async for key in client.scan_iter(keys.pattern(keys.chunks)) for name in await client.zrange(key, 0, -1)
    }


async def test_way_to_no_vectors_that_dies_goes_on(library: Library) -> None:
    """Between the cut and the pages: the same command again makes them due. Then there is nothing to do."""
    client, keys = library.context.client, library.context.keys
    await VectorSpaceStore(client, keys).cut_over(NO_SPACES)
    again = await migrate(library, embedder="none")
    await library.embed(embedder="none")

    assert again == (0, 5)
    assert await all_vectors(library) == 0
    with pytest.raises(NothingToMigrate, match="EMBEDDER is none: there are no vectors to build"):
        await migrate(library, embedder="none")


async def test_late_worker_with_the_old_model_brings_nothing_back(library: Library) -> None:
    """It claimed before the cut to no vectors; its swap comes after it, and writes nothing."""
    library.site.page("/weir", "The weir has a new crest.")
    await library.crawl()

    def cut(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with redis.Redis.from_url(connect.url_of(library.settings)) as other:
            other.hdel(library.context.keys.version, "space")
        return data

    library.server.then_data(lambda data: data).then_data(cut)
    counts = await library.embed()

    assert (counts["superseded"], await space(library)) == (1, "")
    assert library.id("/weir") in await library.waiting()


async def test_late_worker_of_the_old_space_is_refused(library: Library) -> None:
    """It claimed before the cut; its swap comes after it, and writes nothing: the page waits for the new space."""
    library.site.page("/weir", "The weir has a new crest.")
    await library.crawl()

    def cut(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with redis.Redis.from_url(connect.url_of(library.settings)) as other:
            other.hset(library.context.keys.version, "space", "second-24-c1")
        return data

    library.server.then_data(lambda data: data).then_data(cut)
    counts = await library.embed()

    assert counts["superseded"] == 1
    assert (await library.record("/weir"))["status"] == "Crawled"
    assert len(await library.waiting()) == 1
    assert await library.index_errors() == []
