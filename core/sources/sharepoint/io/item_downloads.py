"""Download items, several at once, and record each as soon as it is on the disk.

What fails is tried again in the next batch. A stop ends between items, or within a download, which is then as if it had
not begun.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path

from core.sources.sharepoint.change_detection import is_changed
from core.sources.sharepoint.io.claimed_files import ClaimedFiles
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.remote_listing import RemoteListing
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.local_paths import LocalPaths, PathRefused
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.page_html import encode_original
from core.sources.sharepoint.remote_items import DownloadFailed, RemoteItem, SharePointStopped, SharePointUnavailable
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import timestamp_text, utc_text

log = logging.getLogger("crawler")

TOO_LONG = "The path is longer than this file system takes. The file is kept by a shorter name and is not embedded."
MOST_UNAVAILABLE = 20
"""Downloads in a row for which the server could not be asked, after all tries: then the rest waits for the next run."""
_READ_AHEAD = 200


class DownloadOutcome(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    RESTORED = "restored"
    """It is known and has not changed, but it was missing on the disk."""
    FAILED = "failed"
    REFUSED = "refused"
    """It can never be a file here: another try would not help."""
    STOPPED = "stopped"


_DOWNLOADED = (DownloadOutcome.ADDED, DownloadOutcome.CHANGED, DownloadOutcome.RESTORED)


@dataclass(slots=True)
class ItemDownloads:
    """The downloads of one step."""

    site: SharePointSite
    listing: RemoteListing
    files: ClaimedFiles
    paths: LocalPaths
    step: Step
    problem: str = ""
    """Why the downloads were given up."""
    _unavailable: int = 0
    _is_left: threading.Event = field(default_factory=threading.Event)
    """The step ends early, whatever the run says."""

    def should_stop(self) -> bool:
        return self._is_left.is_set() or self.step.should_stop()

    async def bring_all(self, items: RowTable[SharePointRow]) -> None:
        """Download these items; those that fail are tried again in up to `retry_batches` batches."""
        counts = self.step.statistics.download
        for number in range(1, max(self.step.retry_batches, 1) + 1):
            with RowTable(self.listing.folder, SharePointRow) as failed:
                await self._batch(items, failed)
                is_last = number >= self.step.retry_batches or self.should_stop() or not len(failed)
                if is_last:
                    counts.failed += len(failed)
                    return
                items.clear()
                items.add_all(failed)
            counts.retried += len(items)
            source_id = self.step.statistics.source_id
            log.info("🔁 Batch %d tries %d failed downloads again → %s", number + 1, len(items), source_id)

    async def _batch(self, items: RowTable[SharePointRow], failed: RowTable[SharePointRow]) -> None:
        counts, total, done = self.step.statistics.download, len(items), 0
        rows, workers = _ReadAhead(items), min(self.step.downloads_at_once, total)
        threads = ThreadPoolExecutor(max(workers, 1), "sharepoint-download")

        async def work() -> None:
            nonlocal done
            while not self.should_stop() and (row := await rows.next()) is not None:
                outcome = await asyncio.get_running_loop().run_in_executor(threads, self._try, row)
                done += outcome is not DownloadOutcome.STOPPED
                if outcome is DownloadOutcome.FAILED:
                    failed.add(row)
                else:
                    self._count(outcome)
                await self.step.progress(done, total, f"{counts.downloaded} downloaded")

        try:
            await asyncio.gather(*(work() for _ in range(workers)))
        except BaseException:
            self._is_left.set()  # the threads end at their next look
            raise
        finally:
            await asyncio.to_thread(threads.shutdown)

    def _count(self, outcome: DownloadOutcome) -> None:
        counts = self.step.statistics.download
        counts.added += outcome is DownloadOutcome.ADDED
        counts.changed += outcome is DownloadOutcome.CHANGED
        counts.missing_on_disk += outcome is DownloadOutcome.RESTORED
        counts.downloaded += outcome in _DOWNLOADED
        counts.failed += outcome is DownloadOutcome.REFUSED

    # ── one item, in a thread ──

    def _try(self, row: SharePointRow) -> DownloadOutcome:
        outcome = self._planned(row)
        try:
            self.bring(row)
        except SharePointStopped:
            return DownloadOutcome.STOPPED
        except PathRefused as error:
            self._record_failure(row, str(error))
            return DownloadOutcome.REFUSED
        except (DownloadFailed, OSError) as error:
            if self.should_stop():
                return DownloadOutcome.STOPPED
            self._record_failure(row, str(error))
            self._give_up_if_in_vain(error)
            return DownloadOutcome.FAILED
        self._unavailable = 0
        return outcome

    def _planned(self, row: SharePointRow) -> DownloadOutcome:
        """Return what the download of an item will have been, if it succeeds."""
        old = self.files.rows.get(row.sharepoint_unique_file_id)
        # If two files swap their names, the second has lost its path to the first by now.
        if old is None or not (old.file_relative_path or old.downloaded_utc):
            return DownloadOutcome.ADDED
        if not is_changed(row, old) and not self.files.has_all(old):
            return DownloadOutcome.RESTORED
        return DownloadOutcome.CHANGED

    def _give_up_if_in_vain(self, error: Exception) -> None:
        """A server that is down would let every single download wait for all of its tries."""
        is_unavailable = isinstance(error.__cause__, SharePointUnavailable)
        self._unavailable = self._unavailable + 1 if is_unavailable else 0
        if self._unavailable >= MOST_UNAVAILABLE and not self._is_left.is_set():
            self.problem = f"{self._unavailable} downloads in a row failed, the others wait for the next crawl: {error}"
            self._is_left.set()

    def bring(self, row: SharePointRow) -> FileRow:
        """Download an item to its place and write it down. Raises PathRefused, DownloadFailed, SharePointStopped."""
        target, now = self.paths.downloaded(row), self.step.now()
        done = replace(
            local_row(row),
            file_relative_path=self.paths.to_map(target),
            downloaded_utc=utc_text(now),
            downloaded_timestamp=timestamp_text(now),
        )
        if self.paths.is_too_long(row):
            log.warning("⚠️ %s → %s", TOO_LONG, row.server_relative_url[:200])
            done = replace(done, sharepoint_error=TOO_LONG)
        if self.paths.source_type is SharePointType.LISTS:
            self.files.take(done)  # the export of the list has all of its rows already
        else:
            download = self.files.mirror.new_download()
            self._fetch(row, download)
            self.files.place(download, done)
        log.info("📥 Downloaded → %s", row.server_relative_url)
        return done

    def _fetch(self, row: SharePointRow, new: Path) -> None:
        if self.paths.source_type is SharePointType.FILES:
            self.site.download(RemoteItem(row), new, self.should_stop)
            return
        values = self.listing.values.get(row.sharepoint_unique_file_id)
        if values is None:
            raise DownloadFailed("The listing has no text of this page.")
        new.write_text(encode_original(values), encoding="utf-8", newline="")

    def _record_failure(self, row: SharePointRow, reason: str) -> None:
        """Write down why; a file that was downloaded before stays, with the fields it was downloaded by."""
        log.error("❌ Download failed: %s → %s", reason, row.server_relative_url)
        old = self.files.rows.get(row.sharepoint_unique_file_id)
        known = old if old is not None and old.file_relative_path else local_row(row)
        self.files.record(replace(known, sharepoint_error=reason))


class _ReadAhead:
    """Hands out the rows of a table one by one; reads some hundred at once, in a thread."""

    def __init__(self, rows: Iterable[SharePointRow]) -> None:
        self._rows = iter(rows)
        self._ahead: deque[SharePointRow] = deque()
        self._lock = asyncio.Lock()

    async def next(self) -> SharePointRow | None:
        async with self._lock:
            if not self._ahead:
                self._ahead.extend(await asyncio.to_thread(lambda: list(islice(self._rows, _READ_AHEAD))))
            return self._ahead.popleft() if self._ahead else None


def local_row(row: SharePointRow) -> FileRow:
    return FileRow.from_cells(dict(zip(row.columns(), row.cells(), strict=True)))
