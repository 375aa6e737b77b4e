"""Was this process asked to stop? For jobs that run in the worker's own process and cannot have its signals."""

from __future__ import annotations

import threading

_stop = threading.Event()


def request() -> None:
    """Somebody asked."""
    _stop.set()


def is_requested() -> bool:
    """Should a job come to its end?"""
    return _stop.is_set()
