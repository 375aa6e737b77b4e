"""What can be wrong between registry, texts and chunks: each is found, healed, and found no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from core.queues.send import Sender
from core.settings import Settings
from core.stores import connect
from core.stores.reconciling import Finding, Reconciling, Wrong
from tests.library import Library, open_library
from workers.timer import Timer

Plant = Callable[[Library], Awaitable[object]]


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    """Four pages: two embedded, one waiting since, one gone."""
    pages = {"/a": "The weir.", "/b": "The sluice.", "/c": "The lock."}
    async with open_library(settings, pages) as opened:
        await opened.embed()
        opened.site.page("/b", "The sluice as it is now.")
        opened.site.remove("/c", 410)
        await opened.crawl()
        yield opened


async def look(library: Library) -> list[Finding]:
    reconciling = Reconciling(library.desk.client, library.desk.keys)
    return [one async for some in reconciling.everything() for one in some]


async def heal(library: Library, findings: list[Finding]) -> int:
    client = library.desk.client
    return await Reconciling(client, library.desk.keys).heal(findings, await connect.now(client))


async def first_chunk(library: Library, path: str) -> str:
    names = await library.desk.client.zrange(library.desk.keys.chunks(library.id(path)), 0, 0)
    return str(names[0])


async def without_vector(library: Library) -> None:
    await library.desk.client.delete(library.desk.keys.vector(await first_chunk(library, "/a")))


async def without_chunk(library: Library) -> None:
    await library.desk.client.delete(library.desk.keys.chunk(await first_chunk(library, "/a")))


async def without_chunks(library: Library) -> None:
    await library.desk.client.delete(library.desk.keys.chunks(library.id("/a")))


async def of_another_space(library: Library) -> None:
    await library.desk.client.hset(library.desk.keys.chunk(await first_chunk(library, "/a")), "space", "other-8-c1")


async def of_another_text(library: Library) -> None:
    await library.desk.client.hset(library.desk.keys.item(library.id("/a")), "indexedHash", "another")


async def nobody_knows(library: Library) -> None:
    await library.desk.client.zrem(library.desk.keys.embed_due, library.id("/b"))


async def without_text(library: Library) -> None:
    await library.desk.client.delete(library.desk.keys.document(library.id("/a")))


async def without_record(library: Library) -> None:
    client, keys = library.desk.client, library.desk.keys
    await client.delete(keys.item(library.id("/a")), keys.document(library.id("/a")))
    await client.srem(keys.status("Indexed"), library.id("/a"))


async def for_nothing(library: Library) -> None:
    await library.desk.client.zadd(library.desk.keys.embed_due, {library.id("/c"): 1})


PLANTS: list[tuple[Plant, str, Wrong]] = [
    (without_vector, "/a", Wrong.NOT_EMBEDDED),
    (without_chunk, "/a", Wrong.NOT_EMBEDDED),
    (without_chunks, "/a", Wrong.NOT_EMBEDDED),
    (of_another_space, "/a", Wrong.NOT_EMBEDDED),
    (of_another_text, "/a", Wrong.NOT_EMBEDDED),
    (nobody_knows, "/b", Wrong.NOT_WAITING),
    (without_text, "/a", Wrong.NO_TEXT),
    (without_record, "/a", Wrong.NO_RECORD),
    (for_nothing, "/c", Wrong.WAITS_FOR_NOTHING),
]


async def test_clean_store_has_no_findings(library: Library) -> None:
    """Neither while a page waits, nor when everything is embedded."""
    assert await look(library) == []
    await library.embed()
    assert await look(library) == []


@pytest.mark.parametrize(("plant", "path", "wrong"), PLANTS, ids=[plant.__name__ for plant, _, _ in PLANTS])
async def test_each_wrong_is_found_and_healed(library: Library, plant: Plant, path: str, wrong: Wrong) -> None:
    """Found as what it is and nothing else, healed once, gone at the second look; after the next embed all fits."""
    await plant(library)
    findings = await look(library)

    assert findings == [Finding(wrong, library.id(path))]
    assert await heal(library, findings) == 1
    assert await look(library) == []
    await library.embed()
    assert await look(library) == []
    assert await library.astray() == []


async def test_nothing_is_healed_that_is_well_again(library: Library) -> None:
    """A worker was quicker: what the finding says is no longer so, and nothing is written."""
    await nobody_knows(library)
    findings = await look(library)
    await library.desk.client.zadd(library.desk.keys.embed_due, {library.id("/b"): 5})
    stale = [*findings, Finding(Wrong.NO_TEXT, library.id("/a")), Finding(Wrong.NO_RECORD, library.id("/a"))]

    assert await heal(library, stale) == 0
    assert await library.desk.client.zscore(library.desk.keys.embed_due, library.id("/b")) == 5
    assert await library.desk.client.zcard(library.desk.keys.chunks(library.id("/a"))) == 1


async def test_timer_heals_a_sample_once_a_minute(library: Library) -> None:
    """At its first tick and then not before a minute has passed."""
    client, keys = library.desk.client, library.desk.keys
    sender = Sender(library.settings)
    timer = Timer(library.settings, client, keys, sender)
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
        sender.close()

    assert (healed["status"], too_soon) == ("Crawled", None)
    assert await client.zscore(keys.embed_due, library.id("/b"))
