"""Find the files of the global storage that map files of other sources and domains name. Blocks; use threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from core.sources.sharepoint.io.scratch_database import SeenIds
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import VectorStoreRow
from core.sources.sharepoint.map_csv import MapFileDamaged, decode

log = logging.getLogger("crawler")


class NamedFiles:
    """Use it as a context manager. Reads the other map files at the first question."""

    def __init__(self, storage: CrawlerStorage, own_map: Path) -> None:
        self._storage = storage
        self._own_map = own_map
        self._lock = threading.Lock()
        self._is_read = self._is_all_named = False

    def __enter__(self) -> Self:
        self._ids = SeenIds()
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()

    def has(self, file_id: str) -> bool:
        """Return whether a map file of another source names this file. True if one of them cannot be read."""
        with self._lock:
            if not self._is_read:
                self._read()
            return self._is_all_named or file_id in self._ids

    def _read(self) -> None:
        self._is_read = True
        for path in vector_store_maps(self._storage):
            if path == self._own_map:
                continue
            try:
                with path.open("rb") as lines:
                    # Earlier rows of an item count too: in doubt a file stays.
                    for row in decode(lines, VectorStoreRow):
                        self._ids.add(row.openai_file_id)
            except (MapFileDamaged, OSError) as error:
                log.warning("⚠️ %s cannot be read → %s. No file is deleted that it may name.", path, error)
                self._is_all_named = True


def vector_store_maps(storage: CrawlerStorage, domain_id: str = "*") -> Iterator[Path]:
    """Yield the `vectorstore_map.csv` of every source, of one domain or of all."""
    pattern = f"{domain_id}/*/*/{VectorStoreRow.file_name}"
    yield from sorted(storage.crawler.glob(pattern))
