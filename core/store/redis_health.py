"""Check that the Redis server answers, keeps its data and holds keys that we know; explain what is wrong if not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from redis.exceptions import AuthenticationError, BusyLoadingError, MovedError, RedisError, ResponseError

from core.errors import SettingsError, StoreUnreachable
from core.keys import Keys
from core.registry import field_parsing
from core.settings import Settings
from core.store.connect import Client, open_store, url_of
from core.urls import redis_url
from core.urls.normalise import NORMALISER_VERSION

log = logging.getLogger("store")

SCHEMA_VERSION = 1
LONGEST_PAUSE_SECONDS = 30.0
DISK_FULL = (
    "cannot write to its disk. Make room where its data is (`CONFIG GET dir`); until then only what reads works, "
    "as status and search do."
)
CLUSTER_PAGE = "docs/deployment.md#redis-cluster"
LEAST_MAJOR_VERSION = 7
"""Older servers do not count the entries that a stream ever got (`entries-added`)."""
ONCE_WAIT_SECONDS = 15.0
"""How long a command that runs once waits for a server that is just starting."""


async def require_server(client: Client, settings: Settings) -> None:
    """Send one PING; raise `StoreUnreachable` with a sentence if there is no answer. For scripts.

    A server that takes no writes has answered: reading works, and writing fails with an error of its own.
    """
    try:
        await client.ping()
    except (RedisError, OSError) as error:
        if not _takes_no_writes(error):
            raise StoreUnreachable(explain(error, url_of(settings))) from error


async def wait_for_server(
    client: Client,
    settings: Settings,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    give_up_seconds: float | None = None,
) -> None:
    """Return when the server answers; log once that it does not, and again when it does. For workers."""
    pause, waited = 0.5, 0.0
    while True:
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            sentence = explain(error, url_of(settings))
            if give_up_seconds is not None and waited >= give_up_seconds:
                raise StoreUnreachable(sentence) from error
            if not waited:
                log.error("⚠️ %s Retrying until it is back.", sentence)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            waited += pause
            await sleep(pause)
        else:
            if waited:
                log.info("✅ Redis is back → %s", redis_url.masked(url_of(settings)))
            return


@contextlib.asynccontextmanager
async def open_when_ready(
    settings: Settings, *, once: bool, should_warn: bool = False
) -> AsyncIterator[tuple[Client, Keys]]:
    """Open the store when its server answers and its schema is known; `once`: give up after a few seconds.

    `should_warn`: log what is dangerous about the server, before anything is written that it may refuse.
    """
    client, keys = open_store(settings), Keys.of(settings)
    try:
        await wait_for_server(client, settings, give_up_seconds=ONCE_WAIT_SECONDS if once else None)
        if should_warn:
            await log_dangers(client)
        await _check_version(client, keys)
        yield client, keys
    finally:
        await client.aclose()


async def _check_version(client: Client, keys: Keys) -> None:
    """Write the version of our keys into the store; refuse a store that a newer Freshet wrote."""
    stored = field_parsing.integer(await client.hget(keys.version, "schema"))
    if stored > SCHEMA_VERSION:
        raise SettingsError(
            f"This store was written by a newer Freshet (schema {stored}, this program knows {SCHEMA_VERSION}). "
            "Update Freshet, or point REDIS_URL at another server."
        )
    await client.hset(keys.version, mapping={"schema": str(SCHEMA_VERSION), "normaliser": str(NORMALISER_VERSION)})


def explain(error: BaseException, url: str) -> str:
    """Return a sentence on what is wrong with the server and what to do; without `url` it does not say which server."""
    where = f"Redis at {redis_url.masked(url)}" if url else "Redis"
    if isinstance(error, AuthenticationError):
        return f"{where} refuses our password. Check REDIS_URL, or, if it is unset, restart ./scripts/up."
    if isinstance(error, BusyLoadingError):
        return f"{where} is still loading its data."
    if _takes_no_writes(error):
        return f"{where} takes no writes, as it {DISK_FULL}"
    if isinstance(error, MovedError):
        return f"{where} is a node of a Redis Cluster. Set REDIS_URL=redis+cluster://… ({CLUSTER_PAGE})."
    if isinstance(error, ResponseError):
        return f"{where} answers with an error: {error}."
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return (
            f"The certificate of {where} is not trusted. Name its authority in REDIS_URL: "
            "rediss://host:port/0?ssl_ca_certs=/path/to/ca.pem"
        )
    return f"{where} does not answer ({type(error).__name__}). Start it with ./scripts/up or set REDIS_URL."


def _takes_no_writes(error: BaseException) -> bool:
    """Return whether its disk is full or gone. If so, it refuses everything that may write, and PING as well."""
    return isinstance(error, ResponseError) and str(error).startswith("MISCONF")


async def log_dangers(client: Client) -> None:
    """Log a warning for every danger."""
    for sentence in await dangers(client):
        log.warning("🚨 %s", sentence)


async def dangers(client: Client) -> list[str]:
    """Return sentences about a server that can lose data, e.g. one that evicts keys, or cannot tell that it did."""
    info = await client.info()
    sentences = _outdated(info)
    if any(str(info.get(name, "ok")) != "ok" for name in ("aof_last_write_status", "rdb_last_bgsave_status")):
        sentences.append(f"Redis {DISK_FULL}")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        sentences.append(
            f"Redis evicts keys (maxmemory-policy {policy}): it may drop feeds, links and leases. Set it to noeviction."
        )
    if not int(info.get("aof_enabled", 0)) and not await _has_snapshots(client):
        sentences.append("Redis keeps nothing on disk: a restart loses everything. Set appendonly yes.")
    return sentences


def _outdated(info: Mapping[str, object]) -> list[str]:
    """Return a sentence if the server is too old; Valkey tells which version of Redis it is like."""
    version = str(info.get("redis_version", ""))
    major = re.match(r"\d+", version)
    if major is None or int(major[0]) >= LEAST_MAJOR_VERSION:
        return []
    return [
        f"Redis {version} is too old: webhooks and /stream cannot notice that events were lost before they were read. "
        f"Use Redis {LEAST_MAJOR_VERSION}.0 or newer, or Valkey."
    ]


async def _has_snapshots(client: Client) -> bool:
    try:
        return bool((await client.config_get("save")).get("save"))
    except RedisError:
        return True  # managed servers forbid CONFIG; no warning without evidence
