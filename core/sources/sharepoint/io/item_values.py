"""The values of a listing's items for one pass, on the disk: cells of rows, texts of pages. Blocks: for threads."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.io.remote_listing import RemoteListing
from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, as_key
from core.sources.sharepoint.list_csv import decode_export, encode_export
from core.sources.sharepoint.list_markdown import export_cells
from core.sources.sharepoint.map_rows import FileRow
from core.sources.sharepoint.time_stamps import timestamp_of

_NEXT_PAGE = "SELECT number, id, content FROM items WHERE (number, id) > (?, ?) ORDER BY number, id LIMIT ?"


class ItemValues(ScratchDatabase):
    """The values of each item, by its id and in order of its number in the list."""

    SCHEMA = (
        "CREATE TABLE items (id BLOB PRIMARY KEY, number INTEGER NOT NULL, content TEXT NOT NULL) WITHOUT ROWID",
        "CREATE UNIQUE INDEX by_number ON items (number, id)",
    )

    def add_all(self, items: Iterable[tuple[str, str, Mapping[str, str]]]) -> None:
        """Take items: the id, the number in the list, and the values; instead of those of the same id."""
        rows = ((as_key(one), _number(number), json.dumps(dict(values))) for one, number, values in items)
        self._write_all("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", rows)

    def get(self, unique_id: str) -> dict[str, str] | None:
        """Return the values of an item."""
        found = self._ask("SELECT content FROM items WHERE id = ?", as_key(unique_id))
        return json.loads(found[0][0]) if found else None

    def by_number(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield number and values of every item, sorted by the number."""
        last, last_id = -1, b""
        while found := self._ask(_NEXT_PAGE, last, last_id, PAGE_ROWS):
            yield from ((number, json.loads(content)) for number, _, content in found)
            last, last_id, _ = found[-1]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def export_path(mirror: MirrorStorage) -> PurePosixPath:
    """Return where the export of the list is."""
    return mirror.paths.original(FileRow())


def write_export(mirror: MirrorStorage, listing: RemoteListing) -> bool:
    """Write every row of a complete listing, sorted by number; tell whether anything was different."""
    path, download = export_path(mirror), mirror.new_download()
    with download.open("w", encoding="utf-8", newline="") as file:
        file.writelines(encode_export([one.title for one in listing.columns], _rows(listing)))
    there = mirror.status(path)
    if there is not None and there.is_regular and filecmp.cmp(download, mirror.absolute(path), shallow=False):
        download.unlink()
        return False
    newest = max((timestamp_of(row.last_modified_utc) or 0.0 for row in listing.rows), default=0.0)
    mirror.place(download, path, newest)
    return True


def _rows(listing: RemoteListing) -> Iterator[tuple[str, ...]]:
    for number, values in listing.values.by_number():
        yield export_cells(listing.columns, str(number), values)


def read_export(mirror: MirrorStorage, values: ItemValues) -> tuple[str, ...]:
    """Read the export into a table, by number and by title; return its titles. Raises OSError, ListExportDamaged."""
    with mirror.open_file(export_path(mirror)) as raw:
        rows = decode_export(line.decode("utf-8", "replace") for line in raw)
        titles = next(rows)
        batch: list[tuple[str, str, dict[str, str]]] = []
        for cells in rows:
            batch.append((cells[0], cells[0], {str(number): cell for number, cell in enumerate(cells)}))
            if len(batch) >= 500:
                values.add_all(batch)
                batch.clear()
        values.add_all(batch)
    return titles
