"""A database for one pass, on the disk instead of in memory, that no kill leaves behind."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path

CACHE_KIB = 2_048
PAGE_ROWS = 500
"""Rows that are held at once."""
_SUFFIX = ".scratch"


def open_scratch(folder: Path) -> sqlite3.Connection:
    """Open an empty database in a folder. Its file has no name any more: it goes when the database is closed."""
    for left in folder.glob(f".*{_SUFFIX}"):
        left.unlink(missing_ok=True)  # of a kill; who is just opening one needs its name no more, or makes it anew
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
        path.unlink(missing_ok=True)
    return database


def as_key(text: str) -> bytes:
    """Return text as a key that sorts as the text does; SQLite's own text has no half characters."""
    return text.encode("utf-8", "surrogatepass")
