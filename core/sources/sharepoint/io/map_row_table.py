"""The rows of a map file for one pass, one for each item: found by id or path, read in order, never all in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic

from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, as_key
from core.sources.sharepoint.map_columns import MapRow
from core.sources.sharepoint.map_csv import Row

_NEXT_PAGE = "SELECT place, id, cells FROM rows WHERE (place, id) > (?, ?) ORDER BY place, id LIMIT ?"
_ID = "sharepoint_unique_file_id"
"""A column of every map file."""


class RowTable(ScratchDatabase, Generic[Row]):
    SCHEMA = (
        "CREATE TABLE rows (id BLOB PRIMARY KEY, place BLOB NOT NULL, path BLOB NOT NULL, cells TEXT NOT NULL)",
        "CREATE UNIQUE INDEX by_place ON rows (place, id)",
        "CREATE INDEX by_path ON rows (path)",
    )

    def __init__(self, folder: Path, row_class: type[Row]) -> None:
        """`folder` is where the scratch file is while the table is open."""
        super().__init__(folder)
        self._row_class = row_class

    # ── changing ──

    def add(self, row: Row) -> None:
        """Take a row, instead of one of the same id."""
        self.add_all((row,))

    def add_all(self, rows: Iterable[Row]) -> None:
        """Take rows one after the other; of those with one id the last is kept."""
        self._write_all("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", map(_values, rows))

    def remove(self, unique_id: str) -> None:
        self._ask("DELETE FROM rows WHERE id = ?", as_key(unique_id))

    def clear(self) -> None:
        self._ask("DELETE FROM rows")

    # ── reading ──

    def get(self, unique_id: str) -> Row | None:
        found = self._ask("SELECT cells FROM rows WHERE id = ?", as_key(unique_id))
        return self._row(found[0][0]) if found else None

    def __contains__(self, unique_id: str) -> bool:
        return bool(self._ask("SELECT 1 FROM rows WHERE id = ?", as_key(unique_id)))

    def __len__(self) -> int:
        return int(self._ask("SELECT count(*) FROM rows")[0][0])

    def __bool__(self) -> bool:
        return True

    def with_path(self, file_relative_path: str) -> list[Row]:
        """Return the rows that claim a path; a path without a claim may be removed."""
        found = self._ask("SELECT cells FROM rows WHERE path = ?", as_key(file_relative_path))
        return [self._row(cells) for (cells,) in found]

    def with_place(self, server_relative_url: str) -> list[Row]:
        """Return the rows that have a place in SharePoint; it has one item there, others were there before."""
        found = self._ask("SELECT cells FROM rows WHERE place = ?", as_key(server_relative_url))
        return [self._row(cells) for (cells,) in found]

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows in order of `server_relative_url`, or of the path where there is none, then of the id."""
        found = self._ask("SELECT place, id, cells FROM rows ORDER BY place, id LIMIT ?", PAGE_ROWS)
        while found:
            yield from (self._row(cells) for _, _, cells in found)
            place, unique_id, _ = found[-1]
            found = self._ask(_NEXT_PAGE, place, unique_id, PAGE_ROWS)

    def missing_from(self, other: RowTable[Any]) -> Iterator[Row]:
        """Yield the rows whose ids another table does not have, in order."""
        return (row for row in self if getattr(row, _ID) not in other)

    def _row(self, cells: str) -> Row:
        return self._row_class.from_cells(dict(zip(self._row_class.columns(), json.loads(cells), strict=True)))


def order_of(row: MapRow) -> tuple[bytes, bytes]:
    return as_key(getattr(row, "server_relative_url", getattr(row, "file_relative_path", ""))), as_key(
        getattr(row, _ID)
    )


def _values(row: Row) -> tuple[bytes, bytes, bytes, str]:
    place, unique_id = order_of(row)
    return unique_id, place, as_key(getattr(row, "file_relative_path", "")), json.dumps(row.cells())
