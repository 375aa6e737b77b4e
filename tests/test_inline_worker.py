"""The embed worker as a process: one model for many jobs, a graceful end, a second process beside the others."""

from __future__ import annotations

import asyncio
import re
import signal

import psutil
import pytest

from core.runtime.job_queues import JobQueues
from core.search.io.item_embedder import ITEMS_AT_ONCE
from core.settings import Settings
from core.store import connect
from core.store.embedded import EmbeddedServer
from core.store.leases import Leases
from tests.faults.process import Worker, is_dead, until
from tests.search_site import open_library

pytestmark = pytest.mark.long

PAGES = {f"/{n}": f"Page {n} tells of gauge {n} in the valley." for n in range(3)}


def indexed(worker: Worker) -> int:
    """Pages, as the lines of its jobs say."""
    return sum(int(count) for count in re.findall(r"🧭 Indexed (\d+) pages", worker.log))


def send(settings: Settings, item_ids: list[str]) -> None:
    """A job for each item."""
    queues = JobQueues(settings)
    try:
        for item_id in item_ids:
            queues.enqueue("workers.embed_jobs.embed", [item_id], id_words=("embed", item_id))
    finally:
        queues.close()


async def test_model_is_loaded_once_for_many_jobs(settings: Settings, server: EmbeddedServer) -> None:
    """A burst runs all jobs in one process, with the real model, and ends when nothing waits."""
    async with open_library(settings, PAGES, embedder="local") as library:
        send(library.settings, await library.waiting())
        code = (
            "import sys, core.search.io.local_embedder as local\n"
            "real = local._checked\n"
            "local._checked = lambda path: print('MODEL LOADED', flush=True) or real(path)\n"
            "from workers.__main__ import main\n"
            "sys.exit(main(['embed', '--burst']))\n"
        )
        (settings.persistent_storage_path / "counting.py").write_text(code)
        with Worker(settings.persistent_storage_path, server.url, "counting", EMBEDDER="local") as worker:
            assert await worker.ended() == 0, worker.log

        assert len(worker.lines("MODEL LOADED")) == 1
        assert indexed(worker) == 4
        assert re.search(r"Nothing waits after \d+ jobs", worker.log)
        assert int(re.findall(r"after (\d+) jobs", worker.log)[0]) >= 4
        assert await library.waiting() == []
        assert worker.tracebacks == []


async def test_stop_ends_after_the_current_group(settings: Settings, server: EmbeddedServer) -> None:
    """SIGTERM in the middle of a job: the pages under way are finished, the rest waits, nothing is lost, exit 0."""
    pages = {f"/{n}": f"Page {n} tells of gauge {n} in the valley." for n in range(ITEMS_AT_ONCE + 1)}
    async with open_library(settings, pages) as library:
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def slow(question: object) -> object:
            reached.set()
            await go_on.wait()
            return library.server._honest(question)  # type: ignore[arg-type]

        library.server.then_data(lambda data: data)
        library.server._script.append(slow)  # type: ignore[arg-type]
        queues = JobQueues(library.settings)
        queues.enqueue("workers.embed_jobs.embed", await library.waiting(), id_words=("embed", "all"))
        queues.close()
        environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        with Worker(settings.persistent_storage_path, server.url, "workers", "embed", **environment) as worker:
            await asyncio.wait_for(reached.wait(), 30)
            worker.signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            assert worker.is_alive
            go_on.set()
            code = await worker.ended()

        assert code == 0, worker.log
        assert indexed(worker) == ITEMS_AT_ONCE
        assert len(await library.waiting()) == 2
        assert await library.index_errors() == []
        assert worker.tracebacks == []


async def test_all_queues_have_a_second_process_for_embedding(
    settings: Settings, server: EmbeddedServer, redis: connect.Client
) -> None:
    """It is started beside, works, and ends with the first."""
    command = ("workers", "refresh", "reindex", "embed")
    with Worker(settings.persistent_storage_path, server.url, *command, EMBEDDER="none") as worker:
        await worker.until(lambda: len(worker.lines("👂 Waiting for jobs")) == 2)
        beside = second(worker)
        code = await worker.stopped()
        await until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in beside))

    assert len(beside) == 1
    assert code == 0
    assert len(worker.lines("🏁 Stopped")) == 2, worker.log
    assert worker.tracebacks == []


def second(worker: Worker) -> list[psutil.Process]:
    """The processes for `embed` that a worker has beside itself."""
    return [one for one in worker.children() if "--parent" in one.cmdline() and one.cmdline()[-1] == "embed"]


