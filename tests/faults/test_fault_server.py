"""The server itself is killed, made a read-only replica, or full."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.secret_text import SecretStr
from core.settings import Settings
from core.store import embedded
from core.store.connect import Client
from tests.faults import state
from tests.faults.process import Worker
from tests.faults.proxy import Proxy
from tests.faults.scenario import Newsroom, rss
from tests.web_replies import Document, Exchange

FEEDS = 12
INGESTOR = "workers.ingestor"


@pytest.fixture
async def room(settings: Settings, own_server: embedded.EmbeddedServer) -> AsyncIterator[Newsroom]:
    """Feeds that nobody polled yet, on a server of their own."""
    own = settings.model_copy(update={"redis_url": SecretStr(own_server.url)})
    async with Newsroom.open(own, new=FEEDS) as opened:
        await opened.rewind()
        yield opened


async def _read_only(client: Client, is_so: bool) -> None:
    # A replica of nobody: it keeps its data and refuses writes.
    await client.execute_command("REPLICAOF", *(("127.0.0.1", "1") if is_so else ("NO", "ONE")))


async def _full(client: Client, is_so: bool) -> None:
    await client.config_set("maxmemory", "1" if is_so else "0")


@pytest.mark.parametrize("refuse", [_read_only, _full])
async def test_server_that_refuses_writes_in_mid_cycle(
    room: Newsroom, own_server: embedded.EmbeddedServer, tmp_path: Path, refuse: object
) -> None:
    """Told without a traceback; when it takes writes again all goes on by itself, nothing lost, no feed blamed."""
    async with Proxy(own_server.port) as proxy:
        with Worker(tmp_path, proxy.url, INGESTOR, INGEST_CYCLE_SECONDS="0.5") as worker:
            await proxy.until(40)
            await refuse(room.client, True)  # type: ignore[operator]
            await worker.until(lambda: "roken off" in worker.log)
            await refuse(room.client, False)  # type: ignore[operator]
            broken = await room.check(is_settled=False)
            await room.let_leases_end()
            while len(room.statuses(await room.look())) < FEEDS + 3:
                assert worker.is_alive, worker.log
                await asyncio.sleep(0.05)
            code = await worker.stopped()

    assert code == 0
    assert worker.tracebacks == []
    assert broken == []
    await room.let_leases_end()  # of articles that were under way
    assert await room.inconsistencies(*state.COUNTERS, *state.FETCHERS_OWN) == "", worker.log


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
async def test_server_killed_and_started_again_under_load(
    room: Newsroom, own_server: embedded.EmbeddedServer, tmp_path: Path, appendfsync: str, full: bool
) -> None:
    """What the ingestor was told is written is there after kill -9 and a new start, and it goes on by itself.

    Every poll brings a new link, and its log line is written after the server's word. With `everysec` the server may
    forget what it said while its disk was busy: then the poll is made again, and the store is sound all the same.
    """
    room.web.fallback = Document(b"<p>A story.</p>")
    for number in range(FEEDS):
        room.web.on(f"/feed/{number}", _ever_new(room, number))
    server = own_server
    await room.client.config_set("appendfsync", appendfsync)
    with Worker(tmp_path, server.url, INGESTOR, INGEST_CYCLE_SECONDS="0.05") as worker:
        for restart in range(50 if full else 2):
            goal = len(worker.lines("new links")) + 2 * FEEDS + restart % FEEDS
            while len(worker.lines("new links")) < goal:
                await _all_due(room)
                assert worker.is_alive, worker.log
                await asyncio.sleep(0.02)
            told = Counter(line.rpartition(" ")[2] for line in worker.lines("new links"))
            server.process.kill()
            server.process.wait()
            await worker.until(lambda: len(worker.lines("Retrying")) > restart)  # noqa: B023
            server = await asyncio.to_thread(embedded.start, tmp_path / "server", server.port)
            own_server.process = server.process  # the fixture ends it
            await room.client.config_set("appendfsync", appendfsync)
            picture = await room.look()
            await room.let_leases_end()

            polls = Counter({feed["url"]: int(feed["polls"]) for feed in room.states(picture)})
            assert appendfsync != "always" or told <= polls
            assert state.problems(picture, is_settled=False) == []
            await worker.until(lambda: len(worker.lines("Redis is back")) > restart)  # noqa: B023
        assert await worker.stopped() == 0
    await room.let_leases_end()
    await _all_due(room)
    await room.run()

    assert worker.tracebacks == []
    assert await room.check(is_settled=True) == []


def _ever_new(room: Newsroom, feed: int) -> object:
    polls = iter(range(1_000_000))

    async def reply(exchange: Exchange) -> None:
        await Document(rss(room.web.url(f"/story/{feed}/{next(polls)}")).encode())(exchange)

    return reply


async def _all_due(room: Newsroom) -> None:
    fids = await room.client.zrange(room.keys.feeds_due, 0, -1)
    if fids:
        await room.client.zadd(room.keys.feeds_due, dict.fromkeys(fids, 0), xx=True)
