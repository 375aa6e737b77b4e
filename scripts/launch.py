"""Start everything: the embedded server, the sample site while there are no other feeds, the Procfile.

Called by `./scripts/up`, which has set up the environment. Whatever is started here ends with it, the server last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import redis as sync_redis
from redis.exceptions import RedisError

import sample_site
from core.console import log as console
from core.errors import FreshetError
from core.keys import Keys
from core.settings import Settings, load
from core.sources import sample
from core.stores import connect, embedded
from core.stores.links import LinkStore, Lives
from core.stores.roster import Roster
from core.stores.subscriptions import SAMPLE_ORIGIN, SAMPLE_PREFIX, Subscriptions

log = logging.getLogger("up")

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_PORT = 8765
WATCH_SECONDS = 2.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./scripts/up", description="Start Freshet.")
    parser.add_argument("--once", action="store_true", help="one full pass to quiet, then a summary")
    once = parser.parse_args().once
    # Ours, so that asyncio.run does not put its own in place, which may lose a Ctrl-C at the end of a coroutine.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        settings = load()
        console.set_up(settings)
        settings.persistent_storage_path.mkdir(parents=True, exist_ok=True)
        return _run(settings, once)
    except FreshetError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _run(settings: Settings, once: bool) -> int:
    with _ownership(settings) as is_owner:
        if not is_owner and not once:
            print(
                f"Freshet is already running on {settings.persistent_storage_path}. Stop it there first, "
                "or set PERSISTENT_STORAGE_PATH to another folder.",
                file=sys.stderr,
            )
            return 2
        with _server(settings, is_owner), _sample(settings, is_owner):
            return _one_pass() if once else _procfile()


@contextlib.contextmanager
def _ownership(settings: Settings) -> Iterator[bool]:
    """Are we the one `up` of this folder? The lock goes with the process, also when it is killed."""
    with (settings.persistent_storage_path / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


# ── the server ──


@contextlib.contextmanager
def _server(settings: Settings, is_owner: bool) -> Iterator[None]:
    """An embedded server, unless REDIS_URL names one or a running `up` has started it."""
    if settings.redis_url or not is_owner:
        yield
        return
    folder = settings.persistent_storage_path / "redis"
    _stop_orphan(settings, folder)
    server = embedded.start(folder, embedded.free_port(settings.embedded_redis_port))
    connect.write_url(settings.persistent_storage_path, server.url)
    log.info("🟥 Embedded Redis on 127.0.0.1:%d, data in %s → redis-cli -p %d", server.port, folder, server.port)
    try:
        yield
    finally:
        server.stop()
        log.info("🟥 Embedded Redis stopped, everything is on disk")


def _stop_orphan(settings: Settings, folder: Path) -> None:
    """A server of ours that outlived a killed `up` holds the data files; it must end before the next one starts."""
    url = connect.url_of(settings)
    with contextlib.suppress(RedisError, OSError), sync_redis.Redis.from_url(url, decode_responses=True) as client:
        if client.config_get("dir")["dir"] == str(folder.resolve()):
            client.shutdown(nosave=True)  # returns when the server has closed the connection


# ── the sample site ──


@contextlib.contextmanager
def _sample(settings: Settings, is_owner: bool) -> Iterator[None]:
    """The sample site, as long as there is no other feed."""
    if not is_owner or not asyncio.run(_wants_sample(settings)):
        yield
        return
    base = sample.read_url(settings)
    port = embedded.free_port(int(base.rstrip("/").rpartition(":")[2]) if base else SAMPLE_PORT)
    site = subprocess.Popen(
        [sys.executable, "-m", "scripts.sample_site", "--port", str(port), *_changes(settings)],
        cwd=ROOT,
        start_new_session=True,
    )
    sample.write_url(settings, f"http://127.0.0.1:{port}")
    asyncio.run(_enrol_sample(settings))
    done = threading.Event()
    watcher = threading.Thread(target=_watch_sample, args=(settings, site, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        _end(site)


def _changes(settings: Settings) -> list[str]:
    seconds = settings.sample_change_seconds
    return ["--change-every", str(seconds)] if seconds else []


async def _wants_sample(settings: Settings) -> bool:
    """Read the feed file, then look: is there any feed that is not the sample's?"""
    async with _subscriptions(settings) as (client, subscriptions):
        links = LinkStore(client, Keys(settings.key_prefix), Lives.of(settings))
        await Roster(client, subscriptions, links, settings).refresh()
        wanted = all(category.startswith(SAMPLE_PREFIX) for category in await subscriptions.by_category())
    if not wanted:
        sample.remove_url(settings)
    return wanted


async def _enrol_sample(settings: Settings) -> None:
    async with _subscriptions(settings) as (_, subscriptions):
        await subscriptions.sync(SAMPLE_ORIGIN, sample_site.feeds(sample.read_url(settings)))


@contextlib.asynccontextmanager
async def _subscriptions(settings: Settings):
    client = connect.open_store(settings)
    try:
        await connect.require(client, settings)
        yield client, Subscriptions(client, Keys(settings.key_prefix))
    finally:
        await client.aclose()


def _watch_sample(settings: Settings, site: subprocess.Popen[bytes], done: threading.Event) -> None:
    """Close the site when the ingestor has let the sample step aside."""
    keys = Keys(settings.key_prefix)
    with connect.open_queue(settings) as client:
        while not done.wait(WATCH_SECONDS):
            with contextlib.suppress(RedisError, OSError):  # the workers tell about a server that is gone
                if not any(c.decode().startswith(SAMPLE_PREFIX) for c in client.smembers(keys.categories)):
                    sample.remove_url(settings)
                    _end(site)
                    log.info("👋 The sample site is closed")
                    return


# ── the work ──


def _one_pass() -> int:
    """Every stage once, in the order of the pipeline, then the summary."""
    for stage in (["workers.ingestor", "--once"], ["scripts.status"]):
        code = subprocess.run([sys.executable, "-m", *stage], cwd=ROOT, check=False).returncode
        if code:
            return code
    return 0


def _procfile() -> int:
    """honcho, until Ctrl-C; then it ends the workers, and we wait for it before the server goes."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    stops: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stops.append(number))
    honcho = subprocess.Popen([sys.executable, "-m", "honcho", "start"], cwd=ROOT, env=environment)
    while honcho.poll() is None:
        if stops:
            honcho.terminate()
            honcho.wait()
        time.sleep(POLL_SECONDS)
    return 0 if stops else honcho.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
