"""Check a local file before it is uploaded: present, complete, and of a type that a vector store takes."""

from __future__ import annotations

import hashlib
import stat
from enum import StrEnum
from pathlib import Path

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.local_paths import LocalPaths
from core.sources.sharepoint.map_columns import FileRow
from core.value_class import value_class


class LocalState(StrEnum):
    SOUND = ""
    MISSING = "it is not on the disk; the next download brings it"
    DAMAGED = "the local file is damaged; it is downloaded again"
    UNSUPPORTED = "vector stores do not take files of its type"


@value_class
class LocalContent:
    state: LocalState
    path: Path
    size_bytes: int = 0


def look_at(storage: CrawlerStorage, paths: LocalPaths, file: FileRow) -> LocalContent:
    """Look at the file of a row. Reads none of its bytes."""
    place = paths.from_map(file.file_relative_path)
    path = storage.crawler / (place or "")
    try:
        status = path.lstat()
    except OSError:
        return LocalContent(LocalState.MISSING, path)
    if place is None or not stat.S_ISREG(status.st_mode):
        return LocalContent(LocalState.MISSING, path)
    if path.suffix.lower().removeprefix(".") not in CFG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES:
        return LocalContent(LocalState.UNSUPPORTED, path)
    # What is processed first has a size of its own.
    is_other_size = not paths.source_type.is_processed and file.file_size not in ("", str(status.st_size))
    is_emptied = not status.st_size and file.file_size not in ("", "0")
    state = LocalState.DAMAGED if is_other_size or is_emptied else LocalState.SOUND
    return LocalContent(state, path, status.st_size)


def content_hash(path: Path) -> str:
    """Return the sha256 of a file's bytes. Raises OSError."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
