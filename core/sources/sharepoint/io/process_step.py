"""The process step: make the files that are embedded of the originals that were downloaded.

A row of a list becomes Markdown, a site page simple HTML; files of a library are embedded as they are. What is on the
disk already is not written again. An original that is not there is noted, so that the next download brings it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice

from core.sources.sharepoint.coverage import count_web_parts
from core.sources.sharepoint.io import map_files
from core.sources.sharepoint.io.claimed_files import ClaimedFiles
from core.sources.sharepoint.io.item_values import ItemValues
from core.sources.sharepoint.io.list_export import read_export
from core.sources.sharepoint.io.map_files import MapFileWriter
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.list_csv import ListExportDamaged
from core.sources.sharepoint.list_markdown import row_markdown
from core.sources.sharepoint.local_paths import FAILED, PathRefused
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.map_csv import MapFileDamaged
from core.sources.sharepoint.page_canvas import PageUnreadable
from core.sources.sharepoint.page_html import clean_page, decode_original, unread_web_parts
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import NOT_DOWNLOADED, ProcessCounts
from core.sources.sharepoint.stored_source import StoredSource
from core.sources.sharepoint.time_stamps import timestamp_of

log = logging.getLogger("crawler")

ITEMS_AT_ONCE = 50
"""Items between two looks at whether to stop."""
HEAD_CHARS = 20_000
"""How much of the start of a clean page may hold the note of what was not read."""


async def process(storage: CrawlerStorage, source: StoredSource, step: Step) -> ProcessCounts:
    counts = step.statistics.process
    step.statistics.coverage.web_parts.clear()
    if not source.source_type.is_processed:
        return counts
    with ExitStack() as opened:
        mirror = await asyncio.to_thread(opened.enter_context, MirrorStorage(storage.root, source.paths))
        rows = opened.enter_context(RowTable(mirror.folder, FileRow))
        try:
            await asyncio.to_thread(map_files.load, mirror.map_path(FileRow), rows, FileRow)
        except FileNotFoundError:
            log.warning("⚠️ %s → %s", NOT_DOWNLOADED, source.source_id)
            return counts
        except MapFileDamaged as error:
            log.warning("⚠️ Nothing to process, download first: %s → %s", error, source.source_id)
            return counts
        values = opened.enter_context(ItemValues(mirror.folder))
        await _SourceProcessing(mirror, rows, values, step).run()
    return counts


class _OriginalMissing(Exception):
    """There is nothing to process; the message says what is missing."""


class _SourceProcessing:
    def __init__(self, mirror: MirrorStorage, rows: RowTable[FileRow], values: ItemValues, step: Step) -> None:
        self._mirror = mirror
        self._paths = mirror.paths
        self._values = values
        self._step = step
        self._counts = step.statistics.process
        self._writer = MapFileWriter(mirror.map_path(FileRow), FileRow)
        self._files = ClaimedFiles(mirror, rows, self._writer.append)
        self._titles: tuple[str, ...] | None = None

    async def run(self) -> None:
        with self._writer:
            await asyncio.to_thread(self._writer.start)
            if self._paths.source_type is SharePointType.LISTS:
                await asyncio.to_thread(self._read_export)
            await self._batches()
            await asyncio.to_thread(self._writer.finish)
        counts = self._counts
        log.info(
            "✅ Processed %d, %d unchanged, %d failed, %d without an original → %s",
            *(counts.processed, counts.unchanged, counts.failed, counts.skipped),
            self._step.statistics.source_id,
        )

    def _read_export(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            try:
                self._titles = read_export(self._mirror, self._values)
            except (OSError, ListExportDamaged) as error:
                log.warning("⚠️ The export of the list cannot be read: %s → %s", error, self._step.statistics.source_id)

    async def _batches(self) -> None:
        """Process all rows; those that fail are tried again in up to `retry_batches` batches."""
        rows: Iterable[FileRow] = self._files.rows
        with RowTable(self._mirror.folder, FileRow) as again:
            for number in range(1, max(self._step.retry_batches, 1) + 1):
                with RowTable(self._mirror.folder, FileRow) as failed:
                    await self._batch(rows, failed)
                    if number >= self._step.retry_batches or self._step.should_stop() or not len(failed):
                        self._counts.failed += len(failed)
                        return
                    again.clear()
                    again.add_all(failed)
                    rows = again

    async def _batch(self, rows: Iterable[FileRow], failed: RowTable[FileRow]) -> None:
        total, done, waiting = len(self._files.rows), 0, iter(rows)
        while not self._step.should_stop():
            taken = await asyncio.to_thread(self._process_some, waiting, failed)
            if not taken:
                return
            done += taken
            await self._step.progress(done, total, f"{self._counts.processed} processed")

    # ── one item, in a thread ──

    def _process_some(self, waiting: Iterator[FileRow], failed: RowTable[FileRow]) -> int:
        some = list(islice(waiting, ITEMS_AT_ONCE))
        for row in some:
            self._process(row, failed)
        return len(some)

    def _process(self, row: FileRow, failed: RowTable[FileRow]) -> None:
        try:
            if self._is_done(row):
                self._counts.unchanged += 1
                return
            self._make(row)
        except _OriginalMissing as missing:
            self._counts.skipped += 1
            if row.file_relative_path:
                log.warning("⚠️ %s It is downloaded again → %s", missing, row.server_relative_url)
                self._files.record(replace(row, file_relative_path=""))
        except (PageUnreadable, OSError) as error:
            log.error("❌ Processing failed: %s → %s", error, row.server_relative_url)
            self._keep_as_failed(row, str(error))
            failed.add(row)

    def _is_done(self, row: FileRow) -> bool:
        """Return whether the row's file was made of this version already, or is not to be made."""
        path = self._paths.from_map(row.file_relative_path)
        if path is None or not self._has_original(row):
            return False
        if path.parts[len(self._paths.folder.parts)] == FAILED:
            return not row.processing_error  # its embedding failed, or its path is too long: left as it is
        found = self._mirror.status(path)
        modified = timestamp_of(row.last_modified_utc)
        is_made = path == self._paths.embedded(row) and found is not None and found.is_regular
        if not is_made or found is None or modified is None or abs(found.modified_ns / 1e9 - modified) > 1e-3:
            return False
        if self._paths.source_type is SharePointType.LISTS:
            return str(found.size) == row.file_size
        with self._mirror.open_file(path) as file:
            self._count_unread(unread_web_parts(file.read(HEAD_CHARS).decode("utf-8", "replace")))
        return True

    def _has_original(self, row: FileRow) -> bool:
        with contextlib.suppress(PathRefused):
            return self._files.is_file(self._paths.original(row))
        return False

    def _make(self, row: FileRow) -> None:
        if not row.file_relative_path:
            raise _OriginalMissing("It was not downloaded.")
        if not self._has_original(row):
            raise _OriginalMissing("Its original is not there.")
        content = self._content(row)
        done = replace(row, file_relative_path=self._paths.to_map(self._paths.embedded(row)), processing_error="")
        if self._files.write(content, done) or done != row:
            self._counts.processed += 1
        else:
            self._counts.unchanged += 1

    def _content(self, row: FileRow) -> bytes:
        if self._paths.source_type is SharePointType.LISTS:
            cells = self._values.get(row.sharepoint_listitem_id) if self._titles else None
            if cells is None or self._titles is None:
                raise _OriginalMissing("The export of the list lacks it.")
            return row_markdown(self._titles, [cells[str(number)] for number in range(len(cells))]).encode()
        page = clean_page(decode_original(self._files.read(self._paths.original(row)).decode("utf-8", "replace")))
        self._count_unread(page.unread_web_parts)
        return page.html.encode()

    def _count_unread(self, web_parts: Mapping[str, int]) -> None:
        count_web_parts(self._step.statistics.coverage, web_parts)

    def _keep_as_failed(self, row: FileRow, reason: str) -> None:
        """Keep the original where failed files are, and say so in its row."""
        failed = replace(row, file_relative_path=self._paths.to_map(self._paths.failed(row)), processing_error=reason)
        try:
            self._files.write(self._files.read(self._paths.original(row)), failed)
            self._mirror.remove(self._paths.embedded(row))
        except OSError:  # the disk is what is wrong
            self._files.record(replace(row, processing_error=reason))
