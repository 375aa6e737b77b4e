"""A store on a Redis Cluster: what its URL says, what is refused, and the whole product on three masters."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
import redis as sync_redis
from redis.exceptions import MovedError

from core.errors import SettingsError
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import cluster, connect, redis_health
from core.store.embedded import EmbeddedServer
from tests import commands
from tests.faults.scenario import rss
from tests.redis_cluster import PREFIX, RedisCluster, open_cluster
from tests.web import FakeWeb

pytestmark = pytest.mark.long

QUEUE = "redis://127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("url", "nodes", "options"),
    [
        ("redis+cluster://a", [("a", 6379)], {"ssl": False}),
        ("redis+cluster://a:1,b:2/0", [("a", 1), ("b", 2)], {"ssl": False}),
        (
            "rediss+cluster://me:s%40cret@a:1,b",
            [("a", 1), ("b", 6379)],
            {"ssl": True, "username": "me", "password": "s@cret"},
        ),
        ("redis+cluster://:x@a", [("a", 6379)], {"ssl": False, "username": None, "password": "x"}),
    ],
)
def test_cluster_urls(url: str, nodes: object, options: object) -> None:
    """Nodes, TLS and credentials."""
    assert cluster.is_cluster(url)
    assert cluster.parse_url(url) == (nodes, options)


@pytest.mark.parametrize("url", ["redis+cluster://a/1", "redis+cluster://", "redis+cluster://a:x"])
def test_useless_cluster_urls_are_a_sentence(url: str) -> None:
    """A cluster has one database, and a port is a number."""
    settings = Settings(redis_url=SecretStr(url), queue_redis_url=SecretStr(QUEUE), key_prefix=PREFIX)

    with pytest.raises(SettingsError, match=r"Cannot start\. REDIS_URL: .* it is not an address like"):
        connect.open_store(settings)


@pytest.mark.parametrize(
    ("prefix", "is_tag"), [("{a}:", True), ("x{a}", True), ("", False), ("a:", False), ("{}a", False), ("{a", False)]
)
def test_hash_tags(prefix: str, is_tag: bool) -> None:
    """Something between the first pair of braces."""
    assert cluster.has_hash_tag(prefix) == is_tag


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"key_prefix": "a:", "queue_redis_url": SecretStr(QUEUE)}, "KEY_PREFIX"),
        ({"key_prefix": PREFIX}, "QUEUE_REDIS_URL"),
        ({"key_prefix": PREFIX, "queue_redis_url": SecretStr("redis+cluster://b")}, "QUEUE_REDIS_URL"),
    ],
)
def test_what_does_not_work_on_a_cluster_is_refused_at_the_start(more: dict[str, object], name: str) -> None:
    """Keys in many slots, and RQ: told before anything is written, by the variable's name."""
    settings = Settings(redis_url=SecretStr("redis+cluster://a"), **more)
    for open_client in (connect.open_store, connect.open_queue):
        with pytest.raises(SettingsError, match=rf"Cannot start\. {name}: "):
            open_client(settings)


def test_master_of_a_slot() -> None:
    """Named by CLUSTER SLOTS; a node that does not know its own address is where we asked it."""
    reply = [[0, 99, [b"", 1, b"id"], [b"10.0.0.2", 2, b"id"]], [100, 200, ["10.0.0.3", 3, "id"]]]

    assert cluster.master_of(99, reply, "h") == (("h", 1), [("h", 1), ("10.0.0.2", 2), ("10.0.0.3", 3)])
    assert cluster.master_of(100, reply, "h")[0] == ("10.0.0.3", 3)
    assert cluster.master_of(300, reply, "h")[0] is None


# ── on a real one ──


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three masters, two replicas."""
    with open_cluster(tmp_path_factory.mktemp("cluster")) as opened:
        yield opened


@pytest.fixture
def on_cluster(running: RedisCluster, settings: Settings, server: EmbeddedServer) -> Settings:
    """Settings of a deployment on the cluster, its queues on the session's server."""
    running.ask(running.master(), "FLUSHALL")
    with sync_redis.Redis.from_url(server.url) as client:
        client.flushall()
    return settings.model_copy(
        update={
            "redis_url": SecretStr(running.url),
            "queue_redis_url": SecretStr(server.url),
            "key_prefix": PREFIX,
            "fetch_allowed_hosts": ("127.0.0.0/8",),
        }
    )


