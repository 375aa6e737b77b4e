"""The refresh under faults, in one process: crash points, lost replies, a server that goes, poison, a late force."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError

from core.registry.io.batch_visitor import Visitor
from core.registry.io.due import HOLD_SECONDS
from core.runtime.context import Context
from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.open_sources import OpenSources
from core.store import connect, embedded
from core.store.clock import ServerClock
from tests.faults import crash, process
from tests.faults.crash import Crash, Point
from tests.faults.proxy import Proxy
from tests.faults.refresh_scene import FOLDER, LOOKED_AGAIN, WEB, Scene

ENDLESS = 1_000_000


@pytest.fixture
async def scene(settings: Settings, in_step: None) -> AsyncIterator[Scene]:
    async with Scene.open(settings) as opened:
        yield opened


# ── crashes ──


async def test_crash_before_every_command_then_the_timer_brings_it_to_its_end(
    scene: Scene, full: bool, record_property: Callable[[str, object], None]
) -> None:
    """Whatever the command before which it died: the store is sound at once, and when leases and holds have ended, one
    scheduled pass ends where an undisturbed one does, in every record, text, picture, event, streak and stamp.

    Only `run:*` and the counters differ (the broken-off run keeps what it had counted), and `links_dirty` may ask for
    one look more than is needed.
    """
    points = 0
    for point in crash.every_point(1 if full else 23):
        await scene.rewind()
        with point:
            await scene.run()
        broken = await scene.broken()
        await scene.let_time_pass()
        await scene.run(CrawlMode.SCHEDULED)

        assert broken == [], point
        assert await scene.inconsistencies() == "", point
        points += point.is_dead
    record_property("crash_points", points)

    assert points > (200 if full else 9)


async def test_crash_before_every_command_then_the_same_command_again(scene: Scene, full: bool) -> None:
    """A person who starts an incremental pass again at once, when only the leases have ended, gets all of it: nothing
    waits for its hold. What was committed before is looked at once more, so the fields that count looks may be higher.
    """
    points = 0
    for point in crash.every_point(1 if full else 41):
        await scene.rewind()
        with point:
            await scene.run()
        await scene.let_articles_wait_no_longer()
        await scene.run()

        assert await scene.inconsistencies(LOOKED_AGAIN) == "", point
        points += point.is_dead

    assert points > (200 if full else 5)


# ── replies and servers ──


async def test_reply_of_every_command_lost_once(scene: Scene, proxy: Proxy, at_once: None, full: bool) -> None:
    """The server does it, we never hear of it, redis-py asks again: the end is the same, all counters included."""
    await scene.rewind()
    await scene.run()
    counted, number = await scene.counts(), 0
    while number == 0 or proxy.dropped:
        number += 1 if full or not number else 29
        await scene.rewind()
        proxy.count_from_here()
        proxy.drop_reply(number)
        await scene.run(redis_url=proxy.url)

        lost = f"reply {number} lost: {proxy.dropped}"
        assert await scene.inconsistencies() == "", lost
        assert await scene.counts() == counted, lost

    assert number > 200


async def test_server_gone_at_any_command_then_a_clean_pass(
    scene: Scene, proxy: Proxy, at_once: None, full: bool
) -> None:
    """The pass breaks off with Redis' own error; the store is sound, no page is blamed, and the next pass ends well."""
    await scene.rewind()
    proxy.count_from_here()
    await scene.run(redis_url=proxy.url)
    commands, broken_off = proxy.count, 0
    for number in range(3, commands, 1 if full else 67):
        await scene.rewind()
        proxy.count_from_here()
        running = asyncio.ensure_future(scene.run(redis_url=proxy.url))
        await process.until(lambda: proxy.count >= number or running.done())  # noqa: B023
        await proxy.off()
        try:
            await running
        except* (RedisError, OSError):
            broken_off += 1
        await proxy.on()
        broken = await scene.broken()
        await scene.let_time_pass()
        await scene.run(CrawlMode.SCHEDULED)

        assert broken == [], number
        assert await scene.inconsistencies() == "", number

    assert broken_off > commands / 67 / 2


async def test_server_killed_in_the_middle_of_a_visit(
    settings: Settings, own_server: embedded.EmbeddedServer, in_step: None, tmp_path: Path
) -> None:
    """kill -9 of the server during a fetch, and a new start: the pass goes on by itself as if nothing had been."""
    own = settings.model_copy(update={"redis_url": SecretStr(own_server.url)})
    async with Scene.open(own) as scene:
        await scene.rewind()
        gate = scene.hold("/docs/changed")
        running = asyncio.ensure_future(scene.run())
        await process.until(lambda: gate.is_reached)
        own_server.process.kill()
        own_server.process.wait()
        gate.open()
        again = await asyncio.to_thread(embedded.start, tmp_path / "server", own_server.port)
        own_server.process = again.process  # the fixture ends it
        await running

        assert await scene.inconsistencies() == ""


# ── poison ──


