"""Start everything: the embedded server, the sample site while there are no other feeds, the Procfile.

Called by `./scripts/up`, which has set up the environment. Whatever is started here ends with it, however that ends:
workers first, the server last.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from core.errors import FreshetError, SettingsError
from core.runtime import logs
from core.runtime.terminal import echo
from core.settings import Settings, load
from core.store import private_files
from scripts import launch_sample, launch_work, process_tree
from scripts.launch_family import Family
from scripts.launch_log import BackgroundLog
from scripts.launch_server import Server
from scripts.launch_stop import Stop, Stopped

log = logging.getLogger("up")

FAILED = 2
LOCK = "up.lock"
LOG_SECONDS = 2.0
"""How long the last lines may take to be written."""
CLEANUP_SECONDS = 30.0
"""How long the processes of a killed `up` may take to end."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./scripts/up", description="Start Freshet.")
    parser.add_argument("--once", action="store_true", help="one full pass to quiet, then a summary")
    once = parser.parse_args().once
    os.umask(0o077)
    stop = Stop()
    stop.listen()
    try:
        settings = load()
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return FAILED
    logs.configure(settings)
    os.environ.update(logs.reported_environment())
    log_lines = BackgroundLog()
    code = _try(settings, stop, once)
    if not log_lines.is_written(LOG_SECONDS):
        os._exit(code)  # the log waits for its reader, and Python would wait for the log
    return code


def _try(settings: Settings, stop: Stop, once: bool) -> int:
    try:
        _make_folder(settings.persistent_storage_path)
        return _run(settings, stop, once)
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return FAILED
    except Stopped:
        return 0


def _make_folder(path: Path) -> None:
    try:
        is_private = private_files.make_folder(path)
    except OSError as error:
        raise SettingsError(f"Cannot start. PERSISTENT_STORAGE_PATH: {path}: {error.strerror}.") from None
    if not is_private:
        log.warning("🚨 Other users can look into %s. Set PERSISTENT_STORAGE_PATH to a folder of your own.", path)


def _run(settings: Settings, stop: Stop, once: bool) -> int:
    with _ownership(settings.persistent_storage_path / LOCK, stop) as (lock, is_owner):
        if not is_owner and not once:
            echo(_refusal(settings.persistent_storage_path), file=sys.stderr)
            return FAILED
        with Family(lock) as family, _server(settings, family, stop, is_owner) as look_at_server:
            up = launch_work.Up(settings, family, stop, look_at_server)
            with launch_sample.running(settings, family, stop, is_owner, patient=not once):
                return launch_work.one_pass(up) if once else launch_work.run_procfile(up)


def _refusal(folder: Path) -> str:
    other = "or set PERSISTENT_STORAGE_PATH to another folder."
    if _is_alive(folder / LOCK):
        return f"Freshet is already running on {folder}. Stop it there first, {other}"
    return f"An earlier ./scripts/up on {folder} was killed, and some of its processes do not end. Kill them, {other}"


@contextlib.contextmanager
def _ownership(path: Path, stop: Stop) -> Iterator[tuple[int, bool]]:
    """Are we the one `up` of this folder? The lock goes with the process, its guard and its keepers."""
    with path.open("a+") as lock:
        deadline = time.monotonic() + CLEANUP_SECONDS
        is_owner = _try_lock(lock)
        if not is_owner and not _is_alive(path):
            log.warning("⏳ An earlier ./scripts/up was killed; waiting until its processes have ended")
        while not is_owner and not _is_alive(path) and time.monotonic() < deadline:
            stop.pause()
            is_owner = _try_lock(lock)
        if is_owner:
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
        yield lock.fileno(), is_owner


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(path: Path) -> bool:
    """Does the process live that wrote its number into the lock? One that has not yet written it does."""
    number = path.read_text() or str(os.getpid())
    return number.isdecimal() and process_tree.is_running(int(number))


@contextlib.contextmanager
def _server(settings: Settings, family: Family, stop: Stop, is_owner: bool) -> Iterator[Callable[[], None]]:
    """An embedded server, unless REDIS_URL names one or a running `up` has started it."""
    if settings.redis_url or not is_owner:
        yield lambda: None
        return
    with Server(settings, family, stop) as server:
        yield server.look


if __name__ == "__main__":
    sys.exit(main())
