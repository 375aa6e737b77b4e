"""Decide whether the disk is as the maps say: what is wrong with a file, what it should be, the summary of a check.

A row of `files_map.csv` has its file where `file_relative_path` says: downloaded, processed or failed. The original of
a list or page belongs to the row that it was made into. Items of types that are not embedded have neither row nor file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from core.sources.sharepoint.local_paths import EMBEDDED, FAILED, ORIGINALS, DiskFile, LocalPaths, MapItem, PathRefused
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import timestamp_of, timestamp_text, utc_text

SAME_MOMENT_SECONDS = 2.0
"""FAT keeps times in steps of 2 s."""


class Anomaly(StrEnum):
    MISSING_IN_MAP = "MISSING_IN_MAP"
    MISSING_ON_DISK = "MISSING_ON_DISK"
    ORPHAN_ON_DISK = "ORPHAN_ON_DISK"
    WRONG_PATH = "WRONG_PATH"


@dataclass(slots=True)
class IntegrityCounts:
    """What a check did. Every number but the last two is of something that was corrected."""

    missing_in_map: int = 0
    """Rows that were written: their files were downloaded, or were there whole already."""
    missing_on_disk: int = 0
    """Files that were downloaded again."""
    orphans_deleted: int = 0
    moved: int = 0
    verified: int = 0
    """Files that were where they belong."""
    not_corrected: int = 0
    """Files that could not be downloaded; their rows say why."""

    @property
    def summary(self) -> str:
        missing = self.missing_in_map + self.missing_on_disk
        if missing or self.orphans_deleted or self.moved or self.not_corrected:
            return (
                f"Integrity check corrected: {missing} missing, {self.orphans_deleted} orphans deleted, "
                f"{self.moved} moved"
            )
        return f"Integrity check passed: {self.verified} files verified"


# ── places ──────────────────────────────────────────────────────────────────────────────────────


def has_place(paths: LocalPaths, item: MapItem) -> bool:
    """Return whether there is a place for the file of an item: its name may be refused."""
    with contextlib.suppress(PathRefused):
        return bool(paths.original(item) and paths.embedded(item))
    return False


def claimed_places(paths: LocalPaths, row: FileRow) -> set[PurePosixPath]:
    """Return the places of files that belong to a row, so that none of them is an orphan."""
    place = paths.from_map(row.file_relative_path)
    places = {place} if place else set()
    if paths.source_type.is_processed or not places:
        # What a page was made of; what was made of it before it changed; what failed to be downloaded anew.
        with contextlib.suppress(PathRefused):
            places |= {paths.original(row), paths.embedded(row)}
    return places


def expected_place(paths: LocalPaths, row: FileRow) -> PurePosixPath | None:
    """Return where the file of a row with a path should be: where the map says, if the item can be there."""
    said = paths.from_map(row.file_relative_path)
    subfolder = said.parts[len(paths.folder.parts)] if said else ""
    place_of = {ORIGINALS: paths.original, EMBEDDED: paths.embedded, FAILED: paths.failed}.get(subfolder)
    with contextlib.suppress(PathRefused):
        if place_of is None:
            return paths.downloaded(row)
        place = place_of(row)
        # Of a library there are no originals; what is too long is in another folder than it says.
        return place if place.parts[len(paths.folder.parts)] == subfolder else paths.downloaded(row)
    return None


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def is_whole(source_type: SharePointType, row: FileRow, found: DiskFile | None) -> bool:
    """Return whether it is the file of the row.

    A library's file has the size that SharePoint gave; others are made here.
    """
    if found is None or not found.is_regular:
        return False
    return source_type is not SharePointType.FILES or str(found.size) == row.file_size


def is_alike(source_type: SharePointType, row: FileRow, found: DiskFile) -> bool:
    """Return whether it may be the file of the row, at another place: of its size and its time."""
    return is_whole(source_type, row, found) and _is_moment(found, row.last_modified_utc)


def adopted(paths: LocalPaths, item: SharePointRow, found: DiskFile) -> FileRow | None:
    """Return the row of a download that is there whole and was not written down, None if it is another file."""
    row = FileRow.from_cells(dict(zip(item.columns(), item.cells(), strict=True)))
    if paths.source_type is not SharePointType.FILES or not is_alike(paths.source_type, row, found):
        return None
    return replace(
        row,
        file_relative_path=paths.to_map(found.path),
        downloaded_utc=utc_text(found.changed_ts),
        downloaded_timestamp=timestamp_text(found.changed_ts),
    )


def _is_moment(found: DiskFile, utc: str) -> bool:
    moment = timestamp_of(utc)
    return moment is not None and abs(found.modified_ns / 1e9 - moment) < SAME_MOMENT_SECONDS
