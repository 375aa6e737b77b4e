"""Start everything: the embedded server, the sample site while there are no other feeds, the Procfile.

Called by `./scripts/up`, which has set up the environment. Whatever is started here ends with it, however that ends:
workers first, the server last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import queue
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import IO

from core.errors import FreshetError, SettingsError
from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.store_counts import StoreCounts
from core.runtime import logs
from core.runtime.queue_names import QueueName
from core.runtime.sidecar import describe_exit
from core.runtime.terminal import echo
from core.settings import Settings, load
from core.store import connect, private_files
from core.value_class import value_class
from scripts import guard, launch_sample, launch_sharepoint
from scripts.launch_server import SupervisedServer
from scripts.launch_supervisor import ROOT, Process, Stopped, StopRequest, UpProcesses

log = logging.getLogger("up")

FAILED = 2
LOCK = "up.lock"
LOG_SECONDS = 2.0
"""How long the last lines may take to be written."""
CLEANUP_SECONDS = 30.0
"""How long the processes of a killed `up` may take to end."""
MOST_RUNS = 6
RESTARTED = ("web", "webhooks")
"""Processes that are started again when they end; the end of any other is the end of all."""
RESTART_SECONDS = 2.0
PROCFILE_LINE = re.compile(r"([A-Za-z0-9_-]+):\s*(.+)")


def main() -> int:
    """Parse the command line and run until the end or a signal."""
    parser = argparse.ArgumentParser(prog="./scripts/up", description="Start Freshet.")
    parser.add_argument("--once", action="store_true", help="one full pass to quiet, then a summary")
    parser.add_argument("--sample-sharepoint", action="store_true", help="with a SharePoint on this machine to look at")
    options = parser.parse_args()
    os.umask(0o077)
    stop = StopRequest()
    stop.listen()
    try:
        settings = load()
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return FAILED
    logs.configure(settings)
    os.environ.update(logs.reported_environment())
    records = _log_in_background()
    try:
        code = _run(settings, stop, options.once, options.sample_sharepoint)
    except FreshetError as error:
        echo(error, file=sys.stderr)
        code = FAILED
    except Stopped:
        code = 0
    if not _is_written(records, LOG_SECONDS):
        os._exit(code)  # the log waits for its reader, and Python would wait for the log
    return code


def _log_in_background() -> queue.Queue[logging.LogRecord]:
    """Write log lines in a thread: a reader that blocks must not keep `up` from ending."""
    records: queue.Queue[logging.LogRecord] = queue.Queue()
    root = logging.getLogger()
    QueueListener(records, *root.handlers).start()
    root.handlers[:] = [QueueHandler(records)]
    return records


def _is_written(records: queue.Queue[logging.LogRecord], within_seconds: float) -> bool:
    """Wait until everything is written; False if it is not read."""
    deadline = time.monotonic() + within_seconds
    while records.unfinished_tasks and time.monotonic() < deadline:
        time.sleep(0.02)
    return not records.unfinished_tasks


def _run(settings: Settings, stop: StopRequest, once: bool, with_sharepoint: bool) -> int:
    folder = settings.persistent_storage_path
    try:
        is_private = private_files.make_folder(folder)
    except OSError as error:
        raise SettingsError(f"Cannot start. PERSISTENT_STORAGE_PATH: {folder}: {error.strerror}.") from None
    if not is_private:
        log.warning("🚨 Other users can look into %s. Set PERSISTENT_STORAGE_PATH to a folder of your own.", folder)
    with _ownership(folder / LOCK, stop) as (lock, is_owner), contextlib.ExitStack() as services:
        if not is_owner and (not once or with_sharepoint):
            raise SettingsError(_refusal(folder))
        processes = services.enter_context(UpProcesses(lock, stop))
        check_server: Callable[[], None] = lambda: None  # noqa: E731
        if is_owner and not settings.redis_url:
            check_server = services.enter_context(SupervisedServer(settings, processes, stop)).check
        if is_owner:
            services.enter_context(launch_sample.running(settings, processes, stop, patient=not once))
            services.enter_context(
                launch_sharepoint.running(settings, processes, stop, is_wanted=with_sharepoint, is_patient=not once)
            )
        work = _Work(settings, processes, stop, check_server)
        return work.one_pass() if once else work.run_procfile()


# ── one `up` for each folder ──


@contextlib.contextmanager
def _ownership(path: Path, stop: StopRequest) -> Iterator[tuple[int, bool]]:
    """Yield the lock, and whether this is the only `up` of the folder. It goes with the process, guard and keepers."""
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
    """Return whether the process that wrote its number into the lock is alive. One that has not yet written it does."""
    number = path.read_text() or str(os.getpid())
    return number.isdecimal() and guard.is_running(int(number))


def _refusal(folder: Path) -> str:
    other = "or set PERSISTENT_STORAGE_PATH to another folder."
    if _is_alive(folder / LOCK):
        return f"Freshet is already running on {folder}. Stop it there first, {other}"
    return f"An earlier ./scripts/up on {folder} was killed, and some of its processes do not end. Kill them, {other}"


# ── the Procfile until Ctrl-C, or one pass of every stage ──


@value_class
class _Work:
    settings: Settings
    processes: UpProcesses
    stop: StopRequest
    check_server: Callable[[], None]

    def run_procfile(self) -> int:
        """Run the processes of the Procfile until Ctrl-C, or until one of them ends; some are started again."""
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        commands = dict(PROCFILE_LINE.findall((ROOT / "Procfile").read_text(encoding="utf-8")))
        width = max(map(len, commands))
        running: dict[str, Process] = {}

        def start(name: str) -> None:
            running[name] = self.processes.start(["/bin/sh", "-c", commands[name]], environment, subprocess.PIPE)
            self.processes.relay(name, width, running[name])

        try:
            for name in commands:
                start(name)
            name, code = self.processes.watch(running, self.check_server)
            while name in RESTARTED and code != FAILED:
                log.error("💥 %s ended (%s); it is started again, all else goes on", name, describe_exit(code))
                self.stop.pause(RESTART_SECONDS)
                start(name)
                name, code = self.processes.watch(running, self.check_server)
        except Stopped:
            log.info("👋 Stopping")
            self.processes.end_all(guard.WORKER)
            raise
        log.error("💥 %s ended (%s); everything else is stopped", name, describe_exit(code))
        return code if code > 0 else 1

    def one_pass(self) -> int:
        """Run every stage once, in the order of the pipeline, then the summary; stop at the first exit code but 0."""
        return (
            self._run("workers.ingestor", "--once")
            or self._fetch()
            or self._refresh()
            or self._run("workers.webhooks", "--once")
            or self._run("scripts.status")
        )

    def _fetch(self) -> int:
        """Run the canonical fetcher until it leaves nothing: it stops when its time is over."""
        for _ in range(MOST_RUNS):
            code = self._run("workers.canonical_fetcher")
            if code or not asyncio.run(self._count_deferred()):
                return code
        return 0

    def _refresh(self) -> int:
        """Enqueue jobs for what is due and run a worker for them, until nothing is due."""
        for _ in range(MOST_RUNS):
            if not asyncio.run(self._count_due()):
                return 0
            code = self._run("workers.timer", "--once") or self._run("workers", *QueueName, "--burst")
            if code:
                return code
        return 0

    def _run(self, *words: str) -> int:
        return self.processes.watch({"": self.processes.start([sys.executable, "-m", *words])}, self.check_server)[1]

    async def _count_deferred(self) -> int:
        keys = Keys.of(self.settings)
        async with connect.open_store(self.settings) as client:
            last_run = await StoreCounts(client, keys).counters(keys.canonical_last_run)
        return field_parsing.integer(last_run.get("deferred"))

    async def _count_due(self) -> int:
        async with connect.open_store(self.settings) as client:
            return await StoreCounts(client, Keys.of(self.settings)).count_due()


if __name__ == "__main__":
    sys.exit(main())
