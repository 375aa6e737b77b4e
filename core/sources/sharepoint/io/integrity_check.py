"""The integrity check of one source: what is on the disk, in `files_map.csv` and in SharePoint is brought together.

First what needs no download: files that are elsewhere are moved, whole downloads that were not written down get their
rows. Then files that belong to nothing are deleted, and what is still missing is downloaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from core.sources.sharepoint.integrity import (
    SAME_MOMENT_SECONDS,
    Anomaly,
    IntegrityCounts,
    adopted,
    claimed_places,
    expected_place,
    has_place,
    is_alike,
    is_whole,
)
from core.sources.sharepoint.io.disk_table import DiskTable
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.local_paths import SUBFOLDERS, DiskFile
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import timestamp_of

log = logging.getLogger("crawler")

Bring = Callable[[RowTable[SharePointRow]], Awaitable[None]]
"""Downloads these items and records their rows; a row says why if that fails. It may change the table."""


class IntegrityCheck:
    """One check; `counts` says what it did."""

    def __init__(
        self,
        storage: MirrorStorage,
        listed: RowTable[SharePointRow],
        rows: RowTable[FileRow],
        record: Callable[[FileRow], None],
        is_expected: Callable[[SharePointRow], bool] = lambda _: True,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`record` puts a row into `rows` and into the map file; `is_expected` says which types have a file here."""
        self.counts = IntegrityCounts()
        self._storage = storage
        self._paths = storage.paths
        self._listed = listed
        self._rows = rows
        self._record = record
        self._is_expected = is_expected
        self._should_stop = should_stop

    async def run(self, bring: Bring) -> IntegrityCounts:
        """Check and correct everything; the source's listing must be complete."""
        with RowTable(self._storage.folder, SharePointRow) as missing, DiskTable(self._storage.folder) as disk:
            await asyncio.to_thread(self._look, disk)
            await asyncio.to_thread(self._settle, disk, missing)
            if not self._should_stop():
                await asyncio.to_thread(self._delete_orphans, disk)
                await self._bring(missing, bring)
            if self._should_stop():
                return self.counts
        summary = self.counts.summary
        log.info(
            "%s %s → %s", "✅" if summary.startswith("Integrity check passed") else "🧹", summary, self._paths.folder
        )
        return self.counts

    def settle(self) -> None:
        """Do only what needs no download and deletes nothing: before a crawl decides what to download. Blocks."""
        with RowTable(self._storage.folder, SharePointRow) as missing, DiskTable(self._storage.folder) as disk:
            self._look(disk)
            self._settle(disk, missing)

    # ── looking ──

    def _look(self, disk: DiskTable) -> None:
        """Note the places that rows claim and the files that are there."""
        if self._paths.source_type is SharePointType.LISTS:
            disk.claim([self._paths.original(FileRow())])  # the export, also of a list without rows
        for row in self._rows:
            disk.claim(claimed_places(self._paths, row))
        for item in self._listed.missing_from(self._rows):
            if self._is_expected(item) and has_place(self._paths, item):
                disk.claim([self._paths.downloaded(item)])
        for subfolder in SUBFOLDERS:
            disk.see(self._storage.scan(subfolder))

    def _settle(self, disk: DiskTable, missing: RowTable[SharePointRow]) -> None:
        """Look at every item that should have a file; note those that must be downloaded."""
        self.counts.verified = 0
        for item in self._listed:
            if self._should_stop():
                return
            if self._is_expected(item):
                row = self._rows.get(item.sharepoint_unique_file_id)
                is_there = self._adopt(disk, item) if row is None else self._is_settled(disk, row, item)
                if not is_there:
                    missing.add(item)
        self._take_renamed(disk, missing)

    def _is_settled(self, disk: DiskTable, row: FileRow, item: SharePointRow) -> bool:
        """Return whether the file of the row is in its place now."""
        if not row.file_relative_path:
            self._adopt(disk, item)
            return True  # a failed download is not an anomaly: every crawl tries it again
        place = expected_place(self._paths, row)
        if place is None:
            return False
        found = self._found(disk, row, place)
        if found is None:
            return False
        if found.path == place and row.file_relative_path == self._paths.to_map(place):
            self.counts.verified += 1
        else:
            self._move(disk, row, found, place)
        return True

    # ── without a download ──

    def _adopt(self, disk: DiskTable, item: SharePointRow) -> bool:
        """Take a file for the item that is at its place whole: a kill came before its row was written."""
        if not has_place(self._paths, item) or self._paths.is_too_long(item):
            return False
        found = disk.at(self._paths.downloaded(item))
        row = adopted(self._paths, item, found) if found else None
        if row is None or self._rows.with_path(row.file_relative_path):
            return False
        self._tell(Anomaly.MISSING_IN_MAP, item.server_relative_url)
        self._record(row)
        self.counts.missing_in_map += 1
        return True

    def _found(self, disk: DiskTable, row: FileRow, place: PurePosixPath) -> DiskFile | None:
        """Return the file of the row: where the map says, where it belongs, or elsewhere."""
        said = self._paths.from_map(row.file_relative_path)
        for candidate in (said, place):
            found = disk.at(candidate) if candidate else None
            if found and is_whole(self._paths.source_type, row, found) and not self._is_anothers(found, row, place):
                return found
        return self._found_elsewhere(disk, row, place)

    def _is_anothers(self, found: DiskFile, row: FileRow, place: PurePosixPath) -> bool:
        """Return whether the map gives this file to another row. The export of a list is of all of them."""
        claims = self._rows.with_path(self._paths.to_map(found.path))
        return found.path != place and any(
            other.sharepoint_unique_file_id != row.sharepoint_unique_file_id for other in claims
        )

    def _found_elsewhere(self, disk: DiskTable, row: FileRow, place: PurePosixPath) -> DiskFile | None:
        """Return the one file without a row that has the name, size and time; None if several differ."""
        source_type = self._paths.source_type
        alike = [found for found in disk.unclaimed_named(place.name) if is_alike(source_type, row, found)]
        if len(alike) > 1 and len(set(map(self._hash, alike))) > 1:
            return None
        return alike[0] if alike else None

    def _take_renamed(self, disk: DiskTable, missing: RowTable[SharePointRow]) -> None:
        """Move back the files of a library that have another name now. Those made here have neither size nor time."""
        if self._paths.source_type is not SharePointType.FILES:
            return
        known = (self._rows.get(item.sharepoint_unique_file_id) for item in missing)
        for row, found in find_renamed(disk, (row for row in known if row is not None and row.file_relative_path)):
            place = expected_place(self._paths, row)
            if place is not None:
                self._move(disk, row, found, place)
                missing.remove(row.sharepoint_unique_file_id)

    def _hash(self, found: DiskFile) -> str:
        with self._storage.open_file(found.path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _move(self, disk: DiskTable, row: FileRow, found: DiskFile, place: PurePosixPath) -> None:
        self._tell(Anomaly.WRONG_PATH, found.path)
        self._storage.move(found.path, place)
        disk.forget(found.path)
        disk.claim([place])
        disk.see([replace(found, path=place)])
        self._record(replace(row, file_relative_path=self._paths.to_map(place)))
        self.counts.moved += 1

    def _delete_orphans(self, disk: DiskTable) -> None:
        for found in disk.unclaimed():
            if self._should_stop():
                return
            self._tell(Anomaly.ORPHAN_ON_DISK, found.path)
            self.counts.orphans_deleted += self._storage.remove(found.path)

    # ── downloads ──

    async def _bring(self, missing: RowTable[SharePointRow], bring: Bring) -> None:
        if not len(missing):
            return
        with RowTable(self._storage.folder, SharePointRow) as wanted, RowTable(self._storage.folder, FileRow) as before:
            await asyncio.to_thread(self._note_missing, missing, wanted, before)
            await bring(wanted)
            await asyncio.to_thread(self._count_brought, missing, before)

    def _note_missing(
        self, missing: RowTable[SharePointRow], wanted: RowTable[SharePointRow], before: RowTable[FileRow]
    ) -> None:
        wanted.add_all(missing)
        for item in missing:
            row = self._rows.get(item.sharepoint_unique_file_id)
            self._tell(Anomaly.MISSING_ON_DISK if row else Anomaly.MISSING_IN_MAP, item.server_relative_url)
            before.add_all([row] if row else [])

    def _count_brought(self, missing: RowTable[SharePointRow], before: RowTable[FileRow]) -> None:
        """Count what is on the disk now. A row whose file is not has no path."""
        for item in missing:
            row = self._rows.get(item.sharepoint_unique_file_id)
            place = self._paths.from_map(row.file_relative_path) if row else None
            found = self._storage.status(place) if place else None
            if row is not None and is_whole(self._paths.source_type, row, found):
                is_new = item.sharepoint_unique_file_id not in before
                self.counts.missing_in_map += is_new
                self.counts.missing_on_disk += not is_new
                continue
            self.counts.not_corrected += 1
            if row is not None and row.file_relative_path and found is None:
                self._record(replace(row, file_relative_path=""))

    def _tell(self, anomaly: Anomaly, what: object) -> None:
        log.info("🔎 %s → %s", anomaly, what)


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
