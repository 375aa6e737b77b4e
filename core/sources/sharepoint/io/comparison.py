"""Compare the remote listing with the local files. Blocks: for threads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from core.sources.sharepoint.change_detection import ItemChange, detect
from core.sources.sharepoint.coverage import count_file_type
from core.sources.sharepoint.io import map_files
from core.sources.sharepoint.io.claimed_files import ClaimedFiles
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.remote_listing import RemoteListing
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.map_csv import MapFileDamaged
from core.sources.sharepoint.step_results import DownloadCounts
from core.sources.sharepoint.time_stamps import utc_text

log = logging.getLogger("crawler")


def load_known(path: Path, rows: RowTable[FileRow], source_id: str, *, is_first: bool) -> bool:
    """Read what was downloaded; tell whether it is known. If it is not, everything must be downloaded.

    Args:
        is_first: the source was never listed, so that nothing is missing.
    """
    try:
        map_files.load(path, rows, FileRow)
    except FileNotFoundError:
        level = logging.INFO if is_first else logging.WARNING
        log.log(level, "🆕 There is no %s: everything is downloaded → %s", path.name, source_id)
        return False
    except MapFileDamaged as error:
        log.warning("⚠️ %s is damaged (%s): everything is downloaded → %s", path.name, error, source_id)
        return False
    return True


def wanted_items(
    listing: RemoteListing, files: ClaimedFiles, counts: DownloadCounts, *, is_full: bool, began_ts: float
) -> Iterator[tuple[ItemChange, SharePointRow]]:
    """Yield the items that must be downloaded, and count the others.

    Args:
        is_full: all must be, but for those that were downloaded since the run began.
    """
    began = utc_text(began_ts)
    for row in listing.rows:
        if not listing.source.source_type.is_embedded(row.file_type):
            counts.skipped_types += 1
            count_file_type(listing.coverage, row.file_type)
            log.debug("⏭️ Type %r is not embedded → %s", row.file_type, row.server_relative_url)
            continue
        old = files.rows.get(row.sharepoint_unique_file_id)
        here = old if old is not None and files.has_download(old) else None
        change = detect(row, here, is_forced=is_full and here is not None and here.downloaded_utc < began)
        if change is ItemChange.UNCHANGED:
            counts.unchanged += 1
        else:
            yield change, row


def gone_items(listing: RemoteListing, files: ClaimedFiles) -> Iterator[FileRow]:
    """Yield the rows of items that SharePoint has not any more, or not in a type that is embedded."""
    for row in files.rows:
        listed = listing.rows.get(row.sharepoint_unique_file_id)
        if listed is None or not listing.source.source_type.is_embedded(listed.file_type):
            yield row
