"""The files of one source and the rows that claim them: a file goes when no row claims it any more.

A place belongs to the row whose file was put there last; a row that had it loses its path, and its item is downloaded
again. So two files may swap their names. Blocks: for threads; several may at once.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.local_paths import PathRefused
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import timestamp_of


class ClaimedFiles:
    def __init__(self, mirror: MirrorStorage, rows: RowTable[FileRow], append: Callable[[FileRow], None]) -> None:
        """`append` writes a row down, as in `files_map.csv`."""
        self.mirror = mirror
        self.rows = rows
        self._paths = mirror.paths
        self._begin = f"{mirror.crawler_folder}/"
        self._append = append
        self._lock = threading.RLock()

    # ── looking ──

    def has_download(self, row: FileRow) -> bool:
        """Return whether what was downloaded for this row is on the disk, of the size that it had.

        A quick look, at every row of a source; the integrity check looks closely.
        """
        path = self._paths.from_map(row.file_relative_path)
        if path is None:
            return False
        if not self._paths.source_type.is_processed:
            return self.is_file(path, row.file_size)
        with contextlib.suppress(PathRefused):
            return self.is_file(self._paths.original(row))
        return False

    def has_all(self, row: FileRow) -> bool:
        """Return whether what was made of the download is on the disk as well."""
        path = self._paths.from_map(row.file_relative_path)
        return path is not None and self.is_file(path) and self.has_download(row)

    def is_file(self, path: PurePosixPath, size: str = "") -> bool:
        """Return whether a regular file is there, of this size if one is given."""
        try:
            found = os.lstat(self._begin + "/".join(path.parts))
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and size in ("", str(found.st_size))

    def read(self, path: PurePosixPath) -> bytes:
        with self.mirror.open_file(path) as file:
            return file.read()

    # ── changing ──

    def record(self, row: FileRow) -> None:
        """Take a row instead of the one that the item had, and write it down."""
        with self._lock:
            self.rows.add(row)
            self._append(row)

    def place(self, download: Path, owner: FileRow) -> None:
        """Put a finished download where its row says, and take the row instead of the one that the item had."""
        path = self._path(owner)
        with self._lock:
            self._take_from_others(path, owner)
            self.mirror.place(download, path, timestamp_of(owner.last_modified_utc) or 0.0)
            self.take(owner)

    def take(self, row: FileRow) -> None:
        """Take the row instead of the one that the item had, and remove files that no row claims now."""
        with self._lock:
            old = self.rows.get(row.sharepoint_unique_file_id)
            self.record(row)
            if old is not None:
                self._remove_files(old, kept=self._places(row))

    def write(self, content: bytes, owner: FileRow) -> bool:
        """Put content where its row says, unless that is what is there; tell whether it was written."""
        path = self._path(owner)
        if self.is_file(path, str(len(content))) and self.read(path) == content:
            with self._lock:
                self._take_from_others(path, owner)
                self.take(owner)
            return False
        download = self.mirror.new_download()
        download.write_bytes(content)
        self.place(download, owner)
        return True

    def remove(self, row: FileRow) -> None:
        with self._lock:
            self.rows.remove(row.sharepoint_unique_file_id)
            self._remove_files(row, kept=set())

    # ── claims ──

    def _path(self, row: FileRow) -> PurePosixPath:
        path = self._paths.from_map(row.file_relative_path)
        if path is None:
            raise ValueError(f"{row.file_relative_path!r} is not a path of this source")
        return path

    def _take_from_others(self, path: PurePosixPath, owner: FileRow) -> None:
        """Take the place from rows of other items. A list's export belongs to all of its rows."""
        if self._is_shared(path):
            return
        for row in self._claims(path, owner):
            if row.file_relative_path:
                self.record(replace(row, file_relative_path=""))

    def _claims(self, path: PurePosixPath, row: FileRow) -> list[FileRow]:
        """Return the rows of other items that have this path, or the place in SharePoint that the row has."""
        own = row.sharepoint_unique_file_id
        claims = [*self.rows.with_path(self._paths.to_map(path)), *self.rows.with_place(row.server_relative_url)]
        return [other for other in claims if other.sharepoint_unique_file_id != own]

    def _places(self, row: FileRow) -> set[PurePosixPath]:
        """Return where files of a row are, but for those that failed earlier."""
        places = {self._paths.from_map(row.file_relative_path)}
        with contextlib.suppress(PathRefused):
            places |= {self._paths.original(row), self._paths.embedded(row)}
        return {place for place in places if place is not None}

    def _remove_files(self, row: FileRow, kept: set[PurePosixPath]) -> None:
        places = self._places(row)
        with contextlib.suppress(PathRefused):
            places.add(self._paths.failed(row))
        for place in places - kept:
            if not self._is_shared(place) and not self._claims(place, row):
                self.mirror.remove(place)

    def _is_shared(self, place: PurePosixPath) -> bool:
        return self._paths.source_type is SharePointType.LISTS and place == self._paths.original(FileRow())
