"""The sample site: started while there is no other feed, closed when the ingestor has let it step aside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator

from redis.exceptions import RedisError

import sample_site
from core.feeds.io import sample
from core.feeds.io.link_store import LinkStore, Ttls
from core.feeds.io.subscription_sync import SubscriptionSync
from core.feeds.io.subscriptions import SAMPLE_ORIGIN, SAMPLE_PREFIX, Subscriptions
from core.keys import Keys
from core.settings import Settings
from core.store import connect, embedded, redis_health
from scripts.launch_family import Family, Process
from scripts.launch_stop import Stop

log = logging.getLogger("up")

SAMPLE_PORT = 8765
WATCH_SECONDS = 2.0
START_SECONDS = 10.0


@contextlib.contextmanager
def running(settings: Settings, family: Family, stop: Stop, is_owner: bool, patient: bool) -> Iterator[None]:
    """The sample site, as long as there is no other feed. Patient: a server that does not answer is waited for."""
    if not is_owner or not asyncio.run(_wants_sample(settings, stop, patient)):
        yield
        return
    base = sample.read_url(settings)
    port = embedded.free_port(int(base.rstrip("/").rpartition(":")[2]) if base else SAMPLE_PORT)
    site = family.start([sys.executable, "-m", "scripts.sample_site", "--port", str(port), *_changes(settings)])
    _await_answer(port, stop)
    sample.write_url(settings, f"http://127.0.0.1:{port}")
    asyncio.run(_enrol_sample(settings, stop))
    done = threading.Event()
    watcher = threading.Thread(target=_watch_sample, args=(settings, family, site, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()


def _await_answer(port: int, stop: Stop) -> None:
    """The first poll should find it open; if it never opens, the feeds' health says so."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        stop.pause(0.05)


def _changes(settings: Settings) -> list[str]:
    seconds = settings.sample_change_seconds
    return ["--change-every", str(seconds)] if seconds else []


async def _wants_sample(settings: Settings, stop: Stop, patient: bool) -> bool:
    """Read the feed file, then look: is there any feed that is not the sample's?"""
    async with _subscriptions(settings, stop, patient) as (client, subscriptions):
        shared = client, Keys.of(settings), Ttls.of(settings)
        await SubscriptionSync(client, subscriptions, LinkStore(*shared), settings).refresh()
        wanted = all(category.startswith(SAMPLE_PREFIX) for category in await subscriptions.by_category())
    if not wanted:
        sample.remove_url(settings)
    return wanted


async def _enrol_sample(settings: Settings, stop: Stop) -> None:
    async with _subscriptions(settings, stop) as (_, subscriptions):
        await subscriptions.sync(SAMPLE_ORIGIN, sample_site.feeds(sample.read_url(settings)))


@contextlib.asynccontextmanager
async def _subscriptions(
    settings: Settings, stop: Stop, patient: bool = False
) -> AsyncIterator[tuple[connect.Client, Subscriptions]]:
    async with connect.open_store(settings) as client:
        give_up_seconds = None if patient else redis_health.ONCE_WAIT_SECONDS
        await redis_health.wait_for_server(client, settings, stop.sleep, give_up_seconds)
        yield client, Subscriptions(client, Keys.of(settings))


def _watch_sample(settings: Settings, family: Family, site: Process, done: threading.Event) -> None:
    """Close the site when the ingestor has let the sample step aside."""
    while not done.wait(WATCH_SECONDS):
        with contextlib.suppress(RedisError, OSError):  # the workers tell about a server that is gone
            if not asyncio.run(_has_sample(settings)):
                sample.remove_url(settings)
                family.end(site)
                log.info("👋 The sample site is closed")
                return


async def _has_sample(settings: Settings) -> bool:
    async with connect.open_store(settings) as client:
        return await Subscriptions(client, Keys.of(settings)).has_sample()
