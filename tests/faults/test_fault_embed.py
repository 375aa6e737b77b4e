"""The swap under faults: death before every command, two workers on one page, a model that misbehaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.registry.io.item_store import ItemStore
from core.runtime.job_queues import JobQueues
from core.search import chunking
from core.search.io.chunk_store import ChunkStore
from core.search.io.searcher import Searcher, open_searcher
from core.search.models import Query
from core.settings import Settings
from core.store import connect
from core.store.embedded import EmbeddedServer
from core.store.leases import Leases
from tests.faults import process, state
from tests.faults.crash import Crash, every_point
from tests.search_site import Library, open_library

PARAGRAPHS = 40


def page(version: str, changed: int = PARAGRAPHS) -> str:
    """A page of several chunks, each of which names its version; the first paragraphs are those of every version."""
    words = [f"Paragraph {n} of {'all' if n >= changed else version} tells of gauge {n}." for n in range(PARAGRAPHS)]
    return "</p><p>".join(f"{one} {'The river rose and fell again. ' * 6}" for one in words)


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """One page of several chunks, embedded as `alpha`, changed to `beta` and waiting."""
    async with open_library(settings, {"/page": page("alpha")}) as opened:
        await opened.embed()
        opened.site.page("/page", page("beta"))
        await opened.crawl()
        yield opened


async def versions(library: Library, searcher: Searcher | None = None, **settings: Any) -> set[str]:
    """Which versions the passages of the page are of; empty: the page was not found."""
    if searcher is None:
        async with open_searcher(library.with_(**settings), library.context.client, library.context.keys) as opened:
            return await versions(library, opened)
    found = await searcher.search(Query("paragraph of alpha beta gamma tells of gauge"), time.time())
    texts = [one.snippet for hit in found.results if hit.page.url.endswith("/page") for one in hit.passages]
    return {word for text in texts for word in ("alpha", "beta", "gamma") if f"of {word} " in text}


async def whole(library: Library) -> set[str]:
    """Versions of all live chunks of the page in Redis."""
    client, keys = library.context.client, library.context.keys
    names = await client.zrange(keys.chunks(library.id("/page")), 0, -1)
    texts = [await client.hget(keys.chunk(name), "text") or "missing" for name in names]
    return {word for text in texts for word in ("alpha", "beta", "gamma", "missing") if word in text}


async def test_death_before_every_command_of_the_swap(library: Library, full: bool) -> None:
    """Whatever the command before which it died, search finds the page in its new version, and Redis has the chunks of
    one whole version; the next worker ends the work, and leaves nothing over."""
    raw = connect.open_raw(library.settings)
    before = await state.save(raw)
    dead, seen = 0, set[str]()
    for point in every_point(1 if full else 7):
        await state.restore(raw, before)
        try:
            with point:
                await library.embed()
        except Crash:
            pass
        dead += point.is_dead
        live = await whole(library)
        assert len(live) == 1, point
        assert await versions(library) == {"beta"}, point
        seen |= live
        await state.let_leases_end(library.context.client, library.context.keys)
        await library.embed()
        assert await whole(library) == {"beta"}, point
        assert await versions(library) == {"beta"}, point
        assert (await library.record("/page"))["status"] == "Indexed", point
        assert await library.index_errors() == [], point
    await raw.aclose()

    assert seen == {"alpha", "beta"}
    assert dead > (40 if full else 5)


async def test_what_is_written_beside_ends_by_itself_unless_it_is_swapped_in(library: Library) -> None:
    """A chunk has an hour to become the page's own; the page's own have no end, also when they are written again."""
    client, keys = library.context.client, library.context.keys
    raw, item_id = connect.open_raw(library.settings), library.id("/page")
    store = ChunkStore(client, raw, keys)
    chunks = chunking.chunks(item_id, "Beside the page.", chunking.estimate_tokens)
    name = chunks[0].id

    async def lives() -> list[int]:
        return [await client.ttl(keys.chunk(name)), await client.ttl(keys.vector(name))]

    await store.write({item_id: chunks}, {name: ("first-16-c1", bytes(64))})
    beside = await lives()
    (item,) = await ItemStore(client, keys).read([item_id])
    assert item
    await Leases(client, keys).run(
        store.swap(item, chunks, (await store.remover.stored([item_id]))[item_id], time.time())
    )
    swapped = await lives()
    await store.write({item_id: chunks}, {name: ("first-16-c1", bytes(64))})
    again = await lives()
    await raw.aclose()

    assert [3_500 < life <= 3_600 for life in beside] == [True, True]
    assert swapped == again == [-1, -1]


async def test_search_beside_a_worker_sees_one_version_at_a_time(library: Library) -> None:
    """While the page changes again and again and is embedded each time, every answer has it, in one version."""
    answers: list[set[str]] = []
    is_over = asyncio.Event()

    async def ask() -> None:
        async with open_searcher(library.settings, library.context.client, library.context.keys) as searcher:
            while not is_over.is_set():
                answers.append(await versions(library, searcher))

    asking = [asyncio.create_task(ask()) for _ in range(2)]
    for round_ in range(6):
        before = len(answers)
        library.site.page("/page", page(("alpha", "beta", "gamma")[round_ % 3]))
        await library.crawl()
        await library.embed()
        # On a busy machine the askers have their turn too: at least one answer for each version.
        await process.until(lambda before=before: any(one.done() for one in asking) or len(answers) > before + 1)
    is_over.set()
    await asyncio.gather(*asking)

    assert [(n, len(answers)) for n, found in enumerate(answers) if len(found) != 1] == []
    assert set().union(*answers) == {"alpha", "beta", "gamma"}


async def test_two_processes_on_one_page(library: Library, settings: Settings, server: EmbeddedServer) -> None:
    """Both take the same job; one swaps, the other finds it taken or done; nothing is left over."""
    client, keys = library.context.client, library.context.keys
    waiting = await library.waiting()
    code = (
        "import asyncio, sys, time\n"
        "from core.settings import load\n"
        "from workers.embed_jobs import embed_items\n"
        "print(dict(asyncio.run(embed_items(load(), sys.argv[1:], time.monotonic() + 30))))\n"
    )
    environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
    script = settings.persistent_storage_path / "take_all.py"
    script.write_text(code)
    workers = [
        process.Worker(settings.persistent_storage_path, server.url, "take_all", *waiting, **environment)
        for _ in range(2)
    ]
    with workers[0] as one, workers[1] as other:
        codes = [await one.ended(), await other.ended()]

    assert codes == [0, 0], [worker.log for worker in workers]
    events = [fields for _, fields in await client.xrange(keys.events)]
    swaps = [one for one in events if one["type"] == "item.indexed" and one["id"] == library.id("/page")]
    assert len(swaps) == 2  # alpha before, beta now
    assert await whole(library) == {"beta"}
    assert await library.index_errors() == []


async def test_kill_9_of_the_worker(library: Library, settings: Settings, server: EmbeddedServer, full: bool) -> None:
    """Killed while the model answers, or some milliseconds later: search has one whole version, the next worker ends
    the work, and nothing is left over."""
    raw = connect.open_raw(library.settings)
    before = await state.save(raw)
    delays = [number / 200 for number in range(12)] if full else [0.0, 0.01]
    environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
    for delay in [None, *delays]:
        await state.restore(raw, before)
        reached = asyncio.Event()

        async def answer(question: Any, delay: float | None = delay, reached: asyncio.Event = reached) -> Any:
            reached.set()
            if delay is None:
                await asyncio.sleep(60)
            return library.server._honest(question)

        library.server.then_data(lambda data: data)
        library.server._script.append(answer)
        queues = JobQueues(library.settings)
        queues.enqueue("workers.embed_jobs.embed", await library.waiting(), id_words=("embed", str(delay)))
        queues.close()
        with process.Worker(settings.persistent_storage_path, server.url, "workers", "embed", **environment) as worker:
            await asyncio.wait_for(reached.wait(), 30)
            await asyncio.sleep(delay or 0.0)
            worker.kill()
        live = await whole(library)
        assert (len(live), await versions(library)) == (1, {"beta"}), delay
        await state.let_leases_end(library.context.client, library.context.keys)
        library.server._script.clear()
        await library.embed()
        assert await whole(library) == {"beta"}, delay
        assert await versions(library) == {"beta"}, delay
        assert await library.index_errors() == [], delay
    await raw.aclose()


async def test_worker_that_lost_its_lease_disturbs_nobody(library: Library) -> None:
    """It stood still for too long, another one swapped; what it does late changes nothing, whatever was written."""
    client, keys = library.context.client, library.context.keys

    def overtaken(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        late.set()
        return data

    late, first = asyncio.Event(), library.server
    first.then_data(lambda data: data).then_data(overtaken)
    slow = asyncio.create_task(library.embed())
    await late.wait()
    await state.let_leases_end(client, keys)
    await library.embed()
    counts = await slow

    assert counts["indexed"] + counts["superseded"] <= 1
    assert await whole(library) == {"beta"}
    assert await library.index_errors() == []
    live = await client.zrange(keys.chunks(library.id("/page")), 0, -1)
    assert {await client.ttl(keys.chunk(name)) for name in live} == {-1}


# ── a model that misbehaves ──


def shuffled(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return data[::-1]


def shorter(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return data[:-1]


def wrong_dimension(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one | {"embedding": one["embedding"][:-1]} for one in data]


@pytest.mark.parametrize(
    ("name", "seconds"), [("429", 30), ("500", 60), ("wrong dimension", 60), ("too few", 60), ("probe refused", 90)]
)
async def test_model_in_trouble_stops_the_work_politely(settings: Settings, name: str, seconds: int) -> None:
    """No page is marked failed, `embed:away` says why and how long, and later everything is embedded."""
    async with open_library(settings, {"/a": page("alpha"), "/b": "Short."}) as library:
        client, keys, server = library.context.client, library.context.keys, library.server
        if name != "probe refused":
            server.then_data(lambda data: data)  # the dimension is asked for first
        match name:
            case "429":
                server.then(429, retry_after="30")
            case "500":
                server.then(500)
            case "wrong dimension":
                server.then_data(wrong_dimension)
            case "too few":
                server.then_data(shorter)
            case _:
                server.then(503, retry_after="90")
        await library.embed()
        life = await client.ttl(keys.embed_away)
        statuses = [(await library.record(path))["status"] for path in ("/", "/a", "/b")]
        still = await library.waiting()

        assert seconds - 5 <= life <= seconds
        assert await client.get(keys.embed_away)
        assert (await client.scard(keys.status("Error")), len(still)) == (0, statuses.count("Crawled"))
        assert still

        counts = await library.embed()
        assert counts["indexed"] == len(still)
        assert await client.scard(keys.status("Indexed")) == 3
        assert await library.index_errors() == []


async def test_shuffled_answer_is_put_in_order(settings: Settings) -> None:
    """Vectors go where their index says: a chunk asked for by its own words is the nearest."""
    async with open_library(settings, {"/a": page("alpha")}) as library:
        await library.embed()
        client, keys = library.context.client, library.context.keys
        raw = connect.open_raw(library.settings)
        names = await client.zrange(keys.chunks(library.id("/a")), 0, -1)
        in_order = [await raw.get(keys.vector(name)) for name in names]
        await client.delete(*[key async for key in client.scan_iter("embed:cache:*")])
        for name in names:
            await client.delete(keys.vector(name), keys.chunk(name))
        await client.hset(keys.item(library.id("/a")), mapping={"status": "Crawled", "indexedHash": ""})
        await client.zadd(keys.embed_due, {library.id("/a"): 1})
        library.server.then_data(lambda data: data).then_data(shuffled)
        await library.embed()

        assert [await raw.get(keys.vector(name)) for name in names] == in_order
        assert len(names) > 2
        await raw.aclose()
