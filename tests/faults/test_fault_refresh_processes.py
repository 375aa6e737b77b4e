"""Real refresh workers: killed with and without their child, stopped, doubled, bereft of every RQ key."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from core.settings import Settings
from core.sources.io.crawl import CrawlMode
from core.store.embedded import EmbeddedServer
from tests.faults import process, state
from tests.faults.process import Worker
from tests.faults.proxy import Proxy
from tests.faults.refresh_scene import ENVIRONMENT, FOLDER, WEB, Scene, without
from tests.site import html
from tests.web_replies import Document, raw

WORKERS = ("workers", "refresh", "--burst")
PATIENT = {**ENVIRONMENT, "FETCH_TIMEOUT_SECONDS": "50"}
"""A page that stands still is not given up by the one who waits for it."""
LATER = {"last_listing"}
"""A listing that follows another says `unchanged` where the first said `complete`."""

ORPHANS = {"crawlAttempts", "unchangedStreak", "crawlIntervalSeconds"}
"""An orphan that follows a redirect takes the page behind it anew and in good right: one look more, nothing else."""
ROOT = {"/docs/"}
"""Asked for a second time, to vouch for a page that says 404."""


@pytest.fixture
async def scene(settings: Settings, in_step: None) -> AsyncIterator[Scene]:
    async with Scene.open(settings) as opened:
        await opened.rewind()
        yield opened


class CommitDoor(Proxy):
    """A door before which the commit of a batch of visits stands, and all that follows."""

    is_shut = True

    async def came(self, frame: bytes) -> int:
        if self.is_shut and b'"visited"' in frame:
            self.hold(self.count + 1)
            self.is_shut = False
        return await super().came(frame)


async def _settle(scene: Scene, folder: Path) -> None:
    """A quarter of an hour later the timer sends what is due, and a worker does it; the next pass finds the orphans."""
    await scene.let_time_pass()
    await scene.client.zadd(scene.keys.sources_due, {WEB: 1, FOLDER: 1})
    await scene.tick()
    with Worker(folder, scene.redis_url, *WORKERS, **ENVIRONMENT) as worker:
        assert await worker.ended() == 0, worker.log
    assert worker.tracebacks == []
    await scene.run(CrawlMode.SCHEDULED)


def _horse(worker: Worker) -> psutil.Process:
    """The child that runs the job; its own children read pages."""
    (horse,) = psutil.Process(worker.process.pid).children()
    return horse


async def _kill_worker(worker: Worker, horse: psutil.Process) -> None:
    worker.kill()
    # As long as it moves it is at work, and is waited for: a quarter of an hour passes without it.
    horse.suspend()
    await process.until(lambda: horse.status() == psutil.STATUS_STOPPED)


async def _kill_horse(worker: Worker, horse: psutil.Process) -> None:
    horse.kill()
    await worker.until(lambda: "its process died (signal 9)" in worker.log)
    # It may have gone on to the next job, which waits for the place of the dead one's request, or before our door.
    worker.signal(signal.SIGTERM)
    await worker.ended()


async def _kill_both(worker: Worker, horse: psutil.Process) -> None:
    worker.kill()
    horse.kill()
    await process.until(lambda: process.is_dead(horse))


async def _come_to_its_end(worker: Worker, horse: psutil.Process) -> None:
    """An orphan goes on where it stood; a dead child has come to its end already."""
    if not process.is_dead(horse):
        horse.resume()
    await process.until(lambda: process.is_dead(horse), lambda: worker.log)


Kill = Callable[[Worker, psutil.Process], Awaitable[None]]
KILLS = pytest.mark.parametrize("kill", [_kill_worker, _kill_horse, _kill_both])


@KILLS
async def test_killed_during_a_fetch(scene: Scene, tmp_path: Path, kill: Kill) -> None:
    """kill -9 of the worker, of its child, or of both, while a page is on its way: the timer brings all of it back, and
    an orphaned child that comes to its end later is refused."""
    gate = scene.hold("/docs/changed")
    await scene.tick()
    with Worker(tmp_path, scene.redis_url, *WORKERS, **PATIENT) as worker:
        await worker.until(lambda: gate.is_reached)
        horse = _horse(worker)
        await kill(worker, horse)
    broken = await scene.broken()
    await scene.forget_rq()
    await _settle(scene, tmp_path)
    gate.open()
    await _come_to_its_end(worker, horse)

    assert broken == []
    assert await scene.inconsistencies(LATER | (ORPHANS if kill is _kill_worker else set())) == "", worker.log
    assert bool(worker.lines("Lease lost")) is (kill is _kill_worker), worker.log


@KILLS
async def test_killed_during_the_commit(
    scene: Scene, server: EmbeddedServer, tmp_path: Path, kill: Kill, full: bool
) -> None:
    """The same when the commit is sent and not yet executed: a resend of the orphan's is refused, and all is well."""
    if not full and kill is not _kill_worker:
        pytest.skip("with --full")
    async with CommitDoor(server.port) as door:
        await scene.tick()
        direct = {"QUEUE_REDIS_URL": scene.redis_url}
        with Worker(tmp_path, door.url, *WORKERS, **PATIENT, **direct) as worker:
            await worker.until(lambda: door.is_holding)
            horse = _horse(worker)
            await kill(worker, horse)
        broken = await scene.broken()
        await scene.forget_rq()
        await _settle(scene, tmp_path)
        door.let_go()
        await _come_to_its_end(worker, horse)

        assert broken == []
        assert await scene.inconsistencies(LATER | (ORPHANS if kill is _kill_worker else set())) == "", worker.log
        assert bool(worker.lines("Lease lost")) is (kill is _kill_worker), worker.log


