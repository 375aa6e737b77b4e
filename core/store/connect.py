"""Open clients for the store and the queue.

Two on purpose: stores read decoded text, RQ needs its own client in bytes (docs/architecture.md#two-clients).
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import redis as sync_redis
import redis.asyncio as redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import BusyLoadingError, ReadOnlyError
from redis.retry import Retry
from redis.sentinel import Sentinel as SyncSentinel

from core.errors import SettingsError, StoreUnreachable
from core.keys import Keys
from core.settings import Settings
from core.store import cluster, private_files
from core.store.guarded_clients import GuardedClient, GuardedQueueClient
from core.urls import redis_url

DEFAULT_URL = "redis://127.0.0.1:6379/0"
URL_FILE = "redis.url"
PASSWORD_BYTES = 24
_PASSWORD = re.compile(r"redis://:([A-Za-z0-9_-]{16,})@127\.0\.0\.1:")
NO_QUEUE_ON_CLUSTER = "RQ does not run on a Redis Cluster; name a single server, or one behind Sentinel, for the queues"
RETRIES = 3
"""Bounded: redis-py resends by itself, and every write of ours is idempotent."""

Client = redis.Redis
HashFields = dict[Any, Any]
"""What HSET takes; redis-py's own type refuses a plain `dict[str, str]`."""


def url_of(settings: Settings) -> str:
    """Return REDIS_URL, else the embedded server's as `./scripts/up` wrote it, else 127.0.0.1:6379."""
    if settings.redis_url:
        return settings.redis_url.get_secret_value()
    written = settings.persistent_storage_path / URL_FILE
    try:
        return written.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return DEFAULT_URL
    except PermissionError:
        raise StoreUnreachable(f"{written} belongs to another user. Be that user, or set REDIS_URL.") from None


def write_url(folder: Path, url: str) -> None:
    """Let every process and script of this folder and this user find the embedded server."""
    private_files.write(folder / URL_FILE, url + "\n")


def embedded_password(folder: Path) -> str:
    """Return the embedded server's password: the one in use, so that clients find it again, else a new one."""
    written = folder / URL_FILE
    if written.is_file() and not written.stat().st_mode & 0o077:
        known = _PASSWORD.search(written.read_text(encoding="utf-8"))
        if known:
            return known[1]
    return secrets.token_urlsafe(PASSWORD_BYTES)


def open_store(settings: Settings) -> Client:
    """Return an asyncio client that reads text. It connects at the first command."""
    # Anybody may write here, also bytes that are no UTF-8: they come and go unchanged, and are rejected as links.
    return _open_async(settings, decode_responses=True, encoding_errors="surrogateescape")


def read_only(client: Client, keys: Keys) -> Client:
    """Return a client on the same connections that quarantines nothing: to it, a damaged key is not there."""
    return GuardedClient(connection_pool=client.connection_pool).guard(keys, is_read_only=True)


def open_raw(settings: Settings) -> Client:
    """Return an asyncio client that reads bytes: for vectors."""
    return _open_async(settings)


def open_queue_reader(settings: Settings) -> Client:
    """Return an asyncio client that reads text, on the queues' own server: to look at RQ's keys, not to run jobs."""
    secret = settings.queue_redis_url
    url = secret.get_secret_value() if secret else None
    return _open_async(settings, url, decode_responses=True, encoding_errors="replace")


def _open_async(settings: Settings, queue_url: str | None = None, **options: Any) -> Client:
    url = queue_url or url_of(settings)
    _check_cluster(settings)
    options |= _options(settings) | {"retry": AsyncRetry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES)}
    with _usable_url(settings, url):
        if "sentinel" in urlsplit(url).scheme:
            nodes, service, extra = _sentinel(url)
            sentinel = Sentinel(nodes, sentinel_kwargs=options)
            client = sentinel.master_for(service, redis_class=GuardedClient, **options, **extra)
        elif cluster.is_cluster(url):
            nodes, extra = cluster.parse_url(url)
            client = GuardedClient.from_pool(cluster.SlotConnectionPool(nodes, settings.key_prefix, **options, **extra))
        else:
            most = cluster.MOST_CONNECTIONS
            pool = redis.BlockingConnectionPool.from_url(url, max_connections=most, timeout=None, **options)
            client = GuardedClient.from_pool(pool)
    return cast(GuardedClient, client).guard(Keys.of(settings))


