"""A lock on a folder between processes; the kernel releases it when its holder ends, however that happens."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_PAUSE_SECONDS = 0.01


@contextlib.contextmanager
def held(folder: Path, patience_seconds: float) -> Iterator[None]:
    """Hold the lock of a folder. Blocks; raises OSError if there is no folder or another process keeps the lock."""
    descriptor = acquire(folder, patience_seconds)
    try:
        yield
    finally:
        os.close(descriptor)


def acquire(folder: Path, patience_seconds: float) -> int:
    """Take the lock and return its descriptor; closing that releases it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    end = time.monotonic() + patience_seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if time.monotonic() > end:
                    raise
            time.sleep(LOCK_PAUSE_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
