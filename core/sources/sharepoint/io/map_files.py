"""The map files on the disk: rows are appended as items are done, and at the end the file is written anew, in order.

A kill loses at most the rows that were not flushed, never one that was. Every write is made under a lock on the folder
and to the file that has the name at that moment, so that two processes lose none of each other's rows. Blocks: to be
called in threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Generic, Self

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.map_row_table import RowTable, order_of
from core.sources.sharepoint.io.scratch_database import SeenIds
from core.sources.sharepoint.io.shared_files import append_rows, open_regular, patiently, whole_rows
from core.sources.sharepoint.map_csv import MapFileDamaged, Row, decode, encode_header, encode_row, has_exact_header
from core.store import folder_lock, private_files

LOCK_SECONDS = 120.0

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def read_rows(path: Path, row_class: type[Row]) -> Generator[Row, None, None]:
    """Yield the rows of a map file in order, one for each item. Raises MapFileDamaged, FileNotFoundError."""
    with RowTable(path.parent, row_class) as table:
        load(path, table, row_class)
        yield from table


def load(path: Path, table: RowTable[Row], row_class: type[Row]) -> None:
    """Fill a table with the rows of a map file. Raises MapFileDamaged, FileNotFoundError; the table is empty then."""

    def fill() -> None:
        table.clear()
        with open_regular(path, os.O_RDONLY) as file:
            table.add_all(decode(file, row_class))

    try:
        patiently(fill)
    except (MapFileDamaged, OSError):
        table.clear()
        raise


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def rewrite(path: Path, row_class: type[Row], rows: Iterable[Row]) -> None:
    """Write a map file anew, whole or not at all: one row for each item, in order. The lock is held for all of it."""
    with folder_lock.held(path.parent, LOCK_SECONDS):
        _rewrite(path, row_class, rows)


class MapFileWriter(Generic[Row]):
    """Appends rows to a map file. Use it as a context manager: what was appended is in the file at the end."""

    def __init__(
        self, path: Path, row_class: type[Row], every_lines: int = CFG.APPEND_TO_MAP_FILES_EVERY_X_LINES
    ) -> None:
        self._path = path
        self._row_class = row_class
        self._every_lines = every_lines
        self._waiting: list[bytes] = []
        self._lock = threading.Lock()
        self._has_appended = False
        self._size = -1
        """Bytes of the file after our last write; others may have written since."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def start(self, rows: Iterable[Row] | None = None) -> None:
        """Begin: write the header and these rows; without rows, keep what the file has.

        A file that is missing or damaged begins anew, with its header. The first reader can warn about it.
        """
        with self._lock, folder_lock.held(self._path.parent, LOCK_SECONDS):
            if rows is not None:
                _rewrite(self._path, self._row_class, rows)
            elif not _is_appendable(self._path, self._row_class):
                self._compact(lambda _: True)

    def append(self, row: Row) -> None:
        """Take a row; the first is in the file at once, others with the next flush."""
        with self._lock:
            self._waiting.append(encode_row(row).encode())
            if not self._has_appended or len(self._waiting) >= self._every_lines:
                self._flush()

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def finish(self, is_kept: Callable[[Row], bool] = lambda _: True) -> None:
        """Put the last rows into the file, then write it anew: one row for each item that is kept, in order."""
        with self._lock:
            self._flush()
            with folder_lock.held(self._path.parent, LOCK_SECONDS):
                self._compact(is_kept)

    def _compact(self, is_kept: Callable[[Row], bool]) -> None:
        if _is_in_order(self._path, self._row_class, is_kept):
            private_files.remove_left(self._path)
            return
        # From the file and not from memory: another process may have appended rows.
        with RowTable(self._path.parent, self._row_class) as table:
            try:
                load(self._path, table, self._row_class)
            except (MapFileDamaged, FileNotFoundError):
                table.clear()
            _write_table(self._path, self._row_class, table, is_kept)

    def _flush(self) -> None:
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        with folder_lock.held(self._path.parent, LOCK_SECONDS):
            if not self._path.exists():  # it was removed since we started
                _rewrite(self._path, self._row_class, ())
            self._size = patiently(lambda: append_rows(self._path, data, self._size))
        self._waiting.clear()
        self._has_appended = True


def _rewrite(path: Path, row_class: type[Row], rows: Iterable[Row]) -> None:
    """Write the file; the caller holds the lock."""
    if isinstance(rows, RowTable):
        _write_table(path, row_class, rows, lambda _: True)
        return
    with RowTable(path.parent, row_class) as table:
        table.add_all(rows)
        _write_table(path, row_class, table, lambda _: True)


def _write_table(path: Path, row_class: type[Row], table: RowTable[Row], is_kept: Callable[[Row], bool]) -> None:
    """Write the file from a table, so that a second try begins at the first row again; remove what a kill left."""
    private_files.remove_left(path)

    def lines() -> Iterator[bytes]:
        yield encode_header(row_class).encode()
        yield from (encode_row(row).encode() for row in table if is_kept(row))

    patiently(lambda: private_files.write_pieces(path, lines(), is_durable=True))


def _is_appendable(path: Path, row_class: type[Row], is_right: Callable[[Row], bool] = lambda _: True) -> bool:
    """Return whether the file has the header of this version, whole rows, no damage, and only rows that are right."""
    try:
        with open_regular(path, os.O_RDONLY) as file:
            if not has_exact_header(file.readline(), row_class) or whole_rows(file).rest:
                return False
            file.seek(0)
            return all(map(is_right, decode(file, row_class)))
    except (FileNotFoundError, MapFileDamaged):
        return False


def _is_in_order(path: Path, row_class: type[Row], is_kept: Callable[[Row], bool]) -> bool:
    """Return whether the file is as it would be written anew. If so, it need not be."""
    last = (b"", b"")
    with SeenIds() as seen:

        def is_next(row: Row) -> bool:
            nonlocal last
            before, last = last, order_of(row)
            return before <= last and seen.add(last[1].hex()) and is_kept(row)

        return _is_appendable(path, row_class, is_next)
