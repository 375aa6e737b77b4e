"""Jobs by RQ's own client, as anybody's script enqueues them, for a real worker: what runs, and what is told if not."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import redis as sync_redis
from rq import Queue
from rq.job import Callback, Job, JobStatus
from rq.serializers import DefaultSerializer, JSONSerializer

from core.keys import Keys
from core.runtime.context import Context
from core.runtime.job_specs import ALLOWED_JOBS, FAILURE_SECONDS, job_class
from core.settings import Settings
from core.sources.io.crawl import CrawlMode, crawl_source
from core.store import connect
from tests import commands
from tests.crawled_site import SID, add_site, crawl_context, item_id
from tests.site import Site

ROOT = Path(__file__).parents[1]
DOCUMENTED_URL = "https://example.org/news/flood-wall"
WORKERS = ("workers", "refresh", "reindex", "--burst")


@pytest.fixture
def client(settings: Settings) -> Iterator[sync_redis.Redis]:
    """Not one of ours: what a stranger would open."""
    with sync_redis.Redis.from_url(connect.url_of(settings)) as opened:
        yield opened


@pytest.fixture
def queue(client: sync_redis.Redis) -> Queue:
    return Queue("reindex", connection=client, serializer=JSONSerializer)


@pytest.fixture
async def crawled(settings: Settings, site: Site) -> AsyncIterator[Context]:
    """A site of three pages, crawled; one has changed since."""
    site.page("/docs/", links=["/docs/a", "/docs/b"])
    site.page("/docs/a", "About weirs.")
    site.page("/docs/b", "About locks.")
    async with crawl_context(settings) as context:
        await add_site(context, site.url("/docs/"))
        await crawl_source(context, SID, CrawlMode.INCREMENTAL)
        site.page("/docs/a", "About weirs and dams.")
        yield context


def result(job: Job) -> str:
    """What RQ tells whoever looks at the job."""
    found = job.latest_result()
    return str(found.exc_string) if found else ""


async def markdown(context: Context, url: str) -> str:
    return str(await context.client.hget(context.keys.document(item_id(url)), "markdown"))


async def test_documented_lines_have_a_page_read_again(crawled: Context, settings: Settings, site: Site) -> None:
    """The example of docs/python.md in a process of its own, which knows nothing of Freshet but a name and a URL."""
    text = (ROOT / "docs" / "python.md").read_text().partition("## RQ")[2]
    example = re.findall(r"```python\n(.*?)```", text, re.S)[0].replace(DOCUMENTED_URL, site.url("/docs/a"))
    lines = f"redis_url = {connect.url_of(settings)!r}\n{example}"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-I", "-c", lines], capture_output=True, text=True, timeout=60, check=False
    )
    worker = await commands.run(settings, *WORKERS)

    assert (done.returncode, done.stderr, worker.returncode) == (0, "", 0), worker.stderr
    assert "weirs and dams" in await markdown(crawled, site.url("/docs/a"))


async def test_arguments_as_people_write_them(
    crawled: Context, settings: Settings, site: Site, queue: Queue, client: sync_redis.Redis
) -> None:
    """One name or several, ids and URLs, positional or by name, with and without a time, forced; ids of RQ's making."""
    a, b = site.url("/docs/a"), site.url("/docs/b")
    jobs = [
        queue.enqueue("workers.jobs.reindex", item_id(a)),
        queue.enqueue("workers.jobs.reindex", [a, item_id(b)]),
        queue.enqueue("workers.jobs.reindex", item_ids=b, force=True),
        queue.enqueue("workers.jobs.reindex", [item_id(b)], 4_000_000_000),
    ]
    before = len(site.web.asked("/docs/b"))
    worker = await commands.run(settings, *WORKERS)

    assert [job.get_status() for job in jobs] == [JobStatus.FINISHED] * 4, worker.stderr
    assert "weirs and dams" in await markdown(crawled, a)
    assert len(site.web.asked("/docs/b")) == before + 3


