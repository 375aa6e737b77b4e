"""The download step: list a source, compare it with the disk, download what is new, remove what is gone, check.

Nothing is removed before everything else was tried, nothing because of a listing that was cut short, and not more at
once than the loss guard allows. Whatever ends the step early, every row that was written stays.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from contextlib import ExitStack

from core.sources.sharepoint.change_detection import ItemChange
from core.sources.sharepoint.coverage import Coverage, coverage_text
from core.sources.sharepoint.io import map_files
from core.sources.sharepoint.io.claimed_files import ClaimedFiles
from core.sources.sharepoint.io.comparison import gone_items, load_known, wanted_items
from core.sources.sharepoint.io.integrity_check import IntegrityCheck
from core.sources.sharepoint.io.item_downloads import ItemDownloads
from core.sources.sharepoint.io.list_export import write_export
from core.sources.sharepoint.io.map_files import MapFileWriter
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.io.remote_listing import RemoteListing
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.remote_items import SharePointStopped, SharePointUnavailable
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import DownloadCounts
from core.sources.sharepoint.stored_source import StoredSource

log = logging.getLogger("crawler")

FULL, INCREMENTAL = "full", "incremental"
STOPPED, SKIPPED, INCOMPLETE, DONE = "stopped", "skipped", "incomplete", "done"


async def download(
    site: SharePointSite, storage: CrawlerStorage, source: StoredSource, mode: str, step: Step
) -> DownloadCounts:
    """Bring the copies of a source up to date.

    Trouble that is expected is no exception: `step.statistics` says in `error` why the source was skipped or is
    incomplete, and then nothing was removed.
    """
    statistics = step.statistics
    statistics.error, statistics.status, statistics.coverage = "", DONE, Coverage()
    # The numbers that describe what is there; those of what was done go on where a run is continued.
    counts = statistics.download
    counts.unchanged = counts.skipped_types = counts.held = 0
    with ExitStack() as opened:
        mirror = await asyncio.to_thread(opened.enter_context, MirrorStorage(storage.root, source.paths))
        # A full download does not trust any answer that nothing has changed.
        is_drive_asked = mode != FULL
        listing = opened.enter_context(
            RemoteListing(source, mirror.folder, statistics.coverage, is_drive_asked=is_drive_asked)
        )
        try:
            await listing.read(site, step.should_stop)
        except SharePointStopped:
            statistics.status = STOPPED
            return counts
        except SharePointUnavailable as error:
            statistics.error, statistics.status = str(error), SKIPPED
            log.error("❌ Skipped, nothing was changed: %s → %s", error, source.source_id)
            return counts
        rows = opened.enter_context(RowTable(mirror.folder, FileRow))
        return await _SourceDownload(site, source, mirror, listing, rows, step).run(mode)


class _SourceDownload:
    def __init__(
        self,
        site: SharePointSite,
        source: StoredSource,
        mirror: MirrorStorage,
        listing: RemoteListing,
        rows: RowTable[FileRow],
        step: Step,
    ) -> None:
        self._source = source
        self._mirror = mirror
        self._listing = listing
        self._step = step
        self._counts = step.statistics.download
        self._writer = MapFileWriter(mirror.map_path(FileRow), FileRow)
        self._files = ClaimedFiles(mirror, rows, self._writer.append)
        self._downloads = ItemDownloads(site, listing, self._files, mirror.paths, step)
        self._check_of_disk = IntegrityCheck(
            *(mirror, listing.rows, rows, self._files.record),
            lambda row: source.source_type.is_embedded(row.file_type),
            step.should_stop,
        )

    async def run(self, mode: str) -> DownloadCounts:
        listed, folder = self._listing.rows, self._mirror.folder
        self._counts.listed = len(listed)
        is_first = not self._mirror.map_path(SharePointRow).exists()
        await asyncio.to_thread(map_files.rewrite, self._mirror.map_path(SharePointRow), SharePointRow, listed)
        load = functools.partial(load_known, self._mirror.map_path(FileRow), self._files.rows, self._source.source_id)
        is_full = not await asyncio.to_thread(load, is_first=is_first) or mode == FULL
        with RowTable(folder, SharePointRow) as wanted, RowTable(folder, FileRow) as gone, self._writer:
            await asyncio.to_thread(self._writer.start)
            await asyncio.to_thread(self._compare, wanted, is_full)
            await self._downloads.bring_all(wanted)
            if self._downloads.problem:
                self._give_up()
            else:
                await self._remove(gone)
                await self._check()
            await asyncio.to_thread(self._writer.finish, lambda row: row.sharepoint_unique_file_id not in gone)
        self._tell()
        return self._counts

    # ── comparing ──

    def _compare(self, wanted: RowTable[SharePointRow], is_full: bool) -> None:
        if self._source.source_type is SharePointType.LISTS:
            write_export(self._mirror, self._listing)
        if self._find_wanted(wanted, is_full) and not is_full:
            # What is missing here may only be elsewhere, or not written down: it is moved then, and not downloaded.
            self._check_of_disk.settle()
            self._find_wanted(wanted, is_full)

    def _find_wanted(self, wanted: RowTable[SharePointRow], is_full: bool) -> bool:
        """Fill the table; tell whether something is missing here."""
        self._counts.unchanged = self._counts.skipped_types = 0
        self._step.statistics.coverage.file_types.clear()
        wanted.clear()
        missing = False
        began_ts = self._step.began_ts or self._step.now()
        for change, row in wanted_items(self._listing, self._files, self._counts, is_full=is_full, began_ts=began_ts):
            missing |= change is ItemChange.ADDED
            wanted.add(row)
        return missing

    def _give_up(self) -> None:
        statistics = self._step.statistics
        statistics.error, statistics.status = self._downloads.problem, INCOMPLETE
        log.error("❌ %s → %s", statistics.error, self._source.source_id)

    # ── removing ──

    async def _remove(self, gone: RowTable[FileRow]) -> None:
        """Remove what SharePoint has not any more, or not in a type that is embedded, unless it is too much."""
        if self._step.should_stop():
            return
        await asyncio.to_thread(gone.add_all, gone_items(self._listing, self._files))
        refusal = await self._step.may_remove(len(gone), len(self._files.rows))
        if refusal:
            self._counts.held = len(gone)
            log.warning("🛑 %s → %s", refusal, self._source.source_id)
            gone.clear()
        await asyncio.to_thread(self._remove_rows, gone)

    def _remove_rows(self, gone: RowTable[FileRow]) -> None:
        for row in gone:
            self._files.remove(row)
            self._counts.removed += 1
            log.info("🗑️ Removed → %s", row.server_relative_url)

    # ── the end ──

    async def _check(self) -> None:
        """See that the disk is as the maps say, and correct it."""
        counts, found = self._counts, self._check_of_disk.counts
        found.missing_on_disk += counts.missing_on_disk  # those that were found missing before the check
        if not self._step.should_stop():
            await self._check_of_disk.run(self._downloads.bring_all)
        counts.missing_in_map, counts.missing_on_disk = found.missing_in_map, found.missing_on_disk
        counts.orphans_deleted, counts.moved = found.orphans_deleted, found.moved
        if self._step.should_stop():
            self._step.statistics.status = STOPPED

    def _tell(self) -> None:
        counts, unread = self._counts, coverage_text(self._step.statistics.coverage)
        if unread:
            log.info("⏭️ Not embedded: %s → %s", unread, self._source.source_id)
        log.info(
            "✅ Downloaded %d (%d added, %d changed), %d removed, %d unchanged, %d failed → %s",
            *(counts.downloaded, counts.added, counts.changed, counts.removed, counts.unchanged, counts.failed),
            self._source.source_id,
        )
