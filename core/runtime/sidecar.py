"""A second process beside a worker: started again when it dies, and never left behind.

The worker looks after it from its own loop: a thread would be copied into every fork. The second process is tied to
the first: on Linux the kernel tells it of that one's death, elsewhere it looks itself.
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
"""Also how long one has to live for the delays to begin anew."""
PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


class Sidecar:
    """Runs a command as long as the `with` lasts."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._command = command
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = self._due_at = clock()
        self._delay = FIRST_DELAY_SECONDS

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
        """Start it if it is time to; say so if it has died."""
        now = self._clock()
        if self._process is not None and self._process.poll() is not None:
            self._plan(self._process.returncode, now)
        if self._process is None and now >= self._due_at:
            self._started_at = now
            self._process = subprocess.Popen(self._command)  # noqa: S603 - our own words, no shell

    def _plan(self, code: int, now: float) -> None:
        if now - self._started_at >= LONGEST_DELAY_SECONDS:
            self._delay = FIRST_DELAY_SECONDS
        cause = f"signal {-code}" if code < 0 else f"exit {code}"
        log.error("💥 The process for %s died (%s); started again in %.0f s", self._command[-1], cause, self._delay)
        self._process, self._due_at = None, now + self._delay
        self._delay = min(self._delay * 2, LONGEST_DELAY_SECONDS)


def stop_with_parent(parent: int) -> None:
    """From now on this process is told to stop when its parent dies, be it by kill -9 (Linux; see `end_with`)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    stop_if_orphaned(parent)


def stop_if_orphaned(parent: int) -> None:
    """Stop if the parent is dead: for systems whose kernel does not tell, and for a death before `tie`."""
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
