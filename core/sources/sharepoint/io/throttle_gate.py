"""One gate for each server: when it asks to wait, every thread and every site of this process waits."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from core.sources.sharepoint.remote_items import SharePointStopped

LONGEST_WAIT_SECONDS = 600.0
"""A server may ask for more; then it is asked again after this, and says so again."""
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 60.0
_LOOK_SECONDS = 0.2
"""How often a wait looks whether it should stop."""

ShouldStop = Callable[[], bool]


class ThrottleGate:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opens_at = 0.0

    def close_for(self, seconds: float) -> None:
        """Close it for `seconds`, unless it is closed for longer already."""
        opens_at = time.monotonic() + min(seconds, LONGEST_WAIT_SECONDS)
        with self._lock:
            self._opens_at = max(self._opens_at, opens_at)

    def closed_seconds(self) -> float:
        return max(self._opens_at - time.monotonic(), 0.0)

    def wait(self, should_stop: ShouldStop) -> None:
        """Return when it is open; raise `SharePointStopped` if the run is stopped meanwhile."""
        while True:
            if should_stop():
                raise SharePointStopped
            left = self.closed_seconds()
            if not left:
                return
            time.sleep(min(left, _LOOK_SECONDS))


def backoff_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row; never the same for two threads."""
    most = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 20), LONGEST_BACKOFF_SECONDS)
    return most * random.uniform(0.5, 1.0)


_gates: dict[str, ThrottleGate] = {}
_gates_lock = threading.Lock()


def gate_of(origin: str) -> ThrottleGate:
    """Return the gate of a server; all sites on it share one."""
    with _gates_lock:
        return _gates.setdefault(origin, ThrottleGate())