@pytest.fixture
async def client(on_cluster: Settings) -> AsyncIterator[connect.Client]:
    async with connect.open_store(on_cluster) as opened:
        yield opened


async def test_scripts_transactions_and_pipelines_work_as_on_one_server(client: connect.Client) -> None:
    """Also scripts that declare no keys, and after the master changed on an open connection."""
    await client.set(f"{PREFIX}n", 1)
    pipe = client.pipeline(transaction=True)
    pipe.incr(f"{PREFIX}n")
    pipe.rpush(f"{PREFIX}l", "x")

    assert await pipe.execute() == [2, 1]
    assert await client.eval(f"return redis.call('GET', '{PREFIX}n')", 0) == "2"


async def test_failover_is_followed(client: connect.Client, running: RedisCluster) -> None:
    """Whatever is sent first after a failover arrives: a command, a transaction, a script with and without keys."""
    read = f"return redis.call('INCR', '{PREFIX}n')"

    async def transaction() -> int:
        pipe = client.pipeline(transaction=True)
        pipe.incr(f"{PREFIX}n")
        return (await pipe.execute())[0]

    first = [
        lambda: client.incr(f"{PREFIX}n"),
        transaction,
        lambda: client.eval(read, 0),
        lambda: client.eval(read, 1, f"{PREFIX}n"),
    ]
    for place, send in enumerate(first):
        await client.ping()  # connected to the old master
        before = running.master()
        running.fail_over()
        assert running.master() != before
        assert int(await send()) == place + 1


async def test_a_slot_that_moves_to_another_node_is_followed(client: connect.Client, running: RedisCluster) -> None:
    """With its keys, in one step, as new servers can."""
    await client.set(f"{PREFIX}n", 1)
    before = running.master()
    target = running.other_master()
    running.move_slot(target)
    try:
        assert running.master() == target
        assert await client.eval(f"return redis.call('INCR', '{PREFIX}n')", 0) == 2
    finally:
        running.move_slot(before)
    assert await client.incr(f"{PREFIX}n") == 3


async def test_a_plain_url_to_a_node_is_explained(running: RedisCluster) -> None:
    """The sentence says what to set."""
    other = running.other_master()
    async with connect.open_store(Settings(redis_url=SecretStr(f"redis://127.0.0.1:{other}/0"))) as client:
        with pytest.raises(MovedError) as caught:
            await client.get(f"{PREFIX}n")

    assert "is a node of a Redis Cluster. Set REDIS_URL=redis+cluster://" in redis_health.explain(
        caught.value, f"redis://127.0.0.1:{other}/0"
    )


async def test_the_whole_product_on_a_cluster(
    on_cluster: Settings, running: RedisCluster, server: EmbeddedServer, client: connect.Client, web: FakeWeb
) -> None:
    """Feed, articles, refresh by the timer and RQ workers, vectors, search, doctor; no key outside the slot."""
    stories = [web.url(f"/story/{name}") for name in ("weir", "harvest", "bridge")]
    web.page("/feed", rss(*stories))
    for url, text in zip(stories, ("The weir was repaired.", "Grain prices fell.", "A bridge opened."), strict=True):
        web.page(url.removeprefix(web.url("")), f"<article><p>{text * 20}</p></article>")
    await client.sadd(f"{PREFIX}rss:feeds:news", web.url("/feed"))
    more = {"KEY_PREFIX": PREFIX, "QUEUE_REDIS_URL": server.url, "LOG_LEVEL": "INFO"}
    logs = ""
    for command in (
        ("workers.ingestor", "--once"),
        ("workers.canonical_fetcher",),
        ("scripts.reindex", "--all", "--force"),
        ("workers.timer", "--once"),
        ("workers", "refresh", "reindex", "embed", "--burst"),
        ("scripts.redis_cli", "SCARD", f"{PREFIX}rss:categories"),
        ("scripts.doctor",),
    ):
        done = await commands.run(on_cluster, *command, **more)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        logs += done.stdout + done.stderr
    found = await commands.run(on_cluster, "scripts.search", "cost of cereals", "--json", **more)

    assert "[refresh] 🏁 3 visited = 0 changed, 3 unchanged" in logs, logs
    assert "[embed] 🧭 Indexed 3 pages" in logs, logs
    assert json.loads(found.stdout)["results"][0]["url"] == stories[1], found.stdout
    names = [name for port in running.servers for name in running.ask(port, "KEYS", "*")]
    assert names
    assert [name for name in names if not name.startswith(PREFIX)] == []
