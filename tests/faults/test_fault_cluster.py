"""A Redis Cluster under an ingestor at work: its master hands over, is killed, comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core import ids
from core.keys import Keys
from core.runtime.context import open_context
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from core.store.embedded import EmbeddedServer
from tests import commands
from tests.faults import state
from tests.faults.process import Worker
from tests.faults.scenario import rss
from tests.redis_cluster import PREFIX, RedisCluster, open_cluster
from tests.web import FakeWeb
from tests.web_replies import Document, Exchange
from workers import canonical_fetcher, ingestor

FEEDS = 6
MOST_RUNS = 10
KEYS = Keys(PREFIX)
ARTICLE = b"<html><body><article><p>" + b"The lock keeper opened the weir this morning. " * 20


class Feeds:
    """Feeds that list a further story at each poll, and all earlier ones."""

    def __init__(self, web: FakeWeb) -> None:
        self.web = web
        self.stories: dict[int, list[str]] = {number: [] for number in range(FEEDS)}
        web.fallback = Document(ARTICLE)
        for number in self.stories:
            web.on(f"/feed/{number}", self._reply(number))

    @property
    def all(self) -> set[str]:
        return {story for stories in self.stories.values() for story in stories}

    def _reply(self, number: int) -> object:
        async def reply(exchange: Exchange) -> None:
            stories = self.stories[number]
            stories.append(self.web.url(f"/story/{number}/{len(stories)}"))
            await Document(rss(*stories).encode())(exchange)

        return reply


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with open_cluster(tmp_path_factory.mktemp("cluster")) as opened:
        yield opened


@pytest.fixture
def on_cluster(cluster: RedisCluster, settings: Settings, server: EmbeddedServer) -> Settings:
    update = {"redis_url": SecretStr(cluster.url), "queue_redis_url": SecretStr(server.url), "key_prefix": PREFIX}
    return settings.model_copy(update=update | {"fetch_allowed_hosts": ("127.0.0.0/8",)})


@pytest.fixture
async def client(on_cluster: Settings) -> AsyncIterator[connect.Client]:
    async with connect.open_store(on_cluster) as opened:
        yield opened


async def _work(client: connect.Client, worker: Worker, polls: int) -> None:
    """Let every feed be due, again and again, until so many further polls are told."""
    goal = len(worker.lines("new links")) + polls
    fids = [ids.feed_id(url) for url in await client.smembers(KEYS.feeds("news"))]
    while len(worker.lines("new links")) < goal:
        await client.zadd(KEYS.feeds_due, dict.fromkeys(fids, 0), xx=True)
        assert worker.is_alive, worker.log
        await asyncio.sleep(0.02)


async def test_the_master_hands_over_and_is_killed(
    cluster: RedisCluster, on_cluster: Settings, client: connect.Client, web: FakeWeb, tmp_path: Path
) -> None:
    """After a handover all is there that was told; after kill -9 the ingestor goes on by itself on a replica, and in
    the end every story is an article, once, in a store without a fault."""
    feeds = Feeds(web)
    await client.sadd(KEYS.feeds("news"), *(web.url(f"/feed/{number}") for number in feeds.stories))
    more = {"KEY_PREFIX": PREFIX, "QUEUE_REDIS_URL": on_cluster.queue_redis_url.get_secret_value()}
    with Worker(tmp_path, cluster.url, "workers.ingestor", INGEST_CYCLE_SECONDS="0.05", **more) as worker:
        await _work(client, worker, 2 * FEEDS)
        told = Counter(line.rpartition(" ")[2] for line in worker.lines("new links"))
        await asyncio.to_thread(cluster.fail_over)
        polled = {
            web.url(f"/feed/{number}"): int(
                await client.hget(KEYS.feed(ids.feed_id(web.url(f"/feed/{number}"))), "polls")
            )
            for number in feeds.stories
        }
        await _work(client, worker, 2 * FEEDS)
        dead = cluster.kill_master()
        assert await asyncio.to_thread(cluster.master) != dead  # waits until a replica has taken over
        await _work(client, worker, 2 * FEEDS)
        assert await worker.stopped() == 0

    assert told <= Counter(polled)
    assert worker.tracebacks == []
    async with open_context(on_cluster) as context:
        await state.let_leases_end(client, KEYS)
        await client.zadd(KEYS.feeds_due, dict.fromkeys(await client.zrange(KEYS.feeds_due, 0, -1), 0))
        await ingestor.run_cycle(context)
        for _ in range(MOST_RUNS):  # what failed or was put off on a busy machine is of a later run
            counts = await canonical_fetcher.run_once(context, 60.0)
            if not counts["deferred"] and not await _make_retries_due(client):
                break
    articles = await client.zrange(KEYS.article_index, 0, -1)
    assert set(articles) == {ids.article_uid(url) for url in feeds.all}
    checked = await commands.run(on_cluster, "scripts.doctor", **more)
    assert checked.returncode == 0, checked.stdout


async def _make_retries_due(client: connect.Client) -> int:
    waiting = await client.zrange(KEYS.retry, 0, -1)
    if waiting:
        await client.zadd(KEYS.retry, dict.fromkeys(waiting, 0))
    return len(waiting)
