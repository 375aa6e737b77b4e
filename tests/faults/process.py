"""The real thing: `python -m workers.…` as a process of its own, to be killed, stopped and watched."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil

from tests import prefork

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0


async def until(
    is_so: Callable[[], bool], otherwise: Callable[[], str] = str, seconds: float = PATIENCE_SECONDS
) -> None:
    """Wait until it is so; after a minute of patience fail and tell why."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, otherwise()
        await asyncio.sleep(0.01)


class Worker:
    """A worker process. Use as a context manager: whatever happens, it is dead at the end."""

    def __init__(self, folder: Path, redis_url: str, *command: str, **environment: str) -> None:
        """`command` is what follows `python -m`; `environment` is added to settings that suit loopback."""
        self._log = folder / f"{command[0]}-{time.monotonic_ns()}.log"
        self._command = command
        self._folder = folder
        # Not the checkout as working folder: a developer's .env must not reach a test.
        self._environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ} | {
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": redis_url,
            "PERSISTENT_STORAGE_PATH": str(folder),
            "FOLDER_ROOTS": str(folder),
            "FEEDS_FILE": str(folder / "feeds.toml"),
            "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
            "FETCH_HOST_GAP_SECONDS": "0",
            "FETCH_TIMEOUT_SECONDS": "5",
            **environment,
        }

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self.process = prefork.start(self._command, self._folder, self._environment, log, log)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def lines(self, part: str) -> list[str]:
        """Log lines that contain this."""
        return [line for line in self.log.splitlines() if part in line]

    @property
    def tracebacks(self) -> list[str]:
        """Every log entry with a traceback."""
        entries = re.split(r"^(?=\d{4}-\d\d-\d\d |\w+ exception was never)", self.log, flags=re.M)
        return [text for text in entries if "Traceback" in text]

    def children(self) -> list[psutil.Process]:
        """Its parse children, dead ones that nobody has buried included."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until it is so; fail with the log if it never is, or if the process ends before."""

        def is_so_or_dead() -> bool:
            return is_so() or not self.is_alive

        await until(is_so_or_dead, lambda: self.log)
        assert is_so(), self.log

    async def ended(self) -> int:
        """Wait for its end; the exit code."""
        await until(lambda: not self.is_alive, lambda: self.log)
        return int(self.process.returncode)

    async def stopped(self) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def kill(self) -> None:
        """kill -9, and wait for the kernel."""
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def paused(self) -> None:
        """SIGSTOP, and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        await until(lambda: psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


def is_dead(process: psutil.Process) -> bool:
    """Gone, or waiting for a burial that is not its parent's fault (its parent was killed)."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
