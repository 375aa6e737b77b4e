"""Runs of passes that a person starts: a migration to other vectors, a repair of the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from core.errors import FreshetError
from core.runs.io import run_worker
from core.runs.io.pass_run import PassProgress, PassStopped, go_on, open_pass
from core.runs.io.run_control import RunControl
from core.runs.io.run_tally import RunTally
from core.runs.run import ProgressCallback, Run, RunKind, RunPhase, RunStatus
from core.runtime.context import Context
from core.settings import Settings
from core.store import connect
from core.store.clock import ServerClock
from scripts import doctor, reindex
from tests import commands
from tests.run_requests import ask, runs_of
from tests.search_site import Library, open_library


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and looks are quick."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(run_worker, "WAIT_SECONDS", 0.02)


@pytest.fixture
async def library(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Library]:
    async with open_library(settings, {"/a": "The weir.", "/b": "The sluice."}) as opened:
        await opened.embed()
        words = {"EMBEDDER": "openai", "EMBED_API_URL": opened.server.url, "EMBED_MODEL": "second"}
        commands.adopt(monkeypatch, opened.settings, **words)
        yield opened


class Pass:
    """A pass over five items, during which something is asked of its run."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.control = RunControl(context.settings, context.client, context.keys)
        self.done: list[int] = []
        self.statuses: list[str] = []

    async def run(self, request: str = "") -> None:
        context = self.context
        clock = await ServerClock.ask(context.client)
        async with open_pass(context.runs, clock, RunKind.DOCTOR, counters=("checked",)) as worker:
            assert worker is not None
            progress = PassProgress(worker, context.leases, RunTally(context.keys, worker.run.id), "Checking names", 5)
            progress.counts = lambda: {"checked": len(self.done)}
            for number in range(5):
                await go_on(worker)
                if number == 2 and request:
                    await ask(worker.run, getattr(self.control, request))
                self.done.append(number)
                progress.step()
            worker.is_done = True

    async def resume_when_paused(self) -> None:
        while True:
            for run in await self.runs():
                self.statuses.append(str(run.status))
                if run.status is RunStatus.PAUSED:
                    await self.control.resume(run.id)
                    return
            await asyncio.sleep(0.01)

    async def runs(self) -> list[Run]:
        return await runs_of(self.context, RunKind.DOCTOR)


async def test_pass_waits_where_it_is(context: Context) -> None:
    """Paused between two items, it stays in its process, and goes on with the next one when it is resumed."""
    work = Pass(context)
    await asyncio.gather(work.run("pause"), work.resume_when_paused())
    [run] = await work.runs()

    assert work.done == [0, 1, 2, 3, 4]
    assert work.statuses[-1] == "paused"
    assert (run.status, run.counts["checked"], run.progress) == (RunStatus.SUCCEEDED, 5, 100)


async def test_cancelled_pass_ends(context: Context) -> None:
    """What it has done stays, and counts."""
    work = Pass(context)
    with pytest.raises(PassStopped):
        await work.run("cancel")
    [run] = await work.runs()

    assert work.done == [0, 1, 2]
    assert (run.status, run.counts["checked"]) == (RunStatus.CANCELLED, 3)
    assert await context.runs.open_ids() == {}


async def test_pass_whose_process_is_gone(context: Context) -> None:
    """A resume says how to start it again, and that goes on with the same run."""
    work = Pass(context)
    interrupted, _ = await context.runs.open(RunKind.DOCTOR, await connect.now(context.client), counters=("checked",))
    await work.control.pause(interrupted.id)
    with pytest.raises(FreshetError, match=r"Start it again, and it goes on: python -m scripts.doctor --fix"):
        await work.control.resume(interrupted.id)
    await work.run()
    [run] = await work.runs()

    assert (run.id, run.status, run.counts["checked"]) == (interrupted.id, RunStatus.SUCCEEDED, 5)


