"""More faults: link sets made by hand, the sample, keys of wrong types, stops in the middle, dead children."""

from __future__ import annotations

import asyncio
import gc
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from core import ids
from core.feeds.feed_state import FeedState
from core.feeds.io.feed_store import LeasedFeed
from core.feeds.io.poller import PollCycle
from core.runtime.context import Context
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from core.store.clock import ServerClock
from core.store.embedded import EmbeddedServer
from core.store.leases import Lease
from tests.faults import crash, process, state
from tests.faults.process import Worker
from tests.faults.proxy import Proxy
from tests.faults.scenario import DEAD_HOST, Newsroom


@pytest.mark.parametrize("what", ["by_hand", "sample"])
async def test_crash_with(settings: Settings, in_step: None, what: str, full: bool) -> None:
    """Link sets made by hand, and a sample that steps aside."""
    wrong = []
    async with Newsroom.open(settings, **{what: True}) as room:
        for point in crash.every_point(1 if full else 13):
            await room.rewind()
            with point:
                await room.run()
            broken = await room.check(is_settled=False)
            await room.let_leases_end()
            await room.run()
            # A removal that is done again resets the scan of new links again: that is a number of times, not a state.
            left_out = ("ingest_last_run", "canonical_scan")
            if errors := "\n".join((*broken, await room.inconsistencies(*left_out))).strip():
                wrong.append(f"{point}: {errors}")
        assert await room.inconsistencies(*state.COUNTERS) == ""

    assert wrong == []


async def test_script_error_writes_all_or_nothing(newsroom: Newsroom) -> None:
    """A key of a wrong type (anybody may write there) makes the commit script fail half-way, and Lua rolls nothing
    back: the key is put aside, the commit is sent again, and the store is sound."""
    await newsroom.rewind()
    await newsroom.client.set(newsroom.keys.category_links_seen("filed"), "oops")
    await newsroom.run()

    assert await newsroom.check(is_settled=False) == []
    assert await newsroom.client.zcard(newsroom.keys.quarantine) == 1


async def test_key_of_a_wrong_type_stops_only_its_own_feeds(newsroom: Newsroom) -> None:
    """One bad key (anybody may write there) is told at its feed; the cycle goes on and all others are polled."""
    await newsroom.rewind()
    await newsroom.client.set(newsroom.keys.category_links("filed"), "oops")
    await newsroom.run()
    statuses = newsroom.statuses(await newsroom.look())

    assert {"/known", "/grown", "/first", "/missing"} <= set(newsroom.asked)
    assert [statuses[newsroom.web.url(path)] for path in ("/known", "/grown", "/first")] == ["ok", "ok", "ok"]
    assert await newsroom.client.sismember(newsroom.keys.category_links("world"), newsroom.links("first", 1)[0])


async def test_stop_gives_back_what_is_unreached(settings: Settings) -> None:
    """SIGTERM after a dead host was tried: its lease is given back as those of the others."""
    async with Newsroom.open(settings, new=1) as room:
        await room.rewind()
        room.web.hang("/feed/0")
        cycle = asyncio.create_task(room.run())
        dead = room.keys.lease(f"feed_{ids.feed_id(room.web.url('/feed', DEAD_HOST))}")
        while "/feed/0" not in room.asked or not await room.client.exists(dead):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # and until its connection is refused
        cycle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cycle

        assert [key async for key in room.client.scan_iter("*lease*")] == []


async def test_child_killed_at_its_start_ends_no_ingestor(settings: Settings, tmp_path: Path) -> None:
    """kill -9 of a parse child that is just starting: the feed is tried again, the process lives, no traceback."""
    async with Newsroom.open(settings, new=4) as room:
        await room.rewind()
        with Worker(tmp_path, room.redis_url, "workers.ingestor", INGEST_CYCLE_SECONDS="0.5") as worker:
            await worker.until(lambda: bool(worker.children()))
            for child in worker.children():
                child.kill()
            await worker.until(lambda: "🏁" in worker.log)
            await worker.stopped()

        assert "Traceback" not in worker.log


async def test_started_on_a_server_that_refuses_writes(
    settings: Settings, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """A worker that starts while Redis is a read-only replica says so in a sentence and waits."""
    async with connect.open_store(settings.model_copy(update={"redis_url": SecretStr(own_server.url)})) as client:
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        with Worker(tmp_path, own_server.url, "workers.ingestor") as worker:
            await process.until(lambda: "edis" in worker.log or not worker.is_alive)

    assert "Traceback" not in worker.log


async def test_once_ends_with_a_sentence_when_redis_goes(settings: Settings, proxy: Proxy, tmp_path: Path) -> None:
    """`--once` in mid-cycle when the server goes: one sentence and exit code 2, no traceback."""
    async with Newsroom.open(settings, new=12) as room:
        await room.rewind()
        with Worker(tmp_path, proxy.url, "workers.ingestor", "--once") as worker:
            await proxy.until(40)
            await proxy.off()
            code = await worker.ended()

    assert "Traceback" not in worker.log
    assert code == 2


async def test_release_that_fails_leaves_no_traceback() -> None:
    """A feed is being given back, its task is cancelled (a neighbour failed), Redis is gone: asyncio must not complain.

    Seen as `Task exception was never retrieved … FeedStore.release` in the log of a real ingestor.
    """
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context["message"]))
    releasing, gone = asyncio.Event(), asyncio.Event()

    class Feeds:
        async def lease(self, *_: object) -> object:
            return LeasedFeed(FeedState("url"), "fid", Lease(("key",), "token"))

        async def release(self, _: object) -> None:
            releasing.set()
            await gone.wait()
            raise RedisConnectionError("gone")

    class Source:
        async def fetch(self, *_: object) -> None:
            raise RedisConnectionError("gone")

    context = SimpleNamespace(feeds=Feeds(), feed_fetcher=Source())
    cycle = PollCycle(cast(Context, context), ServerClock(0.0, 0.0), {"url": ["world"]})
    task = asyncio.ensure_future(cycle.poll("url"))
    await releasing.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gone.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()

    assert unheard == []


async def test_one_sigterm_ends_a_busy_ingestor(settings: Settings, tmp_path: Path, full: bool) -> None:
    """Python 3.11 may lose a cancellation that comes with a Redis answer; one SIGTERM is enough all the same."""
    async with Newsroom.open(settings, new=4) as room:
        for _ in range(5 if full else 2):
            await room.rewind()
            with Worker(tmp_path, room.redis_url, "workers.ingestor", INGEST_CYCLE_SECONDS="0.0001") as worker:
                await worker.until(lambda: "🏁" in worker.log)
                worker.signal(signal.SIGTERM)
                code = await worker.ended()

            assert (code, worker.tracebacks) == (0, [])
