"""Real ingestor processes: killed, stopped, doubled, cut off from Redis, bereft of children."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from core import ids
from core.runtime.parse_pool import ParsePool
from core.settings import Settings
from core.store import embedded
from tests.faults import process, state
from tests.faults.process import Worker
from tests.faults.proxy import LOADING, Proxy
from tests.faults.scenario import Newsroom, rss
from tests.inline_pool import InlinePool
from tests.web_replies import Document, Exchange

INGESTOR = "workers.ingestor"
NOT_OURS = (*state.COUNTERS, *state.FETCHERS_OWN)
"""Counters are of finished cycles; the fetcher that an ingestor starts beside itself has its own tests."""
FEEDS = 12


@pytest.fixture
async def room(settings: Settings) -> AsyncIterator[Newsroom]:
    """Feeds that nobody polled yet."""
    async with Newsroom.open(settings, new=FEEDS) as opened:
        await opened.rewind()
        yield opened


async def test_kill_9_at_any_moment_loses_nothing(room: Newsroom, proxy: Proxy, tmp_path: Path, full: bool) -> None:
    """After each kill the store is sound as it stands, without healing, and one clean run ends where it always ends."""
    with Worker(tmp_path, proxy.url, INGESTOR, "--once") as whole:
        await whole.ended()
    commands = proxy.count
    dice = random.Random(7)
    kills = 200 if full else 4
    for kill in range(kills):
        await room.rewind()
        proxy.count_from_here()
        # The kills are spread evenly over the run; some before a command, some while others are under way.
        number = 1 + int((kill + dice.random()) * commands / kills)
        if kill % 2:
            proxy.hold(number)
        with Worker(tmp_path, proxy.url, INGESTOR, "--once") as victim:
            # A run may need a command less than the first one did.
            await process.until(lambda: proxy.count >= number or not victim.is_alive)  # noqa: B023
            family = victim.children()
            victim.kill()
        proxy.let_go()
        await process.until(lambda: all(map(process.is_dead, family)), lambda: str(family))  # noqa: B023
        broken = await room.check(is_settled=False)
        await room.let_leases_end()
        await room.run()

        assert broken == [], number
        assert await room.inconsistencies(*NOT_OURS) == "", f"killed at command {number} of {commands}"


async def test_paused_past_its_lease_the_late_writer_is_refused(room: Newsroom, tmp_path: Path) -> None:
    """SIGSTOP in mid-poll, the lease ends, another ingestor polls; SIGCONT, and what the first one has is refused."""
    url, may_answer = room.web.url("/feed/0"), asyncio.Event()
    answers = iter((rss(*room.links("late", 2)), rss(*room.links("0", 3))))

    async def reply(exchange: Exchange) -> None:
        body = next(answers)
        if "late" in body:
            await may_answer.wait()
        await Document(body.encode(), etag='"0"')(exchange)

    room.web.on("/feed/0", reply)
    with Worker(tmp_path, room.redis_url, INGESTOR, "--once") as late:
        await late.until(lambda: "/feed/0" in room.asked)
        await late.paused()
        held = await room.client.exists(room.keys.lease(f"feed_{ids.feed_id(url)}"))
        await room.let_leases_end()
        await room.run()
        before = state.dump(await room.look())
        may_answer.set()
        late.resume()
        code = await late.ended()
    after = state.dump(await room.look())
    left_out = (*state.POLITENESS, *NOT_OURS)

    assert (held, code) == (1, 0), late.log
    assert len(late.lines("Lease lost")) >= 1
    assert late.tracebacks == []
    same = (state.only_families_of(dump, room.keys, left_out) for dump in (before, after))
    assert state.difference(*same) == ""
    assert await room.inconsistencies(*NOT_OURS) == ""


async def test_two_ingestors_at_once_poll_each_feed_once(
    settings: Settings, tmp_path: Path, server: embedded.EmbeddedServer
) -> None:
    """Two processes, forty feeds: both are at work, no feed is asked for twice, and the end is that of one process."""
    async with Newsroom.open(settings, new=40) as room, Proxy(server.port) as left, Proxy(server.port) as right:
        await room.rewind()
        both = asyncio.Event()
        for number in range(40):
            body = rss(*room.links(str(number), 3)).encode()
            room.web.on(f"/feed/{number}", _after(both, Document(body, etag=f'"{number}"')))
        limits = {"FETCH_HOST_PARALLEL": "2", "FETCH_HOST_GAP_SECONDS": "0.001"}
        with (
            Worker(tmp_path, left.url, INGESTOR, "--once", **limits) as a,
            Worker(tmp_path, right.url, INGESTOR, "--once", **limits) as b,
        ):
            # No feed is answered before both have leased something.
            for worker, door in ((a, left), (b, right)):
                await worker.until(lambda: any("lease:feed_" in command for command in door.commands))  # noqa: B023
            both.set()
            codes = [await a.ended(), await b.ended()]
        asked = room.asked

        assert codes == [0, 0], a.log + b.log
        assert sorted(asked) == sorted(set(asked))
        assert len(asked) == 42
        assert min(len(worker.lines("new links")) for worker in (a, b)) > 0
        assert a.tracebacks + b.tracebacks == []
        assert await room.inconsistencies(*NOT_OURS) == ""


def _after(event: asyncio.Event, document: Document) -> Callable[[Exchange], Awaitable[None]]:
    async def reply(exchange: Exchange) -> None:
        await event.wait()
        await document(exchange)

    return reply


async def _gone(proxy: Proxy) -> None:
    await proxy.off()


async def _loading(proxy: Proxy) -> None:
    proxy.answer(LOADING)


@pytest.mark.parametrize(("go_away", "sentence"), [(_gone, "does not answer"), (_loading, "is still loading its data")])
async def test_redis_away_in_mid_cycle(
    room: Newsroom, proxy: Proxy, tmp_path: Path, go_away: Callable[[Proxy], Awaitable[None]], sentence: str
) -> None:
    """A sentence without a traceback, then it goes on by itself; nothing is lost and no feed is blamed."""
    with Worker(tmp_path, proxy.url, INGESTOR, INGEST_CYCLE_SECONDS="0.5") as worker:
        await proxy.until(40)
        await go_away(proxy)
        await worker.until(lambda: "Retrying until it is back" in worker.log)
        broken = await room.check(is_settled=False)
        half = room.statuses(await room.look())
        proxy.forward()
        if not proxy.is_on:
            await proxy.on()
        await room.let_leases_end()
        await worker.until(lambda: "Redis is back" in worker.log)
        await _polled(room, worker)
        code = await worker.stopped()
    await room.let_leases_end()  # of articles that were under way

    assert code == 0
    assert broken == []
    assert len(half) < FEEDS + 3  # it was in mid-cycle
    assert worker.tracebacks == []
    assert len(worker.lines("roken off")) == 1, worker.log
    assert sentence in worker.lines("roken off")[0]
    assert len(worker.lines("Retrying until it is back")) == 1
    assert await room.inconsistencies(*NOT_OURS) == "", worker.log


async def _polled(room: Newsroom, worker: Worker) -> None:
    """Until every feed has its state."""
    while len(room.statuses(await room.look())) < FEEDS + 3:
        assert worker.is_alive, worker.log
        await asyncio.sleep(0.05)


@pytest.fixture
async def lent_pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ParsePool]:
    """One real parse child for every context of a test."""
    async with ParsePool(1, 5, 1_000_000_000) as pool:
        lent = InlinePool()
        monkeypatch.setattr(lent, "run", pool.run)
        monkeypatch.setattr("core.runtime.context.ParsePool", lambda *_: lent)
        yield pool


async def test_killed_parse_child_costs_no_feed(lent_pool: ParsePool, room: Newsroom) -> None:
    """kill -9 of the child that reads a feed: the feed is read by another, and all end as ever; no dead child is left
    unburied."""
    (child,) = lent_pool.pids
    os.kill(child, signal.SIGSTOP)
    cycle = asyncio.ensure_future(room.run())
    await process.until(lambda: bool(lent_pool._busy))
    os.kill(child, signal.SIGKILL)
    await cycle
    zombies = [one for one in psutil.Process().children() if one.status() == psutil.STATUS_ZOMBIE]

    assert [feed["url"] for feed in room.states(await room.look()) if "SIG" in feed["error_text"]] == []
    assert zombies == []
    assert child not in lent_pool.pids
    assert await room.inconsistencies(*NOT_OURS) == ""
    assert await room.check(is_settled=True) == []


async def test_kill_9_takes_the_children_along(room: Newsroom, tmp_path: Path) -> None:
    """No parse child outlives an ingestor that was killed while they were at work."""
    with Worker(tmp_path, room.redis_url, INGESTOR, INGEST_CYCLE_SECONDS="0.5") as worker:
        await worker.until(lambda: "new links" in worker.log)
        family = worker.children()
        worker.kill()
    await process.until(lambda: all(map(process.is_dead, family)), lambda: str(family))

    assert family
