"""Connect to a Redis Cluster on which everything of a deployment is in one slot.

`KEY_PREFIX` has a hash tag (`{a}:`), so all keys belong to one slot, and that slot to one master. These connections
find that master, and find it again when it moved: scripts, transactions and streams then work as on a single server,
which they do not on redis-py's cluster client. Spreads nothing over nodes: a second deployment has another tag.
"""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import redis as sync_redis
from redis.asyncio.connection import BlockingConnectionPool, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

Address = tuple[str, int]

HASH_TAG = re.compile(r"[^{]*\{[^}]+\}")
DEFAULT_PORT = 6379
MOST_CONNECTIONS = 64
_NOT_OURS = (AskError, TryAgainError, ClusterDownError, ReadOnlyError)  # MovedError is an AskError
_NOT_LOCAL = "non local key"
"""What a script that declares no keys is told instead of MOVED."""


def is_cluster(url: str) -> bool:
    """Return whether this URL names the nodes of a cluster."""
    return url.startswith(("redis+cluster://", "rediss+cluster://"))


def has_hash_tag(prefix: str) -> bool:
    """Return whether all keys with this prefix are in one slot."""
    return HASH_TAG.match(prefix) is not None


def parse_url(url: str) -> tuple[list[Address], dict[str, Any]]:
    """Read `redis+cluster://[user:password@]host:port[,host:port…]`, rediss+… for TLS."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    if not hosts or parts.path.strip("/") not in ("", "0"):
        raise ValueError("a cluster URL names hosts, and no database other than 0")
    pairs = (host.rpartition(":") if ":" in host else (host, "", "") for host in hosts.split(","))
    nodes = [(name or "127.0.0.1", int(port or DEFAULT_PORT)) for name, _, port in pairs]
    options: dict[str, Any] = {"ssl": parts.scheme.startswith("rediss")}
    if credentials:
        user, _, password = credentials.partition(":")
        options |= {"username": unquote(user) or None, "password": unquote(password)}
    return nodes, options


def master_of(slot: int, reply: Iterable[Sequence[Any]], asked: str) -> tuple[Address | None, list[Address]]:
    """Return the master of a slot, and all nodes, from the reply to CLUSTER SLOTS of a node at the address `asked`."""
    master, nodes = None, []
    for first, last, *members in reply:
        addresses = [(_text(member[0]) or asked, int(member[1])) for member in members]
        nodes += addresses
        if int(first) <= slot <= int(last):
            master = addresses[0]
    return master, list(dict.fromkeys(nodes))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


class SlotConnection(Connection):
    """A connection to whichever node is the master of the pool's slot at the moment."""

    def __init__(self, *, slot_pool: SlotConnectionPool, **options: Any) -> None:
        self._slot_pool = slot_pool
        super().__init__(**options)

    async def _connect(self) -> None:
        address = self.host, self.port = await self._slot_pool.master_address()
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
        except BaseException:
            self._slot_pool.forget_master(address)
            raise

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a reply; one that says that the slot is elsewhere is a lost connection, and so is sent again."""
        try:
            return await super().read_response(*args, **options)
        except ResponseError as error:
            if not isinstance(error, _NOT_OURS) and _NOT_LOCAL not in str(error):
                raise
            await self.disconnect()
            await self._slot_pool.leave_master((self.host, self.port))
            # Without its address: a node is named by what it calls itself, which is no help to people.
            raise ConnectionError(f"the cluster is changing over ({type(error).__name__})") from error


class SlotTlsConnection(SlotConnection, SSLConnection):
    """The same with TLS."""


class SlotConnectionPool(BlockingConnectionPool):
    """Connections to the master of one slot."""

    def __init__(self, nodes: Sequence[Address], prefix: str, *, ssl: bool = False, **options: Any) -> None:
        self._slot = key_slot(prefix.encode())
        self._seeds, self._known = list(nodes), list(nodes)
        self._master: Address | None = None
        self._looking = asyncio.Lock()
        self._asking = SSLConnection if ssl else Connection
        # A node that does not answer is passed over; whoever wants the address tries again.
        self._ask_options = options | {"decode_responses": False, "retry": Retry(NoBackoff(), 0)}
        kind = SlotTlsConnection if ssl else SlotConnection
        super().__init__(MOST_CONNECTIONS, None, kind, slot_pool=weakref.proxy(self), **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} slot {self._slot}>"  # the inherited one would show the options, and so itself

    async def master_address(self) -> Address:
        """Return where the slot's master is, as far as is known; asks the nodes if it is not."""
        async with self._looking:
            if self._master is None:
                self._master = await self._find_master()
            return self._master

    def forget_master(self, address: Address) -> None:
        """Ask for the master again, unless it is known by now to be another one."""
        if self._master == address:
            self._master = None

    async def leave_master(self, address: Address) -> None:
        """The node at this address is not the master: ask again, and let go of idle connections to it."""
        if self._master == address:
            self._master = None
            await self.disconnect(inuse_connections=False)

    async def _find_master(self) -> Address:
        failure: BaseException | None = None
        for node in dict.fromkeys([*self._known, *self._seeds]):
            try:
                master, nodes = master_of(self._slot, await self._ask(node), node[0])
            except (RedisError, OSError) as error:
                failure = error
                continue
            if master:
                # The others are asked first next time: it is asked again when this one fails.
                self._known = [*(one for one in nodes if one != master), master]
                return master
        raise ConnectionError(f"no node of the cluster knows a master of slot {self._slot}") from failure

    async def _ask(self, node: Address) -> Iterable[Sequence[Any]]:
        connection = self._asking(host=node[0], port=node[1], **self._ask_options)
        try:
            await connection.connect()
            await connection.send_command("CLUSTER", "SLOTS")
            return cast(Iterable[Sequence[Any]], await connection.read_response())
        finally:
            await connection.disconnect()


def open_master(url: str, prefix: str, **options: Any) -> sync_redis.Redis:
    """Return a synchronous client of the node that is the master at the moment: for one command of a person's."""
    nodes, extra = parse_url(url)
    for host, port in nodes:
        with sync_redis.Redis(host=host, port=port, **extra, **options) as client:
            try:
                reply = client.execute_command("CLUSTER", "SLOTS")
            except (RedisError, OSError):
                continue
        master, _ = master_of(key_slot(prefix.encode()), cast(Iterable[Sequence[Any]], reply), host)
        if master:
            return sync_redis.Redis(host=master[0], port=master[1], **extra, **options)
    raise ConnectionError("no node of the cluster answers")
