"""The ids that a listing has brought already; on disk, since a library may have a million of them."""

from __future__ import annotations

import sqlite3
from types import TracebackType
from typing import Self


class SeenIds:
    """A set of texts that needs the same memory for ten as for a million."""

    def __init__(self) -> None:
        # An empty name is a file of SQLite's own that goes away by itself. A listing may wander between threads.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID")

    def add(self, one: str) -> bool:
        """Add an id; False if it was there."""
        return self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (one,)).rowcount == 1

    def __contains__(self, one: str) -> bool:
        return self._database.execute("SELECT 1 FROM seen WHERE id = ?", (one,)).fetchone() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()
