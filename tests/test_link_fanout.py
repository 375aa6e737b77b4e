"""A large backlog of links, shared with RQ workers in processes of their own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.registry.io import link_fanout
from core.registry.io.link_fanout import JOB, LinkFanout
from core.runtime.context import Context
from core.runtime.job_queues import JobQueues
from core.store.embedded import EmbeddedServer
from tests.articles import add, article, run
from tests.faults import state
from tests.faults.process import Worker
from tests.web import FakeWeb

LINKS = 24


@pytest.fixture
async def web() -> AsyncIterator[FakeWeb]:
    async with FakeWeb() as running:
        yield running


@pytest.fixture
async def shared(context: Context, web: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Links to pages of their own in jobs of four, which are sent from six links on."""
    monkeypatch.setattr(link_fanout, "LINKS_PER_JOB", 4)
    for n in range(LINKS):
        web.page(f"/{n}", article(f"Title {n}", text=f"Number {n}."))
    await add(context, *(web.url(f"/{n}") for n in range(LINKS)))
    return replace(context, settings=context.settings.model_copy(update={"canonical_fanout": 6}))


async def articles(context: Context) -> int:
    return int(await context.client.zcard(context.keys.article_index))


def pages(web: FakeWeb) -> list[str]:
    return [path for path in web.paths if path != "/robots.txt"]


def kill_with_children(worker: Worker) -> None:
    """kill -9 of a worker and of the child that runs its job, as when a host loses power."""
    processes = worker.children()
    worker.kill()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


async def test_without_workers_everything_is_done_here(shared: Context, web: FakeWeb) -> None:
    """The jobs are taken back one by one: the same result as without them, and no job stays."""
    counts = await run(shared)

    assert (counts["stored"], counts["known"], counts["deferred"]) == (LINKS, 0, 0)
    assert sorted(pages(web)) == sorted(f"/{n}" for n in range(LINKS))
    queues = JobQueues(shared.settings)
    assert queues.count_waiting(queues._allowed[JOB].queue) == 0
    queues.close()


async def test_small_backlog_is_no_job(shared: Context, web: FakeWeb) -> None:
    """Up to the setting nothing is sent; 0 sends nothing ever."""
    for fanout in (LINKS, 0):
        few = replace(shared, settings=shared.settings.model_copy(update={"canonical_fanout": fanout}))
        await run(few)
    assert await articles(shared) == LINKS
    assert not [key async for key in shared.client.scan_iter(match="rq:*")]


async def test_two_workers_share_the_links(
    shared: Context, web: FakeWeb, server: EmbeddedServer, tmp_path: Path
) -> None:
    """Every page is fetched once, by one of three processes; the fetcher ends when all of it is done, in one run."""
    with (
        Worker(tmp_path, server.url, "workers", "refresh") as one,
        Worker(tmp_path, server.url, "workers", "refresh") as other,
    ):
        for worker in (one, other):
            await worker.until(lambda: bool(worker.log))  # noqa: B023
        counts = await run(shared)

        assert await articles(shared) == LINKS
        assert sorted(pages(web)) == sorted(f"/{n}" for n in range(LINKS))
        assert counts["stored"] + counts["known"] == LINKS
        assert counts["deferred"] == 0
        stats = await shared.client.hgetall(shared.keys.canonical_stats)
        assert int(stats["stored"]) == LINKS
        assert one.tracebacks + other.tracebacks == []


async def test_killed_worker(shared: Context, web: FakeWeb, server: EmbeddedServer, tmp_path: Path) -> None:
    """What a killed worker had is fetched by others: its batch by the next run, and no stored page again."""
    web.hang("/5").then(article("Title 5", text="Number 5."))
    await shared.client.sadd(shared.keys.categories, "world")
    fanout = LinkFanout(shared.settings, {web.url(f"/{n}"): ("world",) for n in range(LINKS)})
    assert await fanout.send() == LINKS // 4
    await fanout.close()
    with Worker(tmp_path, server.url, "workers", "refresh", FETCH_TIMEOUT_SECONDS="60") as worker:
        await worker.until(lambda: "/5" in web.paths)
        kill_with_children(worker)
    stored = [n for n in range(LINKS) if await shared.articles.count_attempted([web.url(f"/{n}")])]
    await state.let_leases_end(shared.client, shared.keys)
    # Its job counts as running for a while, and is then another worker's; a run of another fetcher need not wait.
    counts = await run(replace(shared, settings=shared.settings.model_copy(update={"canonical_fanout": 0})))

    assert counts["stored"] == LINKS - len(stored) > 0
    assert await articles(shared) == LINKS
    assert [pages(web).count(f"/{n}") for n in stored] == [1] * len(stored)


async def test_links_with_credentials_stay_here(shared: Context, web: FakeWeb) -> None:
    """What must not be stored is in no job, and is visited all the same."""
    secret = web.url("/0") + "?access_token=3f9c2b1d8e7a6f5c4b3a2d1e0f9c8b7a"
    fanout = LinkFanout(shared.settings, {secret: ("world",), web.url("/1"): ("world",)})
    await fanout.send()
    here = [url async for links in fanout.here(lambda: False) for url in links]
    await fanout.close()

    assert here == [secret, web.url("/1")]
    assert [batch.links for batch in fanout._batches] == [{web.url("/1"): ("world",)}]
