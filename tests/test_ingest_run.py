"""An ingest cycle is a run: it is listed, counted, paused, resumed and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from core import ids
from core.runs.io import run_worker
from core.runs.io.run_control import RunControl
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from tests.articles import rss
from tests.run_requests import ask, runs_of
from tests.web import FakeWeb
from tests.web_replies import Document, Exchange, raw
from workers import ingestor

PATHS = ("/one", "/two", "/three")


@pytest.fixture
async def polite(
    settings: Settings, redis: Client, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Context]:
    """Three feeds of one host that is asked one request at a time; heartbeats and looks are quick."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(run_worker, "WAIT_SECONDS", 0.02)
    allowed = {"fetch_allowed_hosts": ("127.0.0.0/8",), "fetch_host_parallel": 1}
    async with open_context(settings.model_copy(update=allowed)) as context:
        for path in PATHS:
            web.page(path, rss(f"https://news.example{path}"))
            await redis.sadd(context.keys.feeds("world"), web.url(path))
        yield context


def meanwhile(web: FakeWeb, path: str, act: Callable[[], Awaitable[object]]) -> None:
    """While this feed is being fetched, something happens."""

    async def reply(exchange: Exchange) -> None:
        await act()
        await Document(raw(rss(f"https://news.example{path}")))(exchange)

    web.on(path, reply)


async def ask_once(context: Context, request: Callable[[str], Awaitable[Run]]) -> None:
    """Ask something of the run, unless that was done."""
    [run] = await runs_of(context, RunKind.INGEST)
    if run.status is RunStatus.RUNNING and not run.counts["polled"]:
        await ask(run, request)


async def test_cycle_is_a_run(polite: Context, web: FakeWeb) -> None:
    """With counts that add up, a percent, a message, a log tail, and the feeds that failed."""
    web.on("/two", 500)
    await ingestor.run_cycle(polite)
    [run] = await runs_of(polite, RunKind.INGEST)
    counts = run.counts
    failed = await polite.runs.failed_items(run.id)

    assert (run.kind, run.status, run.progress, run.started_by) == ("ingest", RunStatus.PARTIAL, 100, "ingestor")
    assert counts["polled"] == counts["changed"] + counts["unchanged"] + counts["errors"] + counts["gone"] == 3
    assert counts["links_found"] == counts["links_new"] + counts["links_known"] + counts["links_rejected"] == 2
    assert "3 feeds polled: 2 changed, 0 unchanged, 1 failed" in run.message
    assert [(one.item_id, one.url, one.code) for one in failed] == [
        (ids.feed_id(web.url("/two")), web.url("/two"), "FAIL_HTTP")
    ]
    assert any("1 new links" in line for line in await polite.runs.log_lines(run.id))


async def test_nothing_due_leaves_no_run(polite: Context) -> None:
    """A cycle every half minute would otherwise drown all others."""
    await ingestor.run_cycle(polite)
    await ingestor.run_cycle(polite)

    assert len(await runs_of(polite, RunKind.INGEST)) == 1
    assert await polite.runs.open_ids() == {}


async def test_pause_survives_a_restart(polite: Context, web: FakeWeb) -> None:
    """What is in flight is finished, nothing else begun; neither this process nor another polls until it is resumed.
    Then the same run goes on, and no feed is asked twice."""
    control = RunControl(polite.settings, polite.client, polite.keys)
    for path in PATHS:
        meanwhile(web, path, lambda: ask_once(polite, control.pause))
    await ingestor.run_cycle(polite, stays=False)
    [paused] = await runs_of(polite, RunKind.INGEST)
    await ingestor.run_once(polite)  # as after a restart
    asked = web.paths
    waiting = asyncio.create_task(ingestor.run_cycle(polite))
    await control.resume(paused.id)
    await waiting
    [run] = await runs_of(polite, RunKind.INGEST)

    assert (paused.status, paused.counts["polled"], len(asked)) == (RunStatus.PAUSED, 1, 1)
    assert (run.id, run.status, run.counts["polled"]) == (paused.id, RunStatus.SUCCEEDED, 3)
    assert sorted(web.paths) == sorted(PATHS)


async def test_cancel_keeps_what_is_done(polite: Context, web: FakeWeb) -> None:
    """The feeds that are left are due as before, for the next cycle."""
    control = RunControl(polite.settings, polite.client, polite.keys)
    for path in PATHS:
        meanwhile(web, path, lambda: ask_once(polite, control.cancel))
    await ingestor.run_cycle(polite)
    [run] = await runs_of(polite, RunKind.INGEST)

    assert (run.status, run.counts["polled"]) == (RunStatus.CANCELLED, 1)
    assert len(await polite.feeds.due(await connect.now(polite.client))) == 2


async def test_failed_feeds_are_polled_again(polite: Context, web: FakeWeb) -> None:
    """Alone, and in the same run."""
    web.on("/two", 500)
    await ingestor.run_cycle(polite)
    [ended] = await runs_of(polite, RunKind.INGEST)
    web.page("/two", rss("https://news.example/two"))
    web.requests.clear()
    result = await RunControl(polite.settings, polite.client, polite.keys).retry(ended.id)
    await ingestor.run_cycle(polite)
    [run] = await runs_of(polite, RunKind.INGEST)

    assert (result.items, web.paths) == (1, ["/two"])
    assert (run.id, run.status, run.counts["polled"], run.counts["changed"]) == (ended.id, RunStatus.SUCCEEDED, 4, 3)
    assert await polite.runs.failed_items(run.id) == []


async def test_two_ingestors_share_a_run(context: Context, web: FakeWeb) -> None:
    """The one that is done first does not end it for the other."""
    seen: list[Run] = []

    async def second() -> None:
        await ingestor.run_cycle(context)
        seen.extend(await runs_of(context, RunKind.INGEST))

    meanwhile(web, "/one", second)
    await context.client.sadd(context.keys.feeds("world"), web.url("/one"))
    await ingestor.run_cycle(context)
    [run] = await runs_of(context, RunKind.INGEST)

    assert [(one.id, one.status) for one in seen] == [(run.id, RunStatus.RUNNING)]
    assert (run.status, run.counts["polled"], run.counts["held"]) == (RunStatus.SUCCEEDED, 1, 1)