@pytest.mark.parametrize(
    ("enqueue", "words"),
    [
        (lambda queue: queue.enqueue("os.system", "true"), "functions that may run: workers.embed_jobs.embed, "),
        (lambda queue: queue.enqueue("workers.jobs.reindex"), "missing a required argument: 'item_ids'"),
        (lambda queue: queue.enqueue("workers.jobs.reindex", 5), "workers.jobs.reindex(item_ids: list[str] | str, "),
        (lambda queue: queue.enqueue("workers.jobs.refresh", "url_x", 1.0), "item_ids: Input should be a valid list"),
        (lambda queue: queue.enqueue("workers.jobs.reindex", "a", urls=1), "unexpected keyword argument 'urls'"),
        (lambda queue: queue.enqueue("workers.jobs.reindex", "https://a.example/"), "is not in the registry"),
        (lambda queue: queue.enqueue("workers.jobs.crawl", "nope"), "`freshet domain list` shows what there is"),
        (lambda queue: queue.enqueue("workers.jobs.crawl", "nope", mode="odd"), "mode: Input should be "),
        (lambda queue: queue.enqueue("workers.embed_jobs.embed", "nope"), "nope has no text to embed."),
        (
            lambda queue: Queue(queue.name, queue.connection, serializer=DefaultSerializer).enqueue(
                "workers.jobs.reindex", "url_x"
            ),
            "serializer=JSONSerializer",
        ),
        (
            lambda queue: queue.enqueue("workers.jobs.reindex", "url_x", on_success=Callback("workers.jobs.reindex")),
            "without them",
        ),
    ],
    ids=[
        *("function", "no argument", "wrong type", "not a list", "wrong name", "unknown URL", "unknown source"),
        *("unknown mode", "unknown item", "pickle", "callback"),
    ],
)
async def test_what_is_refused_says_what_to_do(
    redis: connect.Client, settings: Settings, queue: Queue, enqueue: Callable[[Queue], Job], words: str
) -> None:
    """In the worker's log and in the job itself; it failed for good, without retries and without a traceback."""
    job = enqueue(queue)
    worker = await commands.run(settings, *WORKERS, LOG_LEVEL="INFO")
    job = Job.fetch(job.id, connection=queue.connection, serializer=JSONSerializer)

    assert job.get_status() is JobStatus.FAILED
    assert words in result(job)
    assert re.search(rf"ERROR \[queue\] 🚫 .*{re.escape(words)}", worker.stderr), worker.stderr
    assert "Traceback" not in worker.stderr
    assert 0 < queue.connection.ttl(job.key) <= FAILURE_SECONDS


async def test_the_list_decides_how_long_and_how_often(redis: connect.Client, queue: Queue) -> None:
    """RQ's defaults (three minutes, no retry) and a stranger's wishes give way to what the function needs."""
    spec = ALLOWED_JOBS["workers.jobs.reindex"]
    plain = queue.enqueue("workers.jobs.reindex", "url_x")
    greedy = queue.enqueue("workers.jobs.reindex", "url_x", job_timeout=-1, result_ttl=-1, failure_ttl=-1)
    for job in (plain, greedy):
        seen = job_class(ALLOWED_JOBS).fetch(job.id, connection=queue.connection)
        assert (seen.timeout, seen.retries_left, seen.failure_ttl) == (spec.timeout_seconds, 3, FAILURE_SECONDS)
        assert seen.retry_intervals == list(spec.retry_seconds)
    assert seen.result_ttl == FAILURE_SECONDS


async def test_queue_without_its_prefix_is_named(
    crawled: Context, settings: Settings, site: Site, queue: Queue, keys: Keys
) -> None:
    """With KEY_PREFIX nobody takes what is enqueued under the bare name; the worker's log says which name is meant."""
    queue.enqueue("workers.jobs.reindex", site.url("/docs/a"))
    worker = await commands.run(settings, *WORKERS, KEY_PREFIX="mine:", LOG_LEVEL="INFO")

    assert "1 jobs wait in the queue reindex, which has no worker. With KEY_PREFIX=mine: its name is mine:reindex." in (
        worker.stderr
    )