async def test_progress_callback(context: Context) -> None:
    """Phase, percent, message and metrics of a worker reach the run; percent and phase never run backwards."""
    clock = await ServerClock.ask(context.client)
    async with open_pass(context.runs, clock, RunKind.DOCTOR) as worker:
        assert worker is not None
        callback: ProgressCallback = worker.report
        seen = []
        for phase, percent in ((RunPhase.CRAWLING, 40), (RunPhase.PROCESSING, 30), (RunPhase.CRAWLING, 60)):
            callback(phase, percent, f"{percent} of 100", {"chunks": percent})
            await worker.beat()
            fields = await context.runs.fields(worker.run.id)
            seen.append((fields["phase"], fields["progress"], fields["message"], fields["metrics"]))

    assert seen == [
        ("crawling", "40", "40 of 100", '{"chunks": 40}'),
        ("processing", "40", "30 of 100", '{"chunks": 30}'),
        ("processing", "60", "60 of 100", '{"chunks": 60}'),
    ]


async def test_error_fails_the_run(context: Context) -> None:
    """Its error says what went wrong."""
    clock = await ServerClock.ask(context.client)
    with pytest.raises(OSError, match="full"):
        async with open_pass(context.runs, clock, RunKind.DOCTOR):
            raise OSError("The disk is full.")
    [run] = await runs_of(context, RunKind.DOCTOR)

    assert (run.status, run.error) == (RunStatus.FAILED, "The disk is full.")


async def test_migration_is_a_run(library: Library) -> None:
    """With the space it moves to, and what it embedded."""
    assert await reindex.migrate(dry_run=True) == 0
    assert await runs_of(library.context, RunKind.MIGRATION) == []
    assert await reindex.migrate() == 0
    [run] = await runs_of(library.context, RunKind.MIGRATION)

    assert (run.status, run.progress, run.started_by) == (RunStatus.SUCCEEDED, 100, "script")
    assert run.parameters == {"space": "second-16-c1"}
    assert run.counts["chunks"] == run.counts["embedded"] == run.counts["waiting"] == 3


async def test_repair_is_a_run(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """What was wrong is healed or left."""
    client, keys = library.context.client, library.context.keys
    await client.srem(keys.status("Indexed"), library.id("/a"))
    await doctor.doctor(fix=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    [run] = await runs_of(library.context, RunKind.DOCTOR)

    assert (run.status, run.progress) == (RunStatus.SUCCEEDED, 100)
    assert run.counts["found"] == run.counts["healed"] + run.counts["unhealed"] == sum(told["findings"].values()) > 0
    assert run.counts["checked"] > run.counts["found"]


async def test_check_writes_nothing_but_its_run(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """It tells what is wrong, and beside a repair it is a run of its own."""
    client, keys = library.context.client, library.context.keys
    await client.srem(keys.status("Indexed"), library.id("/a"))
    repairing, _ = await library.context.runs.open(RunKind.DOCTOR, await connect.now(client))
    before = await commands.everything(client)
    assert await doctor.doctor(fix=False, as_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    after = await commands.everything(client)
    run, _ = await runs_of(library.context, RunKind.DOCTOR)

    assert commands.changed_beside_runs(before, after, keys) == []
    assert run.id != repairing.id
    assert (run.status, run.mode, run.progress) == (RunStatus.SUCCEEDED, "check", 100)
    assert run.counts["found"] == sum(told["findings"].values()) > 0
    assert "heals it" in run.message


async def test_store_that_takes_no_run_is_checked(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    """As one that is full: it says so, and tells what is wrong."""
    client, keys = library.context.client, library.context.keys
    await client.delete(keys.runs_open)
    await client.set(keys.runs_open, "of another type")
    assert await doctor.doctor(fix=False, as_json=True) == 1
    told = json.loads(capsys.readouterr().out)

    assert sum(told["findings"].values()) > 0
    assert any("This check is not a run" in note for note in told["notes"])
    assert await client.get(keys.runs_open) == "of another type"
