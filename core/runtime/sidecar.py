"""A second process beside a worker: restarted when it dies, and never left behind.

The worker checks it from its own loop: a thread would be copied into every fork. The second process is tied to the
first: on Linux the kernel tells it of that one's death, elsewhere it looks itself.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Self

log = logging.getLogger("queue")

STOP_SECONDS = 4.0
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0
"""Also how long a process has to live for the delays to begin again."""
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


class RestartBackoff:
    """When a process that died is started again: after 1 s, then 2 s, … at most 60 s."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started_at = self._due_at = clock()
        self.delay_seconds = FIRST_DELAY_SECONDS

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._due_at

    def note_start(self) -> None:
        self._started_at = self._clock()

    def note_end(self) -> float:
        """Plan the next start; return in how many seconds."""
        now = self._clock()
        if now - self._started_at >= LONGEST_DELAY_SECONDS:
            self.delay_seconds = FIRST_DELAY_SECONDS
        delay_seconds = self.delay_seconds
        self._due_at = now + delay_seconds
        self.delay_seconds = min(delay_seconds * 2, LONGEST_DELAY_SECONDS)
        return delay_seconds


class Sidecar:
    """Runs a command as long as the `with` lasts."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._backoff = RestartBackoff(clock)

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def check(self) -> None:
        """Start it if it is time to; log that it has died."""
        if self._process is not None and self._process.poll() is not None:
            cause, delay_seconds = describe_exit(self._process.returncode), self._backoff.note_end()
            log.error(
                "💥 The process for %s died (%s); started again in %.0f s", self._command[-1], cause, delay_seconds
            )
            self._process = None
        if self._process is None and self._backoff.is_due:
            self._backoff.note_start()
            self._process = subprocess.Popen(self._command)  # noqa: S603 - our own words, no shell


def describe_exit(code: int) -> str:
    """Return `signal 9` or `exit 2` for the return code of a process."""
    return f"signal {-code}" if code < 0 else f"exit {code}"


def stop_with_parent(parent: int) -> None:
    """Let this process get SIGTERM when its parent dies, even by kill -9 (Linux; see `stop_if_orphaned`)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    stop_if_orphaned(parent)


def stop_if_orphaned(parent: int) -> None:
    """Stop if the parent is dead: where the kernel does not tell, and for a death before `stop_with_parent`."""
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
