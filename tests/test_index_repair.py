"""What can be wrong between registry, texts and chunks: each is found, healed, and found no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from core.doctor.invariants import Finding, Problem
from core.doctor.io.index_checks import IndexChecks
from core.doctor.io.index_repair import IndexRepair
from core.doctor.io.lua_check_runner import LuaChecks
from core.models import Chunk
from core.runtime.job_queues import JobQueues
from core.search.io.chunk_store import ChunkStore
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from core.store.leases import Leases
from tests.crawled_site import SID
from tests.search_site import Library, open_library
from workers.timer import Timer

Plant = Callable[[Library], Awaitable[list[Finding]]]
"""Does some harm, and says what is to be found then."""


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """Five pages: two embedded, one waiting since, one gone, one waiting whose last check failed."""
    pages = {"/a": "The weir.", "/b": "The sluice.", "/c": "The lock.", "/d": "The dam."}
    async with open_library(settings, pages) as opened:
        await opened.embed()
        opened.site.page("/b", "The sluice as it is now.")
        opened.site.page("/d", "The dam as it is now.")
        opened.site.remove("/c", 410)
        await opened.crawl()
        opened.site.remove("/d", 500)
        await opened.crawl()
        yield opened


def index_checks(library: Library, **more: bool) -> IndexChecks:
    client, keys = library.context.client, library.context.keys
    return IndexChecks(client, keys, LuaChecks(client, keys, library.settings), **more)


def index_repair(library: Library) -> IndexRepair:
    client, keys = library.context.client, library.context.keys
    return IndexRepair(client, keys, index_checks(library), LuaChecks(client, keys, library.settings))


async def look(library: Library, **more: bool) -> list[Finding]:
    return [one async for some in index_checks(library, **more).check_all() for one in some]


async def heal(library: Library, findings: list[Finding]) -> int:
    return await index_repair(library).repair(findings, await connect.now(library.context.client))


async def first_chunk(library: Library, path: str) -> str:
    names = await library.context.client.zrange(library.context.keys.chunks(library.id(path)), 0, 0)
    return str(names[0])


def not_embedded(library: Library, path: str = "/a") -> list[Finding]:
    return [Finding(Problem.NOT_EMBEDDED, library.id(path))]


async def without_vector(library: Library) -> list[Finding]:
    await library.context.client.delete(library.context.keys.vector(await first_chunk(library, "/a")))
    return not_embedded(library)


async def vector_too_short(library: Library) -> list[Finding]:
    """Of half the numbers; so is the one in the cache."""
    client, keys = library.context.client, library.context.keys
    name = await first_chunk(library, "/a")
    text_hash = str(await client.hget(keys.chunk(name), "text_hash"))
    await client.set(keys.vector(name), "x" * 32)
    await client.set(keys.embed_cache("first-16-c1", text_hash), "x" * 32, ex=60)
    return not_embedded(library)


async def text_of_another_hash(library: Library) -> list[Finding]:
    await library.context.client.hset(library.context.keys.chunk(await first_chunk(library, "/a")), "text", "The wier.")
    return not_embedded(library)


async def of_another_page(library: Library) -> list[Finding]:
    await library.context.client.hset(
        library.context.keys.chunk(await first_chunk(library, "/a")), "item", library.id("/b")
    )
    return [*not_embedded(library), Finding(Problem.ORPHAN_CHUNK, await first_chunk(library, "/a"))]


async def without_chunk(library: Library) -> list[Finding]:
    """Its vector is left, and of no use."""
    await library.context.client.delete(library.context.keys.chunk(await first_chunk(library, "/a")))
    return [*not_embedded(library), Finding(Problem.ORPHAN_CHUNK, await first_chunk(library, "/a"))]


async def without_chunks(library: Library) -> list[Finding]:
    name = await first_chunk(library, "/a")
    await library.context.client.delete(library.context.keys.chunks(library.id("/a")))
    return [*not_embedded(library), Finding(Problem.ORPHAN_CHUNK, name)]


async def of_another_space(library: Library) -> list[Finding]:
    await library.context.client.hset(
        library.context.keys.chunk(await first_chunk(library, "/a")), "space", "other-8-c1"
    )
    return not_embedded(library)


async def without_space(library: Library) -> list[Finding]:
    """As a worker with EMBEDDER=none writes it."""
    name = await first_chunk(library, "/a")
    await library.context.client.hset(library.context.keys.chunk(name), "space", "")
    await library.context.client.delete(library.context.keys.vector(name))
    return not_embedded(library)


async def of_another_text(library: Library) -> list[Finding]:
    await library.context.client.hset(library.context.keys.item(library.id("/a")), "indexedHash", "another")
    return not_embedded(library)


async def failed_without_vector(library: Library) -> list[Finding]:
    """Embedded after its check failed."""
    await library.embed()
    await library.context.client.delete(library.context.keys.vector(await first_chunk(library, "/d")))
    return not_embedded(library, "/d")


async def nobody_knows(library: Library) -> list[Finding]:
    await library.context.client.zrem(library.context.keys.embed_due, library.id("/b"))
    return [Finding(Problem.NOT_QUEUED, library.id("/b"))]


async def nobody_knows_of_the_failed(library: Library) -> list[Finding]:
    await library.context.client.zrem(library.context.keys.embed_due, library.id("/d"))
    return [Finding(Problem.NOT_QUEUED, library.id("/d"))]


async def without_text(library: Library) -> list[Finding]:
    await library.context.client.delete(library.context.keys.document(library.id("/a")))
    return [Finding(Problem.NO_TEXT, library.id("/a"))]


async def without_record(library: Library) -> list[Finding]:
    client, keys = library.context.client, library.context.keys
    await client.delete(keys.item(library.id("/a")), keys.document(library.id("/a")))
    await client.srem(keys.status("Indexed"), library.id("/a"))
    return [Finding(Problem.DANGLING_ID, library.id("/a"))]


async def for_nothing(library: Library) -> list[Finding]:
    await library.context.client.zadd(library.context.keys.embed_due, {library.id("/c"): 1})
    return [Finding(Problem.QUEUED_WITHOUT_TEXT, library.id("/c"))]


async def nobody_waits(library: Library) -> list[Finding]:
    await library.context.client.zadd(library.context.keys.embed_due, {"url_nobody": 1})
    return [Finding(Problem.QUEUED_WITHOUT_TEXT, "url_nobody")]


async def stray_chunk(library: Library) -> list[Finding]:
    """Of a page that has others now."""
    client, keys = library.context.client, library.context.keys
    fields = {"item": library.id("/a"), "text": "Old.", "text_hash": "old", "space": "first-16-c1"}
    await client.hset(keys.chunk("c_stray"), mapping=fields)
    await client.set(keys.vector("c_stray"), "x" * 64)
    return [Finding(Problem.ORPHAN_CHUNK, "c_stray")]


async def stray_vector(library: Library) -> list[Finding]:
    await library.context.client.set(library.context.keys.vector("c_stray"), "x" * 64)
    return [Finding(Problem.ORPHAN_CHUNK, "c_stray")]


async def without_live(library: Library) -> list[Finding]:
    """Its chunks are all there, and nobody knows of which version they are."""
    await library.context.client.hdel(library.context.keys.document(library.id("/a")), "live")
    return not_embedded(library)


async def live_of_nothing(library: Library) -> list[Finding]:
    await library.context.client.hset(library.context.keys.document(library.id("/a")), "live", "bogus")
    return not_embedded(library)


async def waits_with_live_of_nothing(library: Library) -> list[Finding]:
    await library.context.client.hset(library.context.keys.document(library.id("/b")), "live", "bogus")
    return not_embedded(library, "/b")


async def in_no_status(library: Library) -> list[Finding]:
    await library.context.client.srem(library.context.keys.status("Indexed"), library.id("/a"))
    return [Finding(Problem.MISPLACED, library.id("/a"))]


async def in_two_statuses(library: Library) -> list[Finding]:
    await library.context.client.sadd(library.context.keys.status("Gone"), library.id("/a"))
    return [Finding(Problem.MISPLACED, library.id("/a"))]


async def in_another_status(library: Library) -> list[Finding]:
    client, keys = library.context.client, library.context.keys
    await client.smove(keys.status("Indexed"), keys.status("Pending"), library.id("/a"))
    return [Finding(Problem.MISPLACED, library.id("/a"))]


async def in_no_partition(library: Library) -> list[Finding]:
    name = str((await library.record("/a"))["PartitionKey"])
    await library.context.client.srem(library.context.keys.partition(name), library.id("/a"))
    return [Finding(Problem.MISPLACED, library.id("/a"))]


async def only_in_its_source(library: Library) -> list[Finding]:
    """In no set of a status and in no partition."""
    await in_no_partition(library)
    return await in_no_status(library)


async def record_deleted(library: Library) -> list[Finding]:
    """All else is as it was."""
    await library.context.client.delete(library.context.keys.item(library.id("/a")))
    return [Finding(Problem.DANGLING_ID, library.id("/a"))]


async def only_a_text(library: Library) -> list[Finding]:
    await library.context.client.hset(library.context.keys.document("url_nobody"), "content_hash", "x")
    return [Finding(Problem.DANGLING_ID, "url_nobody")]


async def only_listed(library: Library) -> list[Finding]:
    await library.context.client.zadd(library.context.keys.due(SID), {"url_nobody": 1})
    return [Finding(Problem.DANGLING_ID, "url_nobody")]


async def another_type(library: Library, key: str) -> Finding:
    await library.context.client.delete(key)
    await library.context.client.lpush(key, "x")
    return Finding(Problem.WRONG_TYPE, key)


async def chunks_of_another_type(library: Library) -> list[Finding]:
    name = await first_chunk(library, "/a")
    wrong = await another_type(library, library.context.keys.chunks(library.id("/a")))
    return [wrong, Finding(Problem.ORPHAN_CHUNK, name)]


async def chunk_of_another_type(library: Library) -> list[Finding]:
    name = await first_chunk(library, "/a")
    wrong = await another_type(library, library.context.keys.chunk(name))
    return [*not_embedded(library), wrong, Finding(Problem.ORPHAN_CHUNK, name)]


async def vector_of_another_type(library: Library) -> list[Finding]:
    wrong = await another_type(library, library.context.keys.vector(await first_chunk(library, "/a")))
    return [*not_embedded(library), wrong]


async def text_of_another_type(library: Library) -> list[Finding]:
    return [await another_type(library, library.context.keys.document(library.id("/a")))]


async def record_of_another_type(library: Library) -> list[Finding]:
    return [await another_type(library, library.context.keys.item(library.id("/a")))]


PLANTS: list[Plant] = [
    *(without_live, live_of_nothing, waits_with_live_of_nothing),
    *(in_no_status, in_two_statuses, in_another_status, in_no_partition, only_in_its_source),
    *(record_deleted, only_a_text, only_listed),
    *(chunks_of_another_type, chunk_of_another_type, vector_of_another_type, text_of_another_type),
    record_of_another_type,
    *(without_vector, vector_too_short, text_of_another_hash, of_another_page, without_chunk, without_chunks),
    *(of_another_space, without_space, of_another_text, failed_without_vector),
    *(nobody_knows, nobody_knows_of_the_failed, without_text, without_record, for_nothing, nobody_waits),
    *(stray_chunk, stray_vector),
]


async def test_clean_store_has_no_findings(library: Library) -> None:
    """Neither while a page waits, nor when everything is embedded."""
    assert await look(library) == []
    await library.embed()
    assert await look(library) == []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
async def test_each_wrong_is_found_and_healed(library: Library, plant: Plant) -> None:
    """Found as what it is and nothing else, healed once, gone at the second look; after the next embed all fits."""
    expected = await plant(library)
    findings = await look(library)

    assert findings == expected
    assert await heal(library, findings) == len(expected)
    assert await look(library) == []
    await library.embed()
    assert await look(library) == []
    assert await library.index_errors() == []


@pytest.mark.parametrize(
    ("plant", "keeps_chunks"),
    [
        (without_chunks, False),
        (without_chunk, False),
        (text_of_another_hash, False),
        (chunks_of_another_type, False),
        (without_vector, True),
        (of_another_space, True),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_page_is_found_while_it_waits(library: Library, plant: Plant, keeps_chunks: bool) -> None:
    """By its chunks as long as they can be read, else by its text: never not at all."""
    await library.ask("weir")
    await heal(library, await plant(library))
    live = await library.context.client.hget(library.context.keys.document(library.id("/a")), "live")

    assert bool(live) is keeps_chunks
    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]
    await library.embed()
    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]


@pytest.mark.parametrize("plant", [without_live, live_of_nothing], ids=lambda plant: plant.__name__)
async def test_page_is_embedded_anew(library: Library, plant: Plant) -> None:
    """What it says of itself is right again."""
    hash_before = (await library.record("/a"))["indexedHash"]
    await heal(library, await plant(library))
    await library.embed()
    record = await library.record("/a")

    assert await library.context.client.hget(library.context.keys.document(library.id("/a")), "live") == hash_before
    assert (record["status"], record["indexedHash"]) == ("Indexed", hash_before)


@pytest.mark.parametrize("path", ["/", "/a"])
async def test_crawl_brings_back_what_lost_its_record(library: Library, path: str) -> None:
    """The next one that is not forced, though every page answers 304; and nothing else is lost on the way."""
    client, keys = library.context.client, library.context.keys
    known = set(await client.zrange(keys.refs(SID), 0, -1))
    await client.delete(keys.item(library.id(path)))
    assert await heal(library, await look(library)) == 1
    left = set(await client.zrange(keys.refs(SID), 0, -1))
    await crawl_source(library.context, SID, CrawlMode.INCREMENTAL)
    await library.embed()

    assert left == known - {library.id(path)}
    assert set(await client.zrange(keys.refs(SID), 0, -1)) == known
    assert (await library.record(path))["status"] == "Indexed"
    assert await look(library) == []
    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]


async def test_lost_text_of_a_listed_version_is_read_anew(library: Library) -> None:
    """A folder that lists the same version would not look at its file again."""
    client, keys, item_id = library.context.client, library.context.keys, library.id("/a")
    await client.hset(keys.item(item_id), mapping={"listedVersion": "7", "visitedVersion": "7"})
    await client.delete(keys.document(item_id))
    assert await heal(library, await look(library)) == 1

    assert await client.hmget(keys.item(item_id), ["listedVersion", "visitedVersion", "indexedHash"]) == ["7", "", ""]


async def test_crawl_brings_back_a_text_of_another_type(library: Library) -> None:
    """Its record is as it was; its text is fetched anew, since a 304 would not bring it."""
    assert await heal(library, await text_of_another_type(library)) == 1
    await library.crawl()
    await library.embed()

    assert await library.urls("weir", lexical_weight=1.0) == ["/a"]


async def test_timer_takes_away_orphan_chunks(library: Library) -> None:
    """A slice of the keys of search each minute, one behind the other, until all were looked at."""
    client, keys = library.context.client, library.context.keys
    for number in range(1_200):
        await client.hset(keys.chunk(f"c_{number}"), mapping={"item": "url_nobody", "text": "Old."})
        await client.set(keys.vector(f"v_{number}"), "x" * 64)
    queues = JobQueues(library.settings)
    timer = Timer(library.settings, client, keys, queues)
    left = []
    try:
        for _ in range(20):
            await timer.tick()
            timer._reconciled_ts -= 60
            left.append(len(await library.index_errors()))
            if not left[-1]:
                break
    finally:
        queues.close()

    assert 0 < left[0] < 2_400
    assert left[-1] == 0
    assert await look(library) == []


async def test_one_key_of_another_type_does_not_stop_the_timer(library: Library) -> None:
    """It is set right with the sample."""
    findings = await chunks_of_another_type(library)

    assert set(findings) <= set(await index_checks(library).check_sample(50))


async def test_what_a_worker_writes_beside_is_no_orphan(library: Library) -> None:
    """Neither before its swap nor, if the worker was quicker than the healer, after it; and a vector is kept."""
    client, keys = library.context.client, library.context.keys
    await stray_chunk(library)
    await client.expire(keys.chunk("c_stray"), 100)
    beside = await look(library)
    await client.persist(keys.chunk("c_stray"))
    findings = await look(library)
    await client.zadd(keys.chunks(library.id("/a")), {"c_stray": 9})
    swapped_in = await heal(library, findings)
    is_there = await client.exists(keys.chunk("c_stray"), keys.vector("c_stray"))
    await client.zrem(keys.chunks(library.id("/a")), "c_stray")

    assert (beside, swapped_in, is_there) == ([], 0, 2)
    assert await heal(library, findings) == 1
    assert await client.exists(keys.chunk("c_stray"), keys.vector("c_stray")) == 0
    assert await client.get(keys.embed_cache("first-16-c1", "old")) == "x" * 64


async def test_worker_that_writes_over_orphan_chunks_is_not_disturbed(library: Library) -> None:
    """From then on the chunk has an end, until the swap: whoever takes away orphan chunks leaves it alone."""
    client, keys = library.context.client, library.context.keys
    item_id, name = library.id("/a"), await first_chunk(library, "/a")
    await client.delete(keys.chunks(item_id))
    findings = [Finding(Problem.ORPHAN_CHUNK, name)]
    raw = connect.open_raw(library.settings)
    text, text_hash = await client.hmget(keys.chunk(name), ["text", "text_hash"])
    chunk = Chunk(name, str(text), text_hash=str(text_hash))
    await ChunkStore(client, raw, keys).write({item_id: [chunk]}, {name: ("first-16-c1", bytes(64))})
    await raw.aclose()

    assert await heal(library, findings) == 0
    assert 0 < await client.ttl(keys.chunk(name)) <= 3_600


async def test_many_orphans_are_found_in_batches(library: Library) -> None:
    """More than one piece of them: each is found, none is left."""
    client, keys = library.context.client, library.context.keys
    for number in range(1_200):
        await client.hset(keys.chunk(f"c_{number}"), mapping={"item": "url_nobody", "text": "Old."})
    findings = await look(library)

    assert {one.name for one in findings} == {f"c_{number}" for number in range(1_200)}
    assert await heal(library, findings) == 1_200
    assert await look(library) == []


async def test_failed_pages_are_in_the_sample(library: Library) -> None:
    """The timer finds what is wrong with them too."""
    expected = await nobody_knows_of_the_failed(library)

    assert await index_checks(library).check_sample(50) == expected


async def test_what_a_worker_holds_is_left(library: Library) -> None:
    """It is told as left, and healed when the worker has let go."""
    client, keys = library.context.client, library.context.keys
    findings = await without_vector(library)
    leases, repair = Leases(client, keys), index_repair(library)
    taken = await leases.acquire(f"embed_{library.id('/a')}")
    assert taken

    assert await heal(library, findings) == 0
    assert await repair.recheck(findings) == findings
    await leases.release(taken[0])
    assert await heal(library, findings) == 1
    assert await repair.recheck(findings) == []


async def test_nothing_is_healed_that_is_well_again(library: Library) -> None:
    """A worker was quicker: what the finding says is no longer so, and nothing is written."""
    findings = await nobody_knows(library)
    await library.context.client.zadd(library.context.keys.embed_due, {library.id("/b"): 5})
    stale = [*findings, Finding(Problem.NO_TEXT, library.id("/a")), Finding(Problem.DANGLING_ID, library.id("/a"))]

    assert await heal(library, stale) == 0
    assert await library.context.client.zscore(library.context.keys.embed_due, library.id("/b")) == 5
    assert await library.context.client.zcard(library.context.keys.chunks(library.id("/a"))) == 1


async def test_timer_heals_a_sample_once_a_minute(library: Library) -> None:
    """At its first tick and then not before a minute has passed."""
    client, keys = library.context.client, library.context.keys
    queues = JobQueues(library.settings)
    timer = Timer(library.settings, client, keys, queues)
    try:
        await without_vector(library)
        await timer.tick()
        healed = await library.record("/a")
        await nobody_knows(library)
        await timer.tick()
        too_soon = await client.zscore(keys.embed_due, library.id("/b"))
        timer._reconciled_ts -= 60
        await timer.tick()
    finally:
        queues.close()

    assert (healed["status"], too_soon) == ("Crawled", None)
    assert await client.zscore(keys.embed_due, library.id("/b"))
