"""A worker learns of a pause or cancel between two heartbeats; receipts of several sources are joined."""

from __future__ import annotations

import asyncio

import pytest

from core.runs.io import run_worker
from core.runs.io.receipts import joined_receipts
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind, RunStatus, domain_scope, source_scope
from core.runs.run_request import RunRequest
from core.runtime.context import Context
from core.store import connect
from core.store.clock import ServerClock


async def open_run(context: Context, **more: str) -> Run:
    return (await context.runs.open(RunKind.CRAWL, await connect.now(context.client), source="d.site", **more))[0]


@pytest.mark.parametrize("flag", ["control pause", "control cancel", "source", "domain", "kind", "parent"])
async def test_every_flag_is_seen(context: Context, flag: str) -> None:
    """The flag of the run, of its source, its domain, its kind or the run that it is a part of."""
    client, keys = context.client, context.keys
    parent, _ = await context.runs.open(RunKind.DOMAIN, await connect.now(client), domain="d")
    run = await open_run(context, domain="d", parent=parent.id)
    before = await context.runs.is_stop_asked(run)
    match flag.split():
        case ["control", word]:
            await client.hset(keys.run(run.id), "control", word)
        case ["parent"]:
            await client.hset(keys.run(parent.id), "control", "cancel")
        case _:
            scope = {"source": source_scope("d.site"), "domain": domain_scope("d"), "kind": "crawl"}[flag]
            await client.hset(keys.runs_paused, scope, "2026-01-01T00:00:00Z")

    assert not before
    assert await context.runs.is_stop_asked(run)


async def test_a_worker_stops_before_its_next_heartbeat(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a heartbeat an hour away, a pause reaches it at its next look."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 3600.0)
    monkeypatch.setattr(run_worker, "LOOK_SECONDS", 0.01)
    run = await open_run(context)
    worker = RunWorker(context.runs, await ServerClock.ask(context.client), run)
    await worker.join()
    async with worker.working():
        await context.client.hset(context.keys.run(run.id), "control", "pause")
        async with asyncio.timeout(10):
            while not worker.should_stop():  # noqa: ASYNC110 - it is its heartbeat that learns of it
                await asyncio.sleep(0.01)
    await worker.leave()

    assert worker.requested is RunRequest.PAUSE
    assert (await context.runs.require(run.id, await connect.now(context.client))).status is RunStatus.PAUSED


def test_receipts_are_joined() -> None:
    """The receipt of a domain is that of all its items, whatever source they are in; without one part there is none."""
    largest = f"{(1 << 256) - 1:064x}"

    assert joined_receipts([f"2:{5:064x}", f"3:{7:064x}"]) == f"5:{12:064x}"
    assert joined_receipts([f"1:{largest}", f"1:{1:064x}"]) == f"2:{0:064x}"
    assert joined_receipts([f"1:{largest}", ""]) == joined_receipts([]) == ""
