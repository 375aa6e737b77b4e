"""A worker's part in a run: it beats, reports, hands over what it logged, and obeys wherever it waits."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys

import pytest

from core.models import STOPPED, FetchRequest, FetchResult
from core.runs.io import run_worker
from core.runs.io.run_control import RunControl
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind, RunPhase, RunStatus
from core.runs.run_request import RunRequest
from core.runtime import interruptible, logs, process_identity
from core.runtime.context import Context
from core.store import connect
from core.store.clock import ServerClock
from tests.faults.process import until
from tests.web import FakeWeb

log = logging.getLogger("refresh")


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(run_worker, "WAIT_SECONDS", 0.02)


async def worker_of(context: Context, source: str = "docs.site") -> RunWorker:
    clock = await ServerClock.ask(context.client)
    run, _ = await context.runs.open(RunKind.CRAWL, clock.now(), source=source, domain="docs")
    worker = RunWorker(context.runs, clock, run, context.leases.prefix)
    assert await worker.join() is RunRequest.NONE
    return worker


def control_of(context: Context) -> RunControl:
    return RunControl(context.settings, context.client, context.keys)


async def read(context: Context, worker: RunWorker) -> Run:
    return await context.runs.require(worker.run.id, await connect.now(context.client))


# ── beats and reports ──


async def test_heartbeat_tells_of_a_request(context: Context) -> None:
    """What is asked of a run reaches its workers without a request of their own."""
    worker = await worker_of(context)
    worker.in_flight = lambda: 3
    async with worker.working():
        await control_of(context).pause(worker.run.id)
        await until(worker.should_stop)
        pausing = await read(context, worker)
    await worker.leave()

    assert worker.requested is RunRequest.PAUSE
    assert (pausing.status, pausing.in_flight) == (RunStatus.PAUSING, 3)
    assert (await read(context, worker)).status is RunStatus.PAUSED


async def test_three_writers_lose_no_count_and_no_percent(context: Context) -> None:
    """Each reports its own percent and counts its own visits at the same time; the highest and the sum remain."""
    workers = [await worker_of(context) for _ in range(3)]

    async def work(worker: RunWorker, first: int) -> None:
        for percent in range(first, first + 20):
            worker.report(RunPhase.CRAWLING, percent, f"at {percent}", {"pages": percent})
            counts = [("HINCRBY", context.keys.run(worker.run.id), "visited", 1)]
            await asyncio.gather(worker.beat(), context.leases.run(counts))

    await asyncio.gather(*(work(worker, first) for worker, first in zip(workers, (40, 0, 20), strict=True)))
    seen = await read(context, workers[0])

    assert (seen.progress, seen.counts["visited"]) == (59, 60)


async def test_only_the_end_is_a_hundred_percent(context: Context) -> None:
    """However far a worker thinks it is."""
    worker = await worker_of(context)
    worker.report(RunPhase.PROCESSING, 250.0, "nearly", {"pages": 2})
    await worker.beat()
    almost = await read(context, worker)
    await worker.finish(RunStatus.SUCCEEDED)
    ended = await read(context, worker)

    assert (almost.progress, almost.phase, almost.message, almost.metrics) == (99, "processing", "nearly", {"pages": 2})
    assert (ended.progress, ended.phase, ended.status) == (100, "done", RunStatus.SUCCEEDED)


async def test_worker_that_stays_goes_on_after_the_pause(context: Context) -> None:
    """While it waits the run is paused; resumed, it has joined again, and no job is needed."""
    worker = await worker_of(context)
    control = control_of(context)
    async with worker.working():
        await control.pause(worker.run.id)
        await until(worker.should_stop)
    waiting = asyncio.create_task(worker.wait_while_paused())
    while (await read(context, worker)).status is not RunStatus.PAUSED:  # noqa: ASYNC110 - it is written by the other task
        await asyncio.sleep(0.005)
    resumed = await control.resume(worker.run.id)

    assert await waiting is RunRequest.NONE
    assert resumed.status is RunStatus.RUNNING
    assert await context.client.keys("rq:job:*") == []


async def test_waiting_worker_hears_of_a_cancel(context: Context) -> None:
    """A paused run can be cancelled; who waits for it waits no longer."""
    worker = await worker_of(context)
    control = control_of(context)
    await control.pause(worker.run.id)
    await worker.beat()
    waiting = asyncio.create_task(worker.wait_while_paused())
    await asyncio.sleep(0)
    await worker.leave()
    cancelled = await control.cancel(worker.run.id)

    assert await waiting in (RunRequest.ENDED, RunRequest.CANCEL)
    assert cancelled.status in (RunStatus.CANCELLED, RunStatus.CANCELLING)


# ── the log ──


async def test_log_has_the_last_lines_of_this_run_alone(context: Context) -> None:
    """Those of its own tasks and of tasks they start; capped, and without secrets."""
    logs.configure(context.settings)
    one, two = await worker_of(context, "docs.one"), await worker_of(context, "docs.two")

    async def work(worker: RunWorker, word: str) -> None:
        async with worker.working():
            for n in range(130):
                log.info("%s %d", word, n)
            await asyncio.create_task(asyncio.to_thread(log.info, "%s in a thread", word))
            log.warning("%s https://user:hunter2@e.org/?token=abc %s", word, "x" * 1_000)
            await worker.beat()
            for n in range(130):
                log.info("%s again %d", word, n)
        await worker.leave()

    await asyncio.gather(work(one, "first"), work(two, "second"))
    lines = await context.runs.log_lines(one.run.id)

    assert len(lines) == 200
    assert all("first" in line and "second" not in line for line in lines)
    assert lines[-1].endswith("INFO [refresh] first again 129")
    assert sum("in a thread" in line for line in lines) == 1
    assert max(map(len, lines)) == 500
    assert not any("hunter2" in line for line in lines)


# ── waits ──


async def test_wait_at_a_gate_is_given_up(context: Context, web: FakeWeb) -> None:
    """A request that waits for its host is not sent once a pause is asked for, and its place in line is free."""
    web.page("/a", "hello")
    await context.fetcher.hold_off(web.url("/a"), 50.0, "asked to wait")
    worker = await worker_of(context)
    async with worker.working():
        request = FetchRequest(web.url("/a"), max_wait_seconds=60.0)
        fetching: asyncio.Task[FetchResult] = asyncio.create_task(context.fetcher.fetch(request))
        await asyncio.sleep(0.05)
        await control_of(context).pause(worker.run.id)
        answer = await fetching
        late = await context.fetcher.fetch(request)
    await worker.leave()

    assert answer == late == STOPPED
    assert web.paths == []
    assert await context.client.keys("fetch:line:*") == []


async def test_sleep_without_a_run_is_a_sleep() -> None:
    """Where nobody listens, nothing ends a sleep but its time; a stop that came before ends it at once."""
    stop = asyncio.Event()
    assert await interruptible.sleep(0.0)
    with interruptible.listen(stop):
        stop.set()
        assert not await interruptible.sleep(60.0)
    assert not interruptible.is_stopping()


# ── dead processes ──


def test_dead_process_is_known_by_its_identity() -> None:
    """Of this machine; nobody knows of another one, and a process id that is used again is another process."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        machine, pid, started = process_identity.own_identity().split("|")
        theirs = f"{machine}|{other.pid}|{process_identity._started(other.pid)}"
        was_dead = process_identity.is_dead(theirs)
        other.kill()

    assert int(pid) == os.getpid()
    assert (was_dead, process_identity.is_dead(theirs)) == (False, True)
    assert process_identity.is_dead(f"{machine}|{pid}|{int(started) + 1}")
    assert not process_identity.is_dead(f"elsewhere|{pid}|1")
    assert not process_identity.is_dead("")


async def test_run_of_a_dead_process_is_interrupted_at_once(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer need not wait for its silence; a pause need not wait for its acknowledgement."""
    machine, pid, started = process_identity.own_identity().split("|")
    with monkeypatch.context() as patched:
        patched.setattr(process_identity, "own_identity", lambda: f"{machine}|{pid}|{int(started) + 1}")
        worker = await worker_of(context)
    now = await connect.now(context.client)
    [found] = await context.runs.check_open(now)
    paused = await control_of(context).pause(worker.run.id)

    assert (found.id, found.status) == (worker.run.id, RunStatus.INTERRUPTED)
    assert paused.status is RunStatus.PAUSED
    assert [one.lease_prefix for one in await context.runs.workers.dead(worker.run.id)] == [context.leases.prefix]
