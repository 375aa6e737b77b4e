"""Runs of real processes: paused, resumed, cancelled and killed at random points, and nothing lost or asked twice.

The site holds back its answers from a certain request on, so that something is in flight whenever we want it to be.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from core.keys import Keys
from core.runs.io.run_control import RunControl
from core.runs.io.run_store import RunStore
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.job_queues import JobQueues
from core.runtime.queue_names import QueueName
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.embedded import EmbeddedServer
from scripts import domain
from tests import commands
from tests.faults.process import Worker
from tests.site import html
from tests.web import FakeWeb
from tests.web_replies import Exchange

PAGES = 24
CRAWL = ("scripts.domain", "crawl", "docs")
REFRESH = ("workers", "refresh", "--burst")
QUIET = {"FETCH_TIMEOUT_SECONDS": "60", "FETCH_HOST_PARALLEL": "2", "REFRESH_BATCH_ITEMS": "6"}


class HoldingSite:
    """A site that counts what it is asked, and holds its answers back from the n-th request on."""

    def __init__(self, web: FakeWeb) -> None:
        self.web = web
        self.asked: Counter[str] = Counter()
        self.in_flight: set[str] = set()
        self.delay_seconds = 0.0
        self._hold_from = 10**9
        self._opened = asyncio.Event()
        for n in range(PAGES):
            below = [f"/p{m}" for m in (3 * n + 1, 3 * n + 2, 3 * n + 3) if m < PAGES]
            self._serve("/" if n == 0 else f"/p{n}", below)

    def _serve(self, path: str, links: list[str]) -> None:
        async def reply(exchange: Exchange) -> None:
            self.asked[path] += 1
            self.in_flight.add(path)
            await asyncio.sleep(self.delay_seconds)
            if sum(self.asked.values()) >= self._hold_from:
                await self._opened.wait()
            await exchange.answer(200, {"Content-Type": "text/html"}, html(path, f"This is {path}.", links).encode())
            self.in_flight.discard(path)

        self.web.on(path, reply)

    def hold_from(self, request: int) -> None:
        """Hold back this request and all that follow, and count anew."""
        self.asked.clear()
        self.in_flight.clear()
        self._hold_from, self._opened = request, asyncio.Event()

    def open(self) -> None:
        """Answer what was held back, and everything else."""
        self._hold_from = 10**9
        self._opened.set()

    @property
    def is_holding(self) -> bool:
        """Is something in flight because it is held back?"""
        return bool(self.in_flight) and sum(self.asked.values()) >= self._hold_from


class RunScene:
    """A domain on a holding site, and processes that work on it."""

    def __init__(self, settings: Settings, redis: Client, site: HoldingSite, folder: Path) -> None:
        self.settings, self.redis, self.site, self.folder = settings, redis, site, folder
        self.keys = Keys()
        self.runs = RunStore(redis, self.keys)
        self.control = RunControl(settings, redis, self.keys)
        self.receipt = ""
        """Of a crawl that nobody disturbed."""

    def process(self, *command: str) -> Worker:
        return Worker(self.folder, connect.url_of(self.settings), *command, **QUIET)

    async def begin(self, hold_from: int) -> None:
        """An empty store with the domain, and a site that will hold back."""
        await self.redis.flushall()
        await domain.add(self.site.web.url("/"), "docs")
        self.site.hold_from(hold_from)

    async def undisturbed(self) -> None:
        """Crawl once without any trouble, and remember the receipt."""
        await self.begin(10**9)
        with self.process(*CRAWL) as crawl:
            assert await crawl.ended() == 0, crawl.log
        self.receipt = (await self.crawl_run()).receipt
        assert self.receipt.startswith(f"{PAGES}:")
        assert self.site.asked == Counter(self.paths)

    @property
    def paths(self) -> list[str]:
        return ["/", *(f"/p{n}" for n in range(1, PAGES))]

    async def run_of(self, kind: RunKind) -> Run:
        [run] = await self.runs.newest(9, await connect.now(self.redis), kind=kind)
        return run

    async def crawl_run(self) -> Run:
        """The only run of the source."""
        return await self.run_of(RunKind.CRAWL)

    async def domain_run(self) -> Run:
        """The only run of the domain."""
        return await self.run_of(RunKind.DOMAIN)

    async def until_status(
        self, read: Callable[[], Awaitable[Run]], status: RunStatus, *, in_flight: bool = False
    ) -> Run:
        """Wait until a run has this status, and says that something is in flight if that is asked for."""
        for _ in range(1_000):
            run = await read()
            if run.status is status and (run.in_flight or not in_flight):
                return run
            await asyncio.sleep(0.03)
        raise AssertionError(f"{run} is not {status}")

    async def asked_of(self, run: Run) -> None:
        """Wait until the worker of a run has heard what was just asked of it."""
        asked_ts = await connect.now(self.redis)
        await self._until(lambda seen: seen.heartbeat_ts > asked_ts, run.id)

    async def all_written(self) -> set[str]:
        """Wait until everything that was answered is written; return what is in flight."""
        run = await self.crawl_run()
        answered = len(self.site.asked) - len(self.site.in_flight)
        await self._until(lambda seen: seen.counts["visited"] >= answered, run.id)
        return set(self.site.in_flight)

    async def _until(self, is_so: Callable[[Run], bool], run_id: str) -> None:
        for _ in range(1_000):
            if is_so(await self.runs.require(run_id, await connect.now(self.redis))):
                return
            await asyncio.sleep(0.03)
        raise AssertionError(await self.runs.fields(run_id))

    async def assert_equal_end(self, twice: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        """The run ended as an undisturbed one does, and nothing was asked twice but what was in flight at a kill."""
        run = await self.crawl_run()
        assert (run.status, run.receipt) == (RunStatus.SUCCEEDED, self.receipt)
        assert run.counts["visited"] == run.counts["discovered"] == PAGES
        assert set(self.site.asked) == set(self.paths)
        assert {path for path, count in self.site.asked.items() if count > 1} <= twice
        assert max(self.site.asked.values()) <= 2
        assert await self.runs.open_ids() == {}


@pytest.fixture
async def scene(
    settings: Settings, server: EmbeddedServer, redis: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunScene]:
    """A scene with the receipt of an undisturbed crawl."""
    commands.adopt(monkeypatch, settings)
    async with FakeWeb() as web:
        scene = RunScene(settings, redis, HoldingSite(web), tmp_path)
        await scene.undisturbed()
        yield scene
        scene.site.open()


def points(full: bool) -> list[int]:
    """Random requests at which something happens; many with --full."""
    return random.sample(range(2, PAGES - 2), 12 if full else 1)


async def test_paused_crawl_goes_on_where_it_stopped(scene: RunScene, full: bool) -> None:
    """Pausing while something is in flight, then paused, and no request any more; resumed, the same process goes on."""
    for point in points(full):
        await scene.begin(point)
        with scene.process(*CRAWL) as crawl:
            await crawl.until(lambda: scene.site.is_holding)
            pausing = await scene.control.pause((await scene.domain_run()).id)
            await scene.asked_of(await scene.crawl_run())
            child = await scene.until_status(scene.crawl_run, RunStatus.PAUSING, in_flight=True)
            scene.site.open()
            paused = await scene.until_status(scene.domain_run, RunStatus.PAUSED)
            asked = sum(scene.site.asked.values())
            await scene.control.resume(paused.id)
            assert await crawl.ended() == 0, crawl.log

        assert pausing.status is RunStatus.PAUSING
        assert (await scene.crawl_run()).id == child.id
        assert asked < PAGES
        assert (await scene.domain_run()).status is RunStatus.SUCCEEDED
        await scene.assert_equal_end()


async def test_killed_crawl_is_continued_by_the_same_command(scene: RunScene, full: bool) -> None:
    """kill -9, and the command again: the same run goes on at once, and only what was in flight is asked again."""
    for point in points(full):
        await scene.begin(point)
        with scene.process(*CRAWL) as crawl:
            await crawl.until(lambda: scene.site.is_holding)
            in_flight, before = await scene.all_written(), await scene.crawl_run()
            crawl.kill()
        scene.site.open()
        with scene.process(*CRAWL) as again:
            assert await again.ended() == 0, again.log

        after = await scene.crawl_run()
        assert (after.id, after.started_ts) == (before.id, before.started_ts)
        assert again.lines("Resuming from state: ID=")
        await scene.assert_equal_end(twice=in_flight)


async def test_killed_worker_is_continued_by_the_timer(scene: RunScene, full: bool) -> None:
    """kill -9 of an RQ worker with its child: the timer finds the run interrupted, and another worker goes on."""
    for point in points(full):
        await scene.begin(point)
        run = await scene.control.start_crawl("docs", started_by="test")
        with scene.process(*REFRESH) as worker:
            await worker.until(lambda: scene.site.is_holding)
            in_flight = await scene.all_written()
            for child in worker.children():
                child.kill()
            worker.kill()
        scene.site.open()
        with scene.process("workers.timer", "--once") as timer:
            assert await timer.ended() == 0, timer.log
        with scene.process(*REFRESH) as again:
            assert await again.ended() == 0, again.log

        assert timer.lines(f"{run.id} was interrupted"), timer.log
        assert (await scene.domain_run()).status is RunStatus.SUCCEEDED
        await scene.assert_equal_end(twice=in_flight)


async def test_pause_by_flag_survives_the_end_of_all_processes(scene: RunScene, full: bool) -> None:
    """`HSET run:<id> control pause`; all is killed and started again, and nobody asks for anything until resumed."""
    for point in points(full):
        await scene.begin(point)
        with scene.process(*CRAWL) as crawl:
            await crawl.until(lambda: scene.site.is_holding)
            run = await scene.domain_run()
            await scene.redis.hset(scene.keys.run(run.id), "control", "pause")
            await scene.asked_of(await scene.until_status(scene.domain_run, RunStatus.PAUSING))
            await scene.asked_of(await scene.crawl_run())
            scene.site.open()
            await scene.until_status(scene.domain_run, RunStatus.PAUSED)
            crawl.kill()
        asked = sum(scene.site.asked.values())
        with scene.process("workers.timer", "--once") as timer:
            assert await timer.ended() == 0, timer.log
        with scene.process(*REFRESH) as worker:
            assert await worker.ended() == 0, worker.log
        with scene.process(*CRAWL) as waiting:
            await waiting.until(lambda: bool(waiting.lines("is paused")))
            assert sum(scene.site.asked.values()) == asked
            resumed = await asyncio.gather(scene.control.resume(run.id), scene.control.resume(run.id))
            assert await waiting.ended() == 0, waiting.log

        assert {one.id for one in resumed} == {run.id}
        await scene.assert_equal_end()


async def test_cancelled_crawl_keeps_what_is_done_and_can_be_run_again(scene: RunScene, full: bool) -> None:
    """It says how many are left, the timer sends none of them, and resumed it comes to the same end."""
    for point in points(full):
        await scene.begin(point)
        with scene.process(*CRAWL) as crawl:
            await crawl.until(lambda: scene.site.is_holding)
            run = await scene.control.cancel((await scene.domain_run()).id)
            await scene.asked_of(await scene.until_status(scene.crawl_run, RunStatus.CANCELLING))
            scene.site.open()
            assert await crawl.ended() == 0, crawl.log
        cancelled, asked = await scene.crawl_run(), sum(scene.site.asked.values())
        with scene.process("workers.timer", "--once") as timer:
            assert await timer.ended() == 0, timer.log
        queues = JobQueues(scene.settings)
        sent = queues.count_waiting(QueueName.REFRESH)
        queues.close()
        again = await scene.control.resume(run.id)
        with scene.process(*REFRESH) as worker:
            assert await worker.ended() == 0, worker.log

        assert (cancelled.status, again.id) == (RunStatus.CANCELLED, run.id)
        assert cancelled.left > 0
        assert cancelled.counts["visited"] == asked
        assert sent == 0
        await scene.assert_equal_end()


async def test_job_whose_time_is_over_goes_on_in_another(scene: RunScene) -> None:
    """A crawl that takes longer than a job may is continued by the next job, under the same id."""
    await scene.begin(10**9)
    scene.site.delay_seconds = 0.2  # 24 pages, two at a time
    run = await scene.control.start_crawl("docs", started_by="test")
    with Worker(scene.folder, connect.url_of(scene.settings), *REFRESH, **QUIET, REFRESH_BUDGET_SECONDS="1") as worker:
        assert await worker.ended() == 0, worker.log

    assert len(worker.lines("Resuming from state")) > 0
    assert (await scene.domain_run()).id == run.id
    await scene.assert_equal_end()