async def test_stopped_past_its_lease_the_late_writer_is_refused(scene: Scene, tmp_path: Path) -> None:
    """SIGSTOP in the middle of a visit, the lease ends, another process visits the page; SIGCONT: what the first one
    has is refused with a word, and the record is the second one's."""
    gate = scene.hold("/docs/changed")
    newer = Document(raw(html("Changed", "The newest version.")), etag='"newest"')
    gate._others = newer
    await scene.tick()
    with Worker(tmp_path, scene.redis_url, *WORKERS, **PATIENT) as worker:
        await worker.until(lambda: gate.is_reached)
        horse = _horse(worker)
        horse.suspend()
        await process.until(lambda: horse.status() == psutil.STATUS_STOPPED)
        await scene.let_time_pass()
        await scene.run(CrawlMode.SCHEDULED)
        before = await scene.dump()
        gate.open()
        horse.resume()
        await worker.until(lambda: bool(worker.lines("Lease lost")))
        assert await worker.ended() == 0
    record = await scene.item("/docs/changed")

    assert (record["httpEtag"], record["crawlAttempts"]) == ('"newest"', "2")
    assert "The newest version." in await scene.text("/docs/changed")
    # The worker's next job may follow the links that the other process has marked for another look.
    ignored = ORPHANS | {"links_dirty"}
    assert state.difference(without(before, ignored), without(await scene.dump(), ignored)) == ""
    assert await scene.broken() == []
    assert worker.tracebacks == []


async def test_every_rq_key_deleted_while_jobs_wait(scene: Scene, tmp_path: Path) -> None:
    """Picked items wait in jobs that are gone: they are held back, then the timer sends them again, all is visited, and
    nothing twice."""
    sent = await scene.tick()
    deleted = await scene.forget_rq()
    too_early = await scene.tick()
    await scene.let_time_pass()
    again = await scene.tick()
    with Worker(tmp_path, scene.redis_url, *WORKERS, **ENVIRONMENT) as worker:
        assert await worker.ended() == 0
    asked = dict(scene.asked)
    await scene.let_time_pass()
    await scene.run(CrawlMode.SCHEDULED)

    # One job is for the queue embed, whose items nobody holds back: it is sent again at once, and then waits.
    assert (sent, too_early, again) == (5, 1, 4)
    assert deleted > 4
    assert {path for path, count in asked.items() if count > 1} <= ROOT
    assert max(asked.values()) <= 2
    assert len(asked) == 12
    assert dict(scene.asked) == asked
    assert await scene.inconsistencies(LATER) == ""


async def test_timer_and_worker_as_people_start_them(scene: Scene, tmp_path: Path) -> None:
    """`python -m workers.timer --once` and a worker in a burst do what a pass in one process does."""
    for _ in range(2):
        await scene.client.zadd(scene.keys.sources_due, {WEB: 1, FOLDER: 1})
        with Worker(tmp_path, scene.redis_url, "workers.timer", "--once", **ENVIRONMENT) as timer:
            assert await timer.ended() == 0
        with Worker(tmp_path, scene.redis_url, *WORKERS, **ENVIRONMENT) as worker:
            assert await worker.ended() == 0

    assert timer.tracebacks + worker.tracebacks == []
    assert await scene.inconsistencies(LATER) == ""


async def test_two_passes_over_one_source_at_once(scene: Scene, tmp_path: Path) -> None:
    """Two processes, one site: each page is asked for once, and the end is that of one pass."""
    command = ("tests.faults.refresh_scene", WEB, str(CrawlMode.INCREMENTAL))
    # While the first one lists: so both were asked for before any page was visited, however slowly a process starts.
    gate = scene.hold("/sitemap.xml")
    with (
        Worker(tmp_path, scene.redis_url, *command, **PATIENT) as a,
        Worker(tmp_path, scene.redis_url, *command, **PATIENT) as b,
    ):
        await process.until(lambda: gate.is_reached and "waiting for its end" in a.log + b.log, lambda: a.log + b.log)
        gate.open()
        codes = [await a.ended(), await b.ended()]
    asked = dict(scene.asked)
    await scene.run(CrawlMode.SCHEDULED)

    assert codes == [0, 0], a.log + b.log
    assert {path for path, count in asked.items() if count > 1} <= ROOT
    assert max(asked.values()) <= 2
    assert a.tracebacks + b.tracebacks == []
    assert await scene.inconsistencies(LATER) == ""


async def test_kill_9_at_any_moment(scene: Scene, proxy: Proxy, tmp_path: Path, full: bool) -> None:
    """A pass in a process of its own, killed at moments spread over its work: sound at once, and well after a pass."""
    command = ("tests.faults.refresh_scene", WEB, str(CrawlMode.INCREMENTAL))
    with Worker(tmp_path, proxy.url, *command, **ENVIRONMENT) as whole:
        assert await whole.ended() == 0
    commands, kills = proxy.count, 200 if full else 3
    for kill in range(kills):
        await scene.rewind()
        proxy.count_from_here()
        number = 1 + int((kill + 0.5) * commands / kills)
        proxy.hold(number)
        with Worker(tmp_path, proxy.url, *command, **ENVIRONMENT) as victim:
            await process.until(lambda: proxy.is_holding or not victim.is_alive)
            family = victim.children()
            victim.kill()
        proxy.let_go()
        await process.until(lambda: all(map(process.is_dead, family)), lambda: str(family))  # noqa: B023
        broken = await scene.broken()
        await scene.let_time_pass()
        await scene.run(CrawlMode.SCHEDULED)

        assert broken == [], number
        assert await scene.inconsistencies() == "", f"killed at command {number} of {commands}"