async def test_second_process_that_is_killed_is_started_again(
    settings: Settings, server: EmbeddedServer, redis: connect.Client
) -> None:
    """kill -9, twice: the first says so each time, and the new one does its work; a stop ends both."""
    async with open_library(settings, PAGES) as library:
        environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        command = ("workers", "refresh", "reindex", "embed")
        await library.context.client.set(library.context.keys.embed_away, "not yet", ex=600)
        with Worker(settings.persistent_storage_path, server.url, *command, **environment) as worker:
            for number in (1, 2):
                await worker.until(lambda number=number: len(worker.lines("👂 Waiting for jobs")) == 1 + number)
                (killed,) = second(worker)
                killed.kill()
                await worker.until(
                    lambda number=number: len(worker.lines("The process for embed died (signal 9)")) == number
                )
            await worker.until(lambda: len(worker.lines("👂 Waiting for jobs")) == 4)
            await library.context.client.delete(library.context.keys.embed_away)
            await worker.until(lambda: indexed(worker) == 4)
            (last,) = second(worker)
            assert await worker.stopped() == 0

        assert is_dead(last)
        assert await library.waiting() == []
        assert [line.rpartition("again in ")[2] for line in worker.lines("died (signal 9)")] == ["1 s", "2 s"]
        assert worker.tracebacks == []


async def test_second_process_does_not_outlive_the_first(
    settings: Settings, server: EmbeddedServer, redis: connect.Client
) -> None:
    """kill -9 of the first: the second ends by itself, with grace."""
    command = ("workers", "refresh", "reindex", "embed")
    with Worker(settings.persistent_storage_path, server.url, *command, EMBEDDER="none") as worker:
        await worker.until(lambda: len(worker.lines("👂 Waiting for jobs")) == 2)
        (orphan,) = second(worker)
        worker.kill()
        await until(lambda: is_dead(orphan), lambda: worker.log)

    assert len(worker.lines("🏁 Stopped")) == 1


async def test_burst_needs_no_timer(settings: Settings, server: EmbeddedServer) -> None:
    """Nobody sent a job: the worker looks itself at what waits, and ends when nothing does."""
    async with open_library(settings, PAGES) as library:
        environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        with Worker(settings.persistent_storage_path, server.url, "workers", "embed", "--burst", **environment) as one:
            assert await one.ended() == 0, one.log

        assert await library.waiting() == []
        assert indexed(one) == 4
        assert one.lines("🏁 Nothing waits after 1 jobs")
        assert one.lines("⏳") == []


async def test_burst_says_what_it_leaves(settings: Settings, server: EmbeddedServer) -> None:
    """Pages that another worker holds are not asked for again and again."""
    async with open_library(settings, PAGES) as library:
        held = await Leases(library.context.client, library.context.keys).acquire(f"embed_{library.id('/0')}")
        environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        with Worker(settings.persistent_storage_path, server.url, "workers", "embed", "--burst", **environment) as one:
            assert await one.ended() == 0, one.log

        assert held
        assert await library.waiting() == [library.id("/0")]
        assert one.lines("⏳ Still to be embedded: 1 items. Another worker has them, or their job failed.")


async def test_lost_wake_up_costs_nothing(settings: Settings, server: EmbeddedServer) -> None:
    """A worker without work finds what waits within seconds, though no job was sent."""
    async with open_library(settings, PAGES) as library:
        client, keys = library.context.client, library.context.keys
        waiting = await client.zrange(keys.embed_due, 0, -1, withscores=True)
        await client.delete(keys.embed_due)
        environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        with Worker(settings.persistent_storage_path, server.url, "workers", "embed", **environment) as worker:
            await worker.until(lambda: bool(worker.lines("👂 Waiting for jobs")))
            await client.zadd(keys.embed_due, dict(waiting))
            await worker.until(lambda: indexed(worker) == 4)
            assert await worker.stopped() == 0


@pytest.mark.parametrize("answer", [500, 429])
async def test_trouble_of_the_model_fails_no_job(settings: Settings, server: EmbeddedServer, answer: int) -> None:
    """The burst ends well with the items waiting, and no job is tried again by RQ."""
    async with open_library(settings, PAGES) as library:
        library.server.then(answer)
        send(library.settings, (await library.waiting())[:1])
        environment = {"EMBEDDER": "openai", "EMBED_API_URL": library.server.url, "EMBED_MODEL": "first"}
        with Worker(settings.persistent_storage_path, server.url, "workers", "embed", "--burst", **environment) as one:
            assert await one.ended() == 0, one.log

        assert len(await library.waiting()) == 4
        assert one.lines("⏳ Still to be embedded: 4 items.")
        assert await library.context.client.exists(library.context.keys.embed_away)
        assert await library.context.client.zcard("rq:failed:embed") == 0
        assert await library.context.client.zcard("rq:scheduled:embed") == 0
