"""The export of a list on this disk: written whole, and only if it says something else than before. For threads."""

from __future__ import annotations

import filecmp
from pathlib import PurePosixPath

from core.sources.sharepoint.io.item_values import ItemValues
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.io.remote_listing import RemoteListing
from core.sources.sharepoint.list_csv import decode_export, encode_export
from core.sources.sharepoint.list_markdown import export_cells
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.time_stamps import timestamp_of


def export_path(mirror: MirrorStorage) -> PurePosixPath:
    return mirror.paths.original(FileRow())


def write_export(mirror: MirrorStorage, listing: RemoteListing) -> None:
    """Write every row of a complete listing, sorted by number, unless the export has them all as they are."""
    path, download = export_path(mirror), mirror.new_download()
    rows = (export_cells(listing.columns, str(number), values) for number, values in listing.values.by_number())
    with download.open("w", encoding="utf-8", newline="") as file:
        file.writelines(encode_export([one.title for one in listing.columns], rows))
    there = mirror.status(path)
    if there is not None and there.is_regular and filecmp.cmp(download, mirror.absolute(path), shallow=False):
        download.unlink()
        return
    newest = max((timestamp_of(row.last_modified_utc) or 0.0 for row in listing.rows), default=0.0)
    mirror.place(download, path, newest)


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
