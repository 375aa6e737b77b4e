"""Clients for the store and the queue, and what to say when the server is not as it should be.

Two clients on purpose: stores read decoded text, RQ needs its own bytes client (trap T18).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import redis as sync_redis
import redis.asyncio as redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, ReadOnlyError, RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel as SyncSentinel

from core.errors import SettingsError, StoreUnreachable
from core.settings import Settings

log = logging.getLogger("store")

DEFAULT_URL = "redis://127.0.0.1:6379/0"
URL_FILE = "redis.url"
RETRIES = 3
"""Bounded: redis-py resends by itself, and every write of ours is idempotent (design §6.5)."""
RETRY_ON: list[type[Exception]] = [BusyLoadingError, ReadOnlyError]
HEALTH_CHECK_SECONDS = 30
MAX_CONNECTIONS = 64
LONGEST_PAUSE_SECONDS = 30.0

Client = redis.Redis


def url_of(settings: Settings) -> str:
    """REDIS_URL; else the embedded server's, as `./scripts/up` wrote it; else 127.0.0.1:6379."""
    if settings.redis_url:
        return settings.redis_url.get_secret_value()
    written = settings.persistent_storage_path / URL_FILE
    return written.read_text(encoding="utf-8").strip() if written.is_file() else DEFAULT_URL


def write_url(folder: Path, url: str) -> None:
    """Let every process and script of this folder find the embedded server."""
    (folder / URL_FILE).write_text(url + "\n", encoding="utf-8")


def masked(url: str) -> str:
    """The URL as it may be logged: where, never with what password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def open_store(settings: Settings) -> Client:
    """An asyncio client that reads text. It connects at the first command."""
    url = url_of(settings)
    options = _options(settings) | {
        "decode_responses": True,
        "retry": AsyncRetry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES),
    }
    if "sentinel" in urlsplit(url).scheme:
        nodes, service, extra = _sentinel(url)
        master: Client = Sentinel(nodes, sentinel_kwargs=options).master_for(service, **options, **extra)
        return master
    pool = redis.BlockingConnectionPool.from_url(
        _checked(url), max_connections=MAX_CONNECTIONS, timeout=None, **options
    )
    return redis.Redis.from_pool(pool)


def open_queue(settings: Settings) -> sync_redis.Redis:
    """RQ's own client: synchronous and undecoded, because job payloads are bytes."""
    secret = settings.queue_redis_url
    url = secret.get_secret_value() if secret else url_of(settings)
    # RQ blocks on the server for minutes, so a socket timeout of seconds would look like a failure to it.
    options = _options(settings) | {
        "socket_timeout": None,
        "retry": Retry(ExponentialBackoff(cap=1.0, base=0.05), RETRIES),
    }
    if "sentinel" in urlsplit(url).scheme:
        nodes, service, extra = _sentinel(url)
        master: sync_redis.Redis = SyncSentinel(nodes, sentinel_kwargs=options).master_for(service, **options, **extra)
        return master
    return sync_redis.Redis.from_url(_checked(url), **options)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "socket_timeout": settings.redis_timeout_seconds,
        "socket_connect_timeout": settings.redis_timeout_seconds,
        "health_check_interval": HEALTH_CHECK_SECONDS,
        "retry_on_error": RETRY_ON,
    }


def _checked(url: str) -> str:
    if urlsplit(url).scheme not in {"redis", "rediss", "unix"}:
        raise SettingsError(
            f"Cannot start. REDIS_URL: {masked(url)!r} is not redis://, rediss://, unix:// or redis+sentinel://. "
            "See .env.example."
        )
    return url


def _sentinel(url: str) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """`redis+sentinel://[user:password@]host:port[,host:port…]/service[/db]`, rediss+… for TLS."""
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    if not service or not hosts:
        raise SettingsError(
            "Cannot start. REDIS_URL: a Sentinel URL names hosts and a service: redis+sentinel://host:26379,host:26379/mymaster/0."
        )
    user, _, password = credentials.partition(":")
    extra: dict[str, Any] = {"db": int(db or 0), "ssl": parts.scheme.startswith("rediss")}
    if credentials:
        extra |= {"username": unquote(user) or None, "password": unquote(password)}
    nodes = [
        (host or "127.0.0.1", int(port or 26379)) for host, _, port in (h.partition(":") for h in hosts.split(","))
    ]
    return nodes, service, extra


# ── is the server there, and is it safe? ────────────────────────────────────────────────────────


async def require(client: Client, settings: Settings) -> None:
    """One PING; `StoreUnreachable` with a sentence when there is no answer. For scripts."""
    try:
        await client.ping()
    except (RedisError, OSError) as error:
        raise StoreUnreachable(explain(error, url_of(settings))) from error


async def wait(client: Client, settings: Settings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Return when the server answers; say once that it does not, and again when it does. For workers."""
    pause, told = 0.5, False
    while True:
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            if not told:
                log.error("⚠️ %s Retrying until it is back.", explain(error, url_of(settings)))
            told, pause = True, min(pause * 2, LONGEST_PAUSE_SECONDS)
            await sleep(pause)
        else:
            if told:
                log.info("✅ Redis is back → %s", masked(url_of(settings)))
            return


def explain(error: BaseException, url: str) -> str:
    """What a person should know and do about a server that does not answer."""
    where = masked(url)
    if isinstance(error, AuthenticationError):
        return f"Redis at {where} refuses our password. Check REDIS_URL."
    if isinstance(error, BusyLoadingError):
        return f"Redis at {where} is still loading its data."
    return f"Redis at {where} does not answer ({type(error).__name__}). Start it with ./scripts/up or set REDIS_URL."


async def dangers(client: Client) -> list[str]:
    """Sentences about a configuration that can lose data; empty when all is well (trap T19)."""
    info = await client.info()
    found = []
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        found.append(
            f"Redis evicts keys (maxmemory-policy {policy}): it may drop feeds, links and leases. Set it to noeviction."
        )
    if not int(info.get("aof_enabled", 0)) and not await _snapshots(client):
        found.append("Redis keeps nothing on disk: a restart loses everything. Set appendonly yes.")
    return found


async def warn(client: Client) -> None:
    """Log every danger, loudly."""
    for sentence in await dangers(client):
        log.warning("🚨 %s", sentence)


async def _snapshots(client: Client) -> bool:
    try:
        return bool((await client.config_get("save")).get("save"))
    except RedisError:
        return True  # managed servers forbid CONFIG; do not cry wolf


def texts(reply: object) -> list[str]:
    """A decoded client's members as a list; redis-py types them `bytes | str` whatever the client decodes."""
    return list(cast(Iterable[str], reply))


async def now(client: Client) -> float:
    """The server's clock, the only one that several hosts share."""
    seconds, micros = await client.time()
    return float(seconds) + float(micros) / 1e6
