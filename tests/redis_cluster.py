"""A real Redis Cluster on loopback: three masters, and replicas of the one that has the slot of a key prefix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from core.store import embedded
from core.store.embedded import EmbeddedServer
from tests import ports

PREFIX = "{a}:"
MASTERS, REPLICAS, SLOTS = 3, 2, 16_384
PATIENCE_SECONDS = 60.0
OPTIONS = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": "2000",
    "cluster-replica-validity-factor": "0",
    "repl-diskless-sync-delay": "0",
}


def wait(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if is_so():
                return
        except RedisError:
            pass  # not yet
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class RedisCluster:
    """The nodes by port; use `open_cluster`."""

    def __init__(self, servers: dict[int, EmbeddedServer]) -> None:
        self.servers = servers
        self.slot = key_slot(PREFIX.encode())
        self._group: set[int] = set()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.servers)

    def ask(self, port: int, *words: object) -> Any:
        with redis.Redis(port=port, decode_responses=True) as client:
            return client.execute_command(*words)

    def _alive(self) -> list[int]:
        return [port for port, server in self.servers.items() if server.process.poll() is None]

    def _members(self, port: int) -> list[int]:
        """The master of our slot and its replicas, as this node sees it."""
        for first, last, *members in self.ask(port, "CLUSTER", "SLOTS"):
            if first <= self.slot <= last:
                return [member[1] for member in members]
        return []

    def master(self) -> int:
        """The master of our slot, by all living nodes' opinion."""
        found: set[int] = set()

        def agree() -> bool:
            found.clear()
            found.update(self._members(port)[0] for port in self._alive())
            return len(found) == 1 and found <= set(self._alive())

        wait(agree, "the nodes do not agree on a master")
        return found.pop()

    def form(self) -> None:
        """Make one cluster of the nodes."""
        first, *others = masters = list(self.servers)[:MASTERS]
        for place, port in enumerate(masters):
            self.ask(port, "CLUSTER", "SET-CONFIG-EPOCH", place + 1)
            ends = (place * SLOTS // MASTERS, (place + 1) * SLOTS // MASTERS - 1)
            self.ask(port, "CLUSTER", "ADDSLOTSRANGE", *ends)
        for port in [*others, *list(self.servers)[MASTERS:]]:
            bus = self.ask(port, "CONFIG", "GET", "cluster-port")["cluster-port"]
            self.ask(first, "CLUSTER", "MEET", "127.0.0.1", port, bus)
        wait(lambda: all(self._is_formed(port) for port in self.servers), "the nodes do not meet")
        self._group = {self.master(), *list(self.servers)[MASTERS:]}
        node = self.ask(self.master(), "CLUSTER", "MYID")
        for port in list(self.servers)[MASTERS:]:
            self.ask(port, "CLUSTER", "REPLICATE", node)
        self.wait_for_replicas()

    def _is_formed(self, port: int) -> bool:
        info = str(self.ask(port, "CLUSTER", "INFO"))
        return "cluster_state:ok" in info and f"cluster_known_nodes:{len(self.servers)}" in info

    def wait_for_replicas(self) -> None:
        """Until all living replicas follow the master."""
        replicas = {port for port in self._group if port in self._alive()} - {self.master()}

        def follow() -> bool:
            links = [self.ask(port, "INFO", "replication").get("master_link_status") for port in replicas]
            known = [set(self._members(port)) for port in self._alive()]
            return set(links) <= {"up"} and all(replicas <= members for members in known)

        wait(follow, "the replicas do not follow")

    def fail_over(self) -> None:
        """A replica takes over in agreement with its master."""
        master = self.master()
        replica = next(port for port in self._members(master)[1:] if port in self._alive())
        self.ask(replica, "CLUSTER", "FAILOVER")
        wait(lambda: self.master() == replica, "no failover")
        self.wait_for_replicas()

    def other_master(self) -> int:
        """A master without our slot."""
        return next(port for port in list(self.servers)[:MASTERS] if port not in self._group)

    def move_slot(self, target: int) -> None:
        """Move our slot with its keys to another master, in one step."""
        source, node = self.master(), self.ask(target, "CLUSTER", "MYID")
        self.ask(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", self.slot, self.slot, "NODE", node)
        wait(lambda: self.master() == target, "the slot does not move")

    def kill_master(self) -> int:
        """kill -9 of the master; returns its port, before any replica has noticed."""
        port = self.master()
        self.servers[port].process.kill()
        self.servers[port].process.wait()
        return port


@contextmanager
def open_cluster(folder: Path) -> Iterator[RedisCluster]:
    """A cluster of five nodes; it ends with the block."""
    with ExitStack() as stack:
        servers = {}
        for _ in range(MASTERS + REPLICAS):
            port = ports.take()
            own = OPTIONS | {"cluster-port": str(ports.take())}
            servers[port] = embedded.start(folder / str(port), port, options=own)
            stack.callback(servers[port].stop)
        cluster = RedisCluster(servers)
        cluster.form()
        yield cluster
