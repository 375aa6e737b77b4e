"""A run of the canonical fetcher is a run: listed, counted, paused, resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core import ids
from core.models import LinkResult
from core.runs.io import run_worker
from core.runs.io.run_control import RunControl
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.store.connect import Client
from tests.articles import add, article, run, stored
from tests.run_requests import ask, runs_of
from tests.web import FakeWeb
from tests.web_replies import Document, Exchange, raw

PATHS = ("/one", "/two", "/three")


@pytest.fixture
async def polite(
    settings: Settings, redis: Client, web: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Context]:
    """Three new links to one host that is asked one request at a time."""
    monkeypatch.setattr(run_worker, "BEAT_SECONDS", 0.02)
    allowed = {"fetch_allowed_hosts": ("127.0.0.0/8",), "fetch_host_parallel": 1}
    async with open_context(settings.model_copy(update=allowed)) as context:
        for path in PATHS:
            web.page(path, article(path, text=path * 20))
        await add(context, *map(web.url, PATHS))
        yield context


def results(of: Run) -> int:
    return sum(of.counts[str(result)] for result in LinkResult)


async def test_run_is_listed(polite: Context, web: FakeWeb) -> None:
    """Each link is counted once, and what failed is named with its reason."""
    web.on("/two", 404)
    await run(polite)
    [seen] = await runs_of(polite, RunKind.CANONICAL)
    [failed] = await polite.runs.failed_items(seen.id)

    assert (seen.status, seen.progress) == (RunStatus.PARTIAL, 100)
    assert (seen.counts["found"], seen.counts["stored"], seen.counts["failed"]) == (3, 2, 1)
    assert results(seen) == seen.counts["found"]
    assert seen.message == "3 links: 2 stored, 1 failed"
    assert (failed.item_id, failed.url, failed.code) == (ids.article_uid(web.url("/two")), web.url("/two"), "FAIL_HTTP")


async def test_failed_links_are_fetched_again(polite: Context, web: FakeWeb) -> None:
    """Alone, and in the same run."""
    web.on("/two", 404)
    await run(polite)
    [ended] = await runs_of(polite, RunKind.CANONICAL)
    web.page("/two", article("/two", text="/two" * 20))
    web.requests.clear()
    result = await RunControl(polite.settings, polite.client, polite.keys).retry(ended.id)
    await run(polite)
    [seen] = await runs_of(polite, RunKind.CANONICAL)

    assert (result.items, [path for path in web.paths if path in PATHS]) == (1, ["/two"])
    assert (seen.id, seen.status, seen.counts["stored"]) == (ended.id, RunStatus.SUCCEEDED, 3)
    assert await polite.runs.failed_items(seen.id) == []


async def test_nothing_new_leaves_no_run(polite: Context) -> None:
    """It looks after every cycle of the ingestor."""
    await run(polite)
    await run(polite)

    assert len(await runs_of(polite, RunKind.CANONICAL)) == 1


async def test_pause_and_resume(polite: Context, web: FakeWeb) -> None:
    """Paused, it begins nothing, also when it is started again; resumed, the same run fetches the rest, each once."""
    control = RunControl(polite.settings, polite.client, polite.keys)

    async def pause_first(exchange: Exchange) -> None:
        [now_running] = await runs_of(polite, RunKind.CANONICAL)
        if now_running.status is RunStatus.RUNNING and not now_running.counts["found"]:
            await ask(now_running, control.pause)
        path = exchange.seen.path
        await Document(raw(article(path, text=path * 20)))(exchange)

    for path in PATHS:
        web.on(path, pause_first)
    await run(polite)
    [paused] = await runs_of(polite, RunKind.CANONICAL)
    counts = await run(polite)
    asked = [path for path in web.paths if path in PATHS]
    await control.resume(paused.id)
    await run(polite)
    [ended] = await runs_of(polite, RunKind.CANONICAL)

    assert (paused.status, paused.counts["stored"], results(paused)) == (RunStatus.PAUSED, 1, 1)
    assert (counts["new"], counts["deferred"], len(asked)) == (2, 2, 1)
    assert (ended.id, ended.status, ended.counts["stored"]) == (paused.id, RunStatus.SUCCEEDED, 3)
    assert results(ended) == ended.counts["found"] == 3
    assert sorted(path for path in web.paths if path in PATHS) == sorted(PATHS)
    assert [bool(await stored(polite, web.url(path))) for path in PATHS] == [True] * 3


async def test_paused_run_with_nothing_left_ends(polite: Context, web: FakeWeb) -> None:
    """What it waited for was fetched or has aged out meanwhile."""
    await run(polite)
    [seen] = await runs_of(polite, RunKind.CANONICAL)
    await polite.client.hset(polite.keys.run(seen.id), "status", "interrupted")
    await polite.client.hset(polite.keys.runs_open, "canonical", seen.id)
    await run(polite)

    assert [one.status for one in await runs_of(polite, RunKind.CANONICAL)] == [RunStatus.SUCCEEDED]
    assert await polite.runs.open_ids() == {}
