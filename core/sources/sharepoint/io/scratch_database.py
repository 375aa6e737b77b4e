"""Databases for one pass, on the disk instead of in memory, that no kill leaves behind."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

CACHE_KIB = 2_048
PAGE_ROWS = 500
"""Rows that are held at once."""
_SUFFIX = ".scratch"


class ScratchDatabase:
    """The base of tables for one pass: a context manager, safe to use from several threads. Blocks, like all of SQLite.

    A query returns at most a page of rows as a list, so a table may be changed while it is read.
    """

    SCHEMA: ClassVar[tuple[str, ...]]
    """The statements that make the tables."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where the scratch file is while this is open."""
        self._lock = threading.Lock()
        self._database = _open_scratch(folder)
        for statement in self.SCHEMA:
            self._database.execute(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _ask(self, query: str, *values: bytes | int | str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def _write_all(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement for each row, a page of them at a time."""
        remaining = iter(rows)
        while batch := list(islice(remaining, PAGE_ROWS)):
            with self._lock:
                self._database.executemany(statement, batch)


def as_key(text: str) -> bytes:
    """Return text as a key that sorts as the text does; SQLite's own text has no half characters."""
    return text.encode("utf-8", "surrogatepass")


def _open_scratch(folder: Path) -> sqlite3.Connection:
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


class SeenIds:
    """A set of texts, each with a number, that needs the same memory for ten as for a million."""

    def __init__(self) -> None:
        # An empty name is a file of SQLite's own that goes away by itself. A listing may wander between threads.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID")

    def add(self, one: str, number: int = 0) -> bool:
        """Add an id; False if it was there, and has the number that it had."""
        return self._database.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (one, number)).rowcount == 1

    def number_of(self, one: str) -> int | None:
        """Return the number of an id, None if it was not added."""
        found = self._database.execute("SELECT number FROM seen WHERE id = ?", (one,)).fetchone()
        return int(found[0]) if found else None

    def __contains__(self, one: str) -> bool:
        return self.number_of(one) is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()
