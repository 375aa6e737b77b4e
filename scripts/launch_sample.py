"""The sample site of `./scripts/up`: started while there is no other feed, closed when the ingestor has removed it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator

from redis.exceptions import RedisError

import sample_site
from core.feeds.io import sample
from core.feeds.io.subscription_sync import SubscriptionSync
from core.feeds.io.subscriptions import SAMPLE_ORIGIN, SAMPLE_PREFIX, Subscriptions
from core.keys import Keys
from core.net.robots import Robots
from core.settings import Settings
from core.store import connect, embedded, redis_health
from scripts.launch_supervisor import Process, StopRequest, UpProcesses

log = logging.getLogger("sample")

SAMPLE_PORT = 8765
WATCH_SECONDS = 2.0
START_SECONDS = 10.0


@contextlib.contextmanager
def running(settings: Settings, processes: UpProcesses, stop: StopRequest, patient: bool) -> Iterator[None]:
    """Run the sample site as long as there is no other feed. Patient: wait for a server that does not answer."""
    if not asyncio.run(_wants_sample(settings, stop, patient)):
        yield
        return
    base = sample.ADDRESS.read(settings)
    port = embedded.free_port(int(base.rstrip("/").rpartition(":")[2]) if base else SAMPLE_PORT)
    seconds = settings.sample_change_seconds
    changes = ["--change-every", str(seconds)] if seconds else []
    command = [sys.executable, "-m", "scripts.sample_site", "--port", str(port), *changes]
    site = processes.start(command, stdout=subprocess.DEVNULL)
    if wait_until_open(port, stop):
        log.info("🗞️ Serving the sample site → http://127.0.0.1:%d/", port)
    sample.ADDRESS.write(settings, f"http://127.0.0.1:{port}")
    asyncio.run(_subscribe(settings, stop))
    done = threading.Event()
    threading.Thread(target=_close_when_removed, args=(settings, processes, site, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def wait_until_open(port: int, stop: StopRequest) -> bool:
    """Wait so that the first poll finds it open; if it never opens, the feeds' health shows it."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        stop.pause(0.05)
    return False


async def _wants_sample(settings: Settings, stop: StopRequest, patient: bool) -> bool:
    """Read the feed file, then look whether all feeds are the sample's."""
    async with _open_subscriptions(settings, stop, patient) as (client, subscriptions):
        await SubscriptionSync(client, subscriptions, settings).refresh()
        wanted = all(category.startswith(SAMPLE_PREFIX) for category in await subscriptions.by_category())
    if not wanted:
        sample.ADDRESS.remove(settings)
    return wanted


async def _subscribe(settings: Settings, stop: StopRequest) -> None:
    async with _open_subscriptions(settings, stop) as (client, subscriptions):
        base = sample.ADDRESS.read(settings)
        # After kill -9 of `up` the ingestor may have met the closed site, and would leave it alone for ten minutes.
        await Robots(client, Keys.of(settings), settings.user_agent).forget(base)
        await subscriptions.sync(SAMPLE_ORIGIN, sample_site.feeds(base))


@contextlib.asynccontextmanager
async def _open_subscriptions(
    settings: Settings, stop: StopRequest, patient: bool = False
) -> AsyncIterator[tuple[connect.Client, Subscriptions]]:
    async with connect.open_store(settings) as client:
        give_up_seconds = None if patient else redis_health.ONCE_WAIT_SECONDS
        await redis_health.wait_for_server(client, settings, stop.sleep, give_up_seconds)
        yield client, Subscriptions(client, Keys.of(settings))


def _close_when_removed(settings: Settings, processes: UpProcesses, site: Process, done: threading.Event) -> None:
    while not done.wait(WATCH_SECONDS):
        with contextlib.suppress(RedisError, OSError):  # the workers report a server that is gone
            if not asyncio.run(_has_sample(settings)):
                sample.ADDRESS.remove(settings)
                processes.end(site)
                log.info("👋 The sample site is closed")
                return


async def _has_sample(settings: Settings) -> bool:
    async with connect.open_store(settings) as client:
        return await Subscriptions(client, Keys.of(settings)).has_sample()
