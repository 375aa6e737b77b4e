"""Find files that somebody renamed on the disk: by size and time, where nothing else has both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from core.sources.sharepoint.disk_files import DiskFile
from core.sources.sharepoint.integrity import SAME_MOMENT_SECONDS
from core.sources.sharepoint.io.disk_table import DiskTable
from core.sources.sharepoint.map_rows import FileRow
from core.sources.sharepoint.time_stamps import timestamp_of


def find_renamed(disk: DiskTable, missing: Iterable[FileRow]) -> list[tuple[FileRow, DiskFile]]:
    """Return the rows whose file is surely there by another name: one row, one file that no row names.

    Args:
        missing: the rows of a library whose files are nowhere by their own names.
    """
    pairs: list[tuple[FileRow, DiskFile]] = []
    candidates: Counter[PurePosixPath] = Counter()
    for row in missing:
        alike = _alike(disk, row)
        candidates.update(found.path for found in alike)
        if len(alike) == 1:
            pairs.append((row, alike[0]))
    return [(row, found) for row, found in pairs if candidates[found.path] == 1]


def _alike(disk: DiskTable, row: FileRow) -> list[DiskFile]:
    moment = timestamp_of(row.last_modified_utc)
    if moment is None or not row.file_size.isdecimal():
        return []
    earliest, latest = moment - SAME_MOMENT_SECONDS, moment + SAME_MOMENT_SECONDS
    return disk.unclaimed_like(int(row.file_size), int(earliest * 1e9), int(latest * 1e9))
