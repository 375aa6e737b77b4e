"""An embedding of one domain is a run over its texts that wait: counted, paused, resumed, cancelled."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from core.runs.io import run_worker
from core.runs.io.run_control import RunControl
from core.runs.io.run_jobs import job_of
from core.runs.run import Run, RunKind, RunStatus
from core.settings import Settings
from core.sources.io.domain_steps import DomainSteps, StepResult
from core.store import connect
from tests.crawled_site import SID
from tests.refresh_jobs import tick
from tests.run_requests import runs_of
from tests.search_site import Library, open_library
from workers.embed_jobs import embed_as_run, embed_items

PAGES = {path: f"About the {path[1:]} weir, which is another one." for path in ("/a", "/b", "/c")}


@pytest.fixture
async def library(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Library]:
    """Four texts that wait, the root's among them."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    async with open_library(settings, PAGES) as opened:
        await opened.context.client.hset(opened.context.keys.domain("docs"), "sources", SID)
        yield opened


async def start(library: Library, *, dry_run: bool = False) -> StepResult:
    return await DomainSteps(library.context).embed_waiting("docs", [SID], dry_run=dry_run)


async def work(library: Library, run_id: str) -> Run:
    """One job of the run."""
    await embed_as_run(library.settings, run_id, time.monotonic() + 60)
    return await read(library, run_id)


async def read(library: Library, run_id: str) -> Run:
    return await library.context.runs.require(run_id, await connect.now(library.context.client))


def control_of(library: Library) -> RunControl:
    return RunControl(library.settings, library.context.client, library.context.keys)


async def sent_to_embed(library: Library) -> set[object]:
    """Items and runs that the timer sends to the embed queue."""
    sent = [args[0] for name, args in await tick(library.context, with_embed=True) if name.startswith("embed")]
    return {one for given in sent for one in (given if isinstance(given, list) else [given])}


async def test_texts_that_wait_are_embedded_as_a_run(library: Library) -> None:
    """It counts them, also those that another job embeds meanwhile, and ends when none is left."""
    counted, started = await start(library, dry_run=True), await start(library)
    [queued] = await runs_of(library.context, RunKind.EMBED)
    await embed_items(library.settings, [library.id("/a")], time.monotonic() + 60)
    ended = await work(library, queued.id)
    nothing = await start(library)

    assert (counted.items, counted.run_ids) == (4, ())
    assert (started.items, started.jobs, started.run_ids) == (4, 1, (queued.id,))
    assert (queued.domain, queued.status, queued.counts) == ("docs", RunStatus.QUEUED, {"texts": 4, "embedded": 0})
    assert (ended.status, ended.progress, ended.message) == (RunStatus.SUCCEEDED, 100, "4 texts embedded")
    assert ended.counts == {"texts": 4, "embedded": 4}
    assert (nothing.items, nothing.run_ids) == (0, ())
    assert await library.waiting() == []


@pytest.mark.parametrize("what", ["run", "domain", "kind"])
async def test_paused_texts_are_left_alone(library: Library, what: str) -> None:
    """By its own job and by the timer, which sends texts of nobody's run all the same. Resumed, it goes on and ends."""
    [run_id] = (await start(library)).run_ids
    control = control_of(library)
    await library.context.client.zadd(library.context.keys.embed_due, {"url_other": 1.0})
    match what:
        case "run":
            await control.pause(run_id)
        case "domain":
            await control.pause_domain("docs")
        case _:
            await control.pause_kind(RunKind.EMBED)
    paused = await work(library, run_id)
    sent = await sent_to_embed(library)
    left = len(await library.waiting())
    match what:
        case "run":
            await control.resume(run_id)
        case "domain":
            await control.resume_domain("docs")
        case _:
            await control.resume_kind(RunKind.EMBED)
    ended = await work(library, run_id)

    assert (paused.status, left) == (RunStatus.PAUSED, 5)
    assert sent == (set() if what == "kind" else {"url_other"})
    assert (ended.status, ended.counts["embedded"]) == (RunStatus.SUCCEEDED, 4)


async def test_cancelled_in_the_middle(library: Library) -> None:
    """What is left is counted and stays in line; the run can be resumed."""
    [run_id] = (await start(library)).run_ids
    await embed_items(library.settings, [library.id("/a")], time.monotonic() + 60)
    cancelled = await control_of(library).cancel(run_id)
    waiting = len(await library.waiting())
    resumed = await control_of(library).resume(run_id)
    ended = await work(library, run_id)

    assert (cancelled.status, waiting) == (RunStatus.CANCELLED, 3)
    assert (resumed.id, resumed.status) == (run_id, RunStatus.QUEUED)
    assert (ended.status, ended.counts) == (RunStatus.SUCCEEDED, {"texts": 4, "embedded": 4})


async def test_embedder_that_is_away_is_waited_for(library: Library) -> None:
    """The run says why it waits, the timer sends nothing meanwhile, and goes on with it afterwards."""
    [run_id] = (await start(library)).run_ids
    await library.context.client.delete(*[key async for key in library.context.client.scan_iter("rq:*")])
    library.server.then(429, retry_after="30")
    away = await work(library, run_id)
    reason, meanwhile = await library.context.client.get(library.context.keys.embed_away), await sent_to_embed(library)
    again = await start(library)
    await library.context.client.delete(library.context.keys.embed_away)
    back = await sent_to_embed(library)
    job = job_of(away)

    assert (away.status, away.message) == (RunStatus.QUEUED, reason)
    assert (meanwhile, again.run_ids, again.jobs, again.problem) == (set(), (run_id,), 0, reason)
    assert run_id in back
    assert job is not None
    assert (await work(library, run_id)).status is RunStatus.SUCCEEDED