async def test_poison_is_parked_after_three_deaths_and_nothing_else_is(scene: Scene) -> None:
    """A page over which the process dies three times is parked: Error, a sentence, not due. A pass leaves it alone, its
    neighbours in the batch are not blamed, and a force brings it back, to be parked again if it kills again."""
    await scene.rewind()
    for _ in range(3):
        await _die_over(scene, b"Corrected.")
        await scene.let_time_pass()
    await scene.run(CrawlMode.SCHEDULED)
    parked, stamp = await scene.item("/docs/changed"), await scene.due("/docs/changed")
    statuses = await scene.statuses()
    asked = scene.asked["/docs/changed"]
    await scene.run(CrawlMode.INCREMENTAL)

    assert (parked["status"], parked["nextCrawlAt"], stamp) == ("Error", "", None)
    assert parked["errorMessage"] == "Reading this killed Freshet 3 times; it is parked. `scripts.reindex` unparks it."
    assert statuses == {"Crawled": 6, "Indexed": 1, "Error": 2, "Gone": 1, "OutOfScope": 1}  # the other Error is a 404
    assert scene.asked["/docs/changed"] == asked
    assert await scene.broken() == []

    await scene.force("/docs/changed")
    for _ in range(3):
        await _die_over(scene, b"Corrected.")
        await scene.let_time_pass()
    await scene.run(CrawlMode.SCHEDULED)
    again = await scene.item("/docs/changed")
    await scene.force("/docs/changed")
    await scene.run(CrawlMode.SCHEDULED)
    free = await scene.item("/docs/changed")

    assert (again["status"], again["nextCrawlAt"]) == ("Error", "")
    assert (free["status"], free["errorMessage"], free["reindexRequested"]) == ("Crawled", "", "false")
    assert "Corrected." in await scene.text("/docs/changed")


async def _die_over(scene: Scene, words: bytes) -> None:
    """A pass whose whole process dies while it reads the page with these words."""
    async with scene.context() as context:
        with Point(ENDLESS) as point, _deadly(context, words, point):
            await crawl_source(context, WEB, CrawlMode.SCHEDULED)
    assert point.is_dead


@contextmanager
def _deadly(context: Context, words: bytes, point: Point) -> Iterator[None]:
    read = context.pool.run

    async def run(name: str, request: Any) -> Any:
        if words in request.body:
            point.is_dead = True
            raise Crash
        return await read(name, request)

    context.pool.run = run  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        context.pool.run = read  # type: ignore[assignment, method-assign]


# ── force ──


async def test_force_during_a_visit_is_not_lost(scene: Scene) -> None:
    """It lands while the page is being fetched: afterwards the item is still requested and due at once, and the next
    visit asks without validators."""
    await scene.rewind()
    gate = scene.hold("/docs/same")
    visiting = asyncio.ensure_future(_visit(scene, "/docs/same"))
    await process.until(lambda: gate.is_reached)
    await scene.force("/docs/same")
    gate.open()
    await visiting
    between, stamp, now = await scene.item("/docs/same"), await scene.due("/docs/same"), await connect.now(scene.client)
    await _visit(scene, "/docs/same")
    after, (first, second) = await scene.item("/docs/same"), scene.site.web.asked("/docs/same")

    assert "if-none-match" in first.headers
    assert (between["reindexGeneration"], between["processedGeneration"]) == ("1", "0")
    assert between["reindexRequested"] == "true"
    assert stamp is not None
    assert stamp <= now
    assert "if-none-match" not in second.headers
    assert (after["processedGeneration"], after["reindexRequested"]) == ("1", "false")


async def test_force_during_a_pass_is_served_by_it(scene: Scene) -> None:
    """The page is asked for again before the pass ends, and nothing is left to do."""
    await scene.rewind()
    gate = scene.hold("/docs/same")
    running = asyncio.ensure_future(scene.run())
    await process.until(lambda: gate.is_reached)
    await scene.force("/docs/same")
    gate.open()
    await running
    record = await scene.item("/docs/same")

    assert ["if-none-match" in seen.headers for seen in scene.site.web.asked("/docs/same")] == [True, False]
    assert (record["reindexGeneration"], record["processedGeneration"]) == ("1", "1")


async def test_force_lands_while_a_late_job_passes_it_over(scene: Scene) -> None:
    """The item was visited since the job was made, so the job leaves it alone; a force in that very moment counts."""
    item_id = scene.item_id("/docs/same")
    async with scene.context() as context:
        visitor = Visitor(context, clock := await ServerClock.ask(context.client), OpenSources(context, clock.now()))
        (leased,) = await context.items.lease(context.leases, [item_id], clock.now(), WEB)
        waiting = {item_id: leased}
        await scene.force("/docs/same")
        await visitor._skip_visited(waiting, 1.0)
        left = dict(waiting)
        await context.leases.release_many([one.lease for one in left.values()])

    assert [one.item.is_forced for one in left.values()] == [True]


async def test_late_job_does_not_hide_a_new_version(scene: Scene) -> None:
    """A file that its listing says has moved since its visit is visited, though that visit came after the job."""
    file_id = next(iter(await scene.client.zrange(scene.keys.refs(FOLDER), 0, 0)))
    async with scene.context() as context:
        visitor = Visitor(context, clock := await ServerClock.ask(context.client), OpenSources(context, clock.now()))
        (leased,) = await context.items.lease(context.leases, [file_id], clock.now(), FOLDER)
        moved = {file_id: replace(leased, item=replace(leased.item, listed_version="another"))}
        same = {file_id: leased}
        await visitor._skip_visited(moved, 1.0)
        await visitor._skip_visited(same, 1.0)

    assert list(moved) == [file_id]
    assert same == {}


async def _visit(scene: Scene, path: str) -> None:
    """What a job does with one item."""
    async with scene.context() as context:
        clock = await ServerClock.ask(context.client)
        await context.due.pick(WEB, clock.now(), 100, HOLD_SECONDS)
        visitor = Visitor(context, clock, OpenSources(context, clock.now()))
        await visitor.visit_many([scene.item_id(path)], picked_ts=clock.now(), via=WEB)
