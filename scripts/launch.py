"""Start everything: the embedded server, the sample site while there are no other feeds, the Procfile.

Called by `./scripts/up`, which has set up the environment. Whatever is started here ends with it, the server last.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import redis as sync_redis
from redis.exceptions import RedisError

from core.console import log as console
from core.console.terminal import say
from core.errors import FreshetError, SettingsError
from core.keys import Keys
from core.queues.names import QueueName
from core.registry import ARTICLES_SOURCE, URLS_SOURCE
from core.settings import Settings, load
from core.stores import connect, embedded
from scripts import launch_sample, tied

log = logging.getLogger("up")

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_PORT = 8765
WATCH_SECONDS = 2.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
MOST_RUNS = 6
BUILT_IN = (ARTICLES_SOURCE, URLS_SOURCE)


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
        _make_folder(settings.persistent_storage_path)
        return _run(settings, once)
    except FreshetError as error:
        say(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"Cannot start. PERSISTENT_STORAGE_PATH: {path}: {error.strerror}.") from None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _run(settings: Settings, once: bool) -> int:
    with _ownership(settings) as is_owner:
        if not is_owner and not once:
            say(
                f"Freshet is already running on {settings.persistent_storage_path}. Stop it there first, "
                "or set PERSISTENT_STORAGE_PATH to another folder.",
                file=sys.stderr,
            )
            return 2
        with _server(settings, is_owner), launch_sample.running(settings, is_owner, patient=not once):
            return _one_pass(settings) if once else _procfile()


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


# ── the work ──


def _one_pass(settings: Settings) -> int:
    """Every stage once, in the order of the pipeline, then the summary."""
    stages = (_poll, _fetch, _refresh, lambda _: _run_module("scripts.status"))
    return next((code for code in (stage(settings) for stage in stages) if code), 0)


def _run_module(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, check=False).returncode


def _poll(settings: Settings) -> int:
    return _run_module("workers.ingestor", "--once")


def _fetch(settings: Settings) -> int:
    """The canonical fetcher stops when its time is over, so it is called until it leaves nothing."""
    for _ in range(MOST_RUNS):
        code = _run_module("workers.canonical_fetcher")
        if code or not _deferred(settings):
            return code
    return 0


def _refresh(settings: Settings) -> int:
    """Jobs for what is due, and a worker that runs them; again until nothing is due."""
    for _ in range(MOST_RUNS):
        if not _due(settings):
            return 0
        code = _run_module("workers.timer", "--once") or _run_module("workers", *QueueName, "--burst")
        if code:
            return code
    return 0


def _deferred(settings: Settings) -> int:
    with connect.open_bytes(settings, connect.url_of(settings)) as client:
        return int(client.hget(Keys.of(settings).canonical_last_run, "deferred") or 0)


def _due(settings: Settings) -> int:
    """Items and sources whose time has come, and texts that search does not know."""
    keys = Keys.of(settings)
    with connect.open_bytes(settings, connect.url_of(settings)) as client:
        sources = [*BUILT_IN, *(sid.decode() for sid in client.smembers(keys.sources))]
        places = [keys.sources_due, *map(keys.due, sources)]
        unknown = 0 if client.exists(keys.embed_away) else int(client.zcard(keys.embed_due))
        return unknown + sum(int(client.zcount(place, "-inf", time.time())) for place in places)


def _procfile() -> int:
    """honcho, until Ctrl-C; then it ends the workers, and we wait for it before the server goes."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    stops: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stops.append(number))
    honcho = subprocess.Popen(tied.command(sys.executable, "-m", "honcho", "start"), cwd=ROOT, env=environment)
    while honcho.poll() is None:
        if stops:
            honcho.terminate()
            honcho.wait()
        time.sleep(POLL_SECONDS)
    return 0 if stops else honcho.returncode


if __name__ == "__main__":
    sys.exit(main())
