"""Preview a download without doing it: the maps are made beside the real ones and removed at the end."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from core.sources.sharepoint.change_detection import ItemChange
from core.sources.sharepoint.coverage import Coverage
from core.sources.sharepoint.io import map_files
from core.sources.sharepoint.io.claimed_files import ClaimedFiles
from core.sources.sharepoint.io.comparison import gone_items, load_known, wanted_items
from core.sources.sharepoint.io.download_step import FULL, INCREMENTAL
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.io.remote_listing import RemoteListing
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, MapRow, SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import DownloadCounts
from core.sources.sharepoint.stored_source import StoredSource

MOST_NAMED = 1_000
"""Changes that are named; all are counted."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_FUTURE = 4e9
"""No download is younger: a dry run continues no run."""


@dataclass(slots=True)
class DownloadPreview:
    """What a download would do and cost."""

    counts: DownloadCounts = field(default_factory=DownloadCounts)
    """`added`, `changed` and `removed` are what would be; nothing was."""
    coverage: Coverage = field(default_factory=Coverage)
    changes: list[tuple[ItemChange, str]] = field(default_factory=list)
    """What would become of the first items, by `server_relative_url`."""
    bytes_to_download: int = 0
    requests: int = 0
    """Requests that were sent to find this out."""
    requests_to_download: int = 0

    def note(self, change: ItemChange, row: SharePointRow | FileRow) -> None:
        """Count a change, and name it while there is room."""
        name = change.lower()
        setattr(self.counts, name, getattr(self.counts, name) + 1)
        if len(self.changes) < MOST_NAMED:
            self.changes.append((change, row.server_relative_url))


async def preview(
    site: SharePointSite, storage: CrawlerStorage, source: StoredSource, dry_run_id: str, mode: str = INCREMENTAL
) -> DownloadPreview:
    """Return what a download would do. Raises SharePointUnavailable; nothing but temporary maps is written."""
    if not _ID.fullmatch(dry_run_id):
        raise ValueError(f"{dry_run_id!r} cannot be a part of a file's name")
    found, before = DownloadPreview(), site.request_count
    with ExitStack() as opened:
        mirror = MirrorStorage(storage.root, source.paths)
        opened.enter_context(_folder_for_now(mirror.folder))
        listing = opened.enter_context(RemoteListing(source, mirror.folder, found.coverage))
        await listing.read(site, lambda: False)
        rows = opened.enter_context(RowTable(mirror.folder, FileRow))
        names: dict[type[MapRow], Path] = {
            one: temporary_map(mirror.folder, one, dry_run_id) for one in (SharePointRow, FileRow)
        }
        for path in names.values():
            opened.callback(path.unlink, missing_ok=True)
        await asyncio.to_thread(_compare, mirror, listing, rows, names, mode, found)
    found.requests = site.request_count - before
    return found


def temporary_map(folder: Path, row_class: type[MapRow], dry_run_id: str) -> Path:
    stem, _, ending = row_class.file_name.rpartition(".")
    return folder / f"{stem}_{dry_run_id}.{ending}"


def _compare(
    mirror: MirrorStorage,
    listing: RemoteListing,
    rows: RowTable[FileRow],
    names: dict[type[MapRow], Path],
    mode: str,
    found: DownloadPreview,
) -> None:
    is_first = not mirror.map_path(SharePointRow).exists()
    is_known = load_known(mirror.map_path(FileRow), rows, listing.source.source_id, is_first=is_first)
    map_files.rewrite(names[SharePointRow], SharePointRow, listing.rows)
    map_files.rewrite(names[FileRow], FileRow, rows)
    map_files.load(names[SharePointRow], listing.rows, SharePointRow)
    map_files.load(names[FileRow], rows, FileRow)
    files = ClaimedFiles(mirror, rows, _write_nothing)
    found.counts.listed = len(listing.rows)
    is_full = mode == FULL or not is_known
    for change, row in wanted_items(listing, files, found.counts, is_full=is_full, began_ts=_FUTURE):
        found.note(change, row)
        if listing.source.source_type is SharePointType.FILES:  # others came with the listing
            found.bytes_to_download += int(row.file_size or 0)
            found.requests_to_download += 1
    for gone in gone_items(listing, files):
        found.note(ItemChange.REMOVED, gone)


def _write_nothing(_row: FileRow) -> None:
    """Nothing is downloaded, so no row is written."""


@contextlib.contextmanager
def _folder_for_now(folder: Path) -> Iterator[None]:
    """Have the folder of a source; one that was not there goes again, with those above it that were not."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for one in made:
            with contextlib.suppress(OSError):  # something else is in its place
                one.rmdir()