def open_queue(settings: Settings) -> GuardedQueueClient:
    """Return RQ's own client: synchronous and undecoded, because job payloads are bytes."""
    secret = settings.queue_redis_url
    url = secret.get_secret_value() if secret else url_of(settings)
    _check_cluster(settings)
    client = cast(GuardedQueueClient, open_bytes(settings, url, GuardedQueueClient))
    client.our_keys = Keys.of(settings)
    return client


def open_bytes(settings: Settings, url: str, kind: type[sync_redis.Redis] = sync_redis.Redis) -> sync_redis.Redis:
    """Return a synchronous client that reads bytes."""
    # RQ blocks on the server for minutes, so a socket timeout of seconds would look like a failure to it.
    retry = Retry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES)
    options = _options(settings) | {"socket_timeout": None, "retry": retry}
    with _usable_url(settings, url):
        if "sentinel" in urlsplit(url).scheme:
            nodes, service, extra = _sentinel(url)
            sentinel = SyncSentinel(nodes, sentinel_kwargs=options)
            master: sync_redis.Redis = sentinel.master_for(service, redis_class=kind, **options, **extra)
            return master
        if cluster.is_cluster(url):
            return cluster.open_master(url, settings.key_prefix, **options)
        return kind.from_url(url, **options)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "socket_timeout": settings.redis_timeout_seconds,
        "socket_connect_timeout": settings.redis_timeout_seconds,
        # No health check: it is a PING, which a server with a full disk refuses, and a lost connection is made again by
        # the retry of whatever is sent next.
        "health_check_interval": 0,
        "retry_on_error": [BusyLoadingError, ReadOnlyError],
        "driver_info": _DRIVER_INFO,
    }


_DRIVER_INFO = DriverInfo(lib_version=sync_redis.__version__)
"""What the server is told of redis-py; by default each connection looks its version up on the disk, for 4 ms."""


def _check_cluster(settings: Settings) -> None:
    """Refuse a cluster without a hash tag, or one for the queues."""
    secret = settings.queue_redis_url
    if secret and cluster.is_cluster(secret.get_secret_value()):
        raise SettingsError(f"Cannot start. QUEUE_REDIS_URL: {NO_QUEUE_ON_CLUSTER}.")
    if not cluster.is_cluster(url_of(settings)):
        return
    if not cluster.has_hash_tag(settings.key_prefix):
        raise SettingsError(
            "Cannot start. KEY_PREFIX: on a Redis Cluster all keys of a deployment must be in one slot. "
            "Set a prefix with a hash tag, such as KEY_PREFIX={a}:"
        )
    if not secret:
        raise SettingsError(f"Cannot start. QUEUE_REDIS_URL: {NO_QUEUE_ON_CLUSTER}.")


@contextlib.contextmanager
def _usable_url(settings: Settings, url: str) -> Iterator[None]:
    """Turn a URL that cannot be used into a sentence that names the variable, never the password."""
    why = redis_url.problem(url)
    if why is None:
        try:
            yield
            return
        except ValueError:  # its text may quote the URL
            why = "it is not an address like redis://host:6379/0, redis+sentinel://host:26379/service/0 or redis+cluster://host:6379"
    secret = settings.queue_redis_url
    variable = "QUEUE_REDIS_URL" if secret and secret.get_secret_value() == url else "REDIS_URL"
    raise SettingsError(f"Cannot start. {variable}: {redis_url.masked(url)}: {why}.") from None


def _sentinel(url: str) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """Read `redis+sentinel://[user:password@]host:port[,host:port…]/service[/db]`, rediss+… for TLS."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    if not service or not hosts:
        raise ValueError("a Sentinel URL names hosts and a service")
    pairs = (host.partition(":") for host in hosts.split(","))
    nodes = [(name or "127.0.0.1", int(port or 26379)) for name, _, port in pairs]
    extra: dict[str, Any] = {"db": int(db or 0), "ssl": parts.scheme.startswith("rediss")}
    if credentials:
        user, _, password = credentials.partition(":")
        extra |= {"username": unquote(user) or None, "password": unquote(password)}
    return nodes, service, extra


def texts(reply: object) -> list[str]:
    """Return the members of a decoded reply; redis-py types them `bytes | str` whatever the client decodes."""
    return list(cast(Iterable[str], reply))


async def now(client: Client) -> float:
    """Return the time of the server, the only clock that several hosts share."""
    seconds, micros = await client.time()
    return float(seconds) + float(micros) / 1e6
