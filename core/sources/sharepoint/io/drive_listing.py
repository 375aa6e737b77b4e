"""List a library whose drive is known: if Graph says that nothing has changed, the last listing is given again.

What was listed last is `sharepoint_map.csv`. It is taken only if it has the very rows of the listing after which the
link was noted, so neither a kill between the two nor an edit by hand can hide a change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from core.sources.sharepoint.io import map_files
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.listing_memory import ListingMemory, RowsDigest, fingerprint
from core.sources.sharepoint.map_columns import SharePointRow
from core.sources.sharepoint.map_csv import MapFileDamaged
from core.sources.sharepoint.remote_items import RemoteItem
from core.sources.sharepoint.stored_source import StoredSource
from core.store import private_files

MEMORY_FILE = "graph_delta.json"
MOST_MEMORY_BYTES = 100_000
ROWS_IN_PAGE = 1_000
log = logging.getLogger("crawler")


def drive_listing(site: SharePointSite, source: StoredSource, folder: Path) -> Iterator[list[RemoteItem]]:
    """Yield the files of the library, as `SharePointSite.library` does; `folder` is that of the source."""
    memory = _read(folder / MEMORY_FILE, fingerprint(source))
    with RowTable(folder, SharePointRow) as known:
        is_known = memory is not None and _load(folder, known) == memory.rows
        state = site.drive_state(source.drive_id, memory.link if memory is not None and is_known else "")
        if state.is_unchanged:
            log.info("✅ Nothing has changed since the last listing → %s", source.source_id)
            rows = iter(known)
            while page := list(islice(rows, ROWS_IN_PAGE)):
                yield [RemoteItem(row) for row in page]
            return
    digest = RowsDigest()
    for items in site.library(source.sharepoint_url_part, source.filter):
        digest.add(item.row for item in items)
        yield items
    if state.link:
        noted = ListingMemory(fingerprint(source), state.link, digest.text())
        private_files.write_bytes(folder / MEMORY_FILE, msgspec.json.format(msgspec.json.encode(noted), indent=1))


def _read(path: Path, source: str) -> ListingMemory | None:
    """Return what was noted for this configuration of the source."""
    try:
        with path.open("rb") as file:
            memory = msgspec.json.decode(file.read(MOST_MEMORY_BYTES), type=ListingMemory)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return memory if memory.source == source else None


def _load(folder: Path, known: RowTable[SharePointRow]) -> str:
    """Read the last listing and return its digest; empty if it cannot be read."""
    try:
        map_files.load(folder / SharePointRow.file_name, known, SharePointRow)
    except (MapFileDamaged, OSError):
        return ""
    digest = RowsDigest()
    digest.add(known)
    return digest.text()
