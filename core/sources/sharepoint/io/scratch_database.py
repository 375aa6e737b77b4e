"""A database for one pass, on the disk instead of in memory, that no kill leaves behind."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from pathlib import Path

CACHE_KIB = 2_048
PAGE_ROWS = 500
"""Rows that are held at once."""
LEFT_SECONDS = 600.0
"""A file with a name exists for a moment only; one as old as this was left by a kill in that moment."""
_SUFFIX = ".scratch"


def open_scratch(folder: Path) -> sqlite3.Connection:
    """Open an empty database in a folder. Its file has no name any more: it goes when the database is closed."""
    descriptor, name = tempfile.mkstemp(_SUFFIX, ".", folder)
    os.close(descriptor)
    path = Path(name)
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # No journal, which would be opened by its name, and no commit: nothing here is worth keeping.
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
            database.execute(f"PRAGMA {pragma}")
        database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        database.execute("BEGIN EXCLUSIVE")
    finally:
        path.unlink()
    return database


def remove_left(folder: Path) -> None:
    """Remove the files that kills left in a folder."""
    for left in folder.glob(f".*{_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.lstat().st_mtime > LEFT_SECONDS:
                left.unlink()


def as_key(text: str) -> bytes:
    """Return text as a key that sorts as the text does; SQLite's own text has no half characters."""
    return text.encode("utf-8", "surrogatepass")
