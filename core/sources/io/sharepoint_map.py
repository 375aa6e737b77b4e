"""Answer questions about a `files_map.csv` without a pass over it: has it changed, and why has an item no file?"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from core.sources.sharepoint.io.map_files import read_rows
from core.sources.sharepoint.item_urls import server_relative_of
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.map_csv import MapFileDamaged
from core.sources.sharepoint.stored_source import StoredSource

if TYPE_CHECKING:
    pass


def map_digest(path: Path) -> str:
    """Return a hash of the file; empty if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:32]
    except FileNotFoundError:
        return ""


class MapErrors:
    """Why rows of one map have no file; read again when the map has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] = (0, 0)
        self._errors: dict[str, str] = {}

    def of_url(self, url: str, stored: StoredSource) -> str:
        """Return why an item has no file; empty if the map names no reason."""
        with contextlib.suppress(FileNotFoundError, MapFileDamaged):
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_size) != self._stamp:
                self._errors = {
                    row.server_relative_url: error
                    for row in read_rows(self._path, FileRow)
                    if (error := row.sharepoint_error or row.processing_error)
                }
                self._stamp = (status.st_mtime_ns, status.st_size)
            return self._errors.get(server_relative_of(url, stored.source_type), "")
        return ""
