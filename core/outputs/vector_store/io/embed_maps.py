"""The map files of one source while it is embedded: read once, appended to as items are done. Blocks; use threads."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Self

from core.sources.sharepoint.io.map_files import MapFileWriter, load
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, MapRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.map_csv import MapFileDamaged, Row
from core.sources.sharepoint.stored_source import StoredSource

log = logging.getLogger("crawler")


class EmbedMaps:
    """Use it as a context manager: what was appended is in the files at the end, even if something fails."""

    def __init__(self, storage: CrawlerStorage, source: StoredSource) -> None:
        self._storage = storage
        self._source = source
        self._stack = contextlib.ExitStack()
        self.has_files = False
        """Can `files_map.csv` be read? Without it nothing is known of what there is to embed."""
        self.has_rows = False
        """Could `vectorstore_map.csv` be read?"""
        self._has_new_rows = self._has_dropped = self._has_new_files = False

    def __enter__(self) -> Self:
        folder = self._storage.source_folder(self._source)
        folder.mkdir(parents=True, exist_ok=True)
        with self._stack:
            self.files = self._stack.enter_context(RowTable(folder, FileRow))
            self.rows = self._stack.enter_context(RowTable(folder, VectorStoreRow))
            self.listed = self._stack.enter_context(RowTable(folder, SharePointRow))
            self.has_files = self._load(self.files, FileRow)
            self.has_rows = self._is_row_file_sound = self._load(self.rows, VectorStoreRow)
            self._load(self.listed, SharePointRow)
            self._row_writer = MapFileWriter(self._path(VectorStoreRow), VectorStoreRow)
            self._file_writer = MapFileWriter(self._path(FileRow), FileRow)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            self._row_writer.flush()
            self._file_writer.flush()

    # ── changing ──

    def put_row(self, row: VectorStoreRow) -> None:
        self.begin_rows()
        self.rows.add(row)
        self._row_writer.append(row)
        self._has_new_rows = True

    def drop_row(self, unique_id: str) -> None:
        self.rows.remove(unique_id)
        self._has_dropped = True

    def put_file(self, file: FileRow) -> None:
        self.files.add(file)
        self._file_writer.append(file)
        self._has_new_files = True

    def begin_rows(self) -> None:
        """Make the file with the rows that are kept so far, if it is another one; then rows can be appended."""
        if not self._is_row_file_sound or self._has_dropped:
            self._row_writer.start(self.rows)
            self._is_row_file_sound, self._has_dropped = True, False

    def flush(self) -> None:
        """Put what was appended into the files: a kill loses none of it."""
        self._row_writer.flush()
        self._file_writer.flush()

    def finish(self) -> None:
        """Write the files anew, in order, one row for each item; a file that is the same already stays as it is."""
        self.begin_rows()
        if self._has_new_rows:
            self._row_writer.finish(lambda row: row.sharepoint_unique_file_id in self.rows)
        else:
            self._row_writer.finish()  # a run that was killed may have left rows in the order of its work
        if self._has_new_files:
            self._file_writer.finish()

    # ── reading ──

    def _path(self, row_class: type[MapRow]) -> Path:
        return self._storage.map_file(self._source, row_class)

    def _load(self, table: RowTable[Row], row_class: type[Row]) -> bool:
        path = self._path(row_class)
        try:
            load(path, table, row_class)
        except FileNotFoundError:
            return False
        except (MapFileDamaged, OSError) as error:
            log.warning("⚠️ %s cannot be read → %s", path, error)
            return False
        return True
