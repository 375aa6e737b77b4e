"""A server behind Sentinel: its master is found, and found again after a failover."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as sync_redis

from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded
from tests import ports
from tests.redis_cluster import wait

pytestmark = pytest.mark.long


@pytest.fixture
def sentinel_port(tmp_path: Path) -> Iterator[int]:
    """A master with a replica, and a Sentinel that watches them."""
    master = embedded.start(tmp_path / "master", ports.take())
    replica = embedded.start(tmp_path / "replica", ports.take())
    with sync_redis.Redis(port=replica.port) as client:
        client.replicaof("127.0.0.1", master.port)
    port = ports.take()
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor main 127.0.0.1 {master.port} 1\n"
        "sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 10000\n"
    )
    process = subprocess.Popen(
        [embedded.binary(), str(config), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with sync_redis.Redis(port=port, decode_responses=True) as client:
            wait(lambda: _replicas(client) == 1, "the Sentinel does not know the replica")
        yield port
    finally:
        process.terminate()
        process.wait()
        replica.stop()
        master.stop()


def _replicas(client: sync_redis.Redis) -> int:
    known = client.execute_command("SENTINEL", "REPLICAS", "main")
    return sum(one["master-link-status"] == "ok" for one in known)


def _master(port: int) -> list[str]:
    with sync_redis.Redis(port=port, decode_responses=True) as client:
        return client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")


async def test_failover_is_followed(sentinel_port: int) -> None:
    """By the stores' client and by RQ's, on connections that were open before; nothing of a handover is lost."""
    settings = Settings(redis_url=SecretStr(f"redis+sentinel://127.0.0.1:{sentinel_port}/main/0"))
    async with connect.open_store(settings) as client:
        with connect.open_queue(settings) as queue:
            assert await client.incr("n") == 1
            assert queue.incr("n") == 2
            before = _master(sentinel_port)
            with sync_redis.Redis(port=sentinel_port) as sentinel:
                sentinel.execute_command("SENTINEL", "FAILOVER", "main")
            wait(lambda: _master(sentinel_port) != before, "no failover")
            deadline = time.monotonic() + 60
            while True:  # the old master may take seconds to hear of it, and then says READONLY
                try:
                    seen = [await client.incr("n"), queue.incr("n")]
                    break
                except sync_redis.ConnectionError:
                    assert time.monotonic() < deadline

    assert seen[1] == seen[0] + 1
    assert seen[0] >= 3
