"""`files_metadata.json` of a domain: read entry by entry, changed under a lock, written whole or not at all.

What people added to entries is kept. A file that cannot be read is put aside, never overwritten. Blocks; use threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from core.outputs.vector_store.file_metadata import Entry, carried_over, entry_of, is_recorded, updated
from core.outputs.vector_store.io.embed_maps import EmbedMaps
from core.outputs.vector_store.io.json_entries import EntriesDamaged, read_entries
from core.outputs.vector_store.io.named_files import vector_store_maps
from core.outputs.vector_store.protocol import VectorStore, VectorStoreUnavailable
from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, SeenIds, as_key
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import VectorStoreRow
from core.sources.sharepoint.map_csv import MapFileDamaged, decode
from core.sources.sharepoint.stored_source import StoredSource
from core.store import folder_lock, private_files

log = logging.getLogger("crawler")

LOCK_SECONDS = 120.0


def record(storage: CrawlerStorage, source: StoredSource, maps: EmbedMaps) -> int:
    """Give every embedded file of a source its entry; return how many are new or changed."""
    with open_metadata(storage, source.domain_id) as entries:
        for row in maps.rows:
            if is_recorded(row):
                listed = maps.listed.get(row.sharepoint_unique_file_id)
                entries.put(entry_of(source, row, listed))
        return entries.changes


def clean(storage: CrawlerStorage, domain_id: str, is_kept: Callable[[Entry], bool]) -> dict[str, int]:
    """Remove the entries that are not kept; return how many, and how many remain."""
    with open_metadata(storage, domain_id) as entries:
        removed = entries.remove_unless(is_kept)
        return {"removed": removed, "remaining": len(entries)}


def count_stale(storage: CrawlerStorage, domain_id: str, is_kept: Callable[[Entry], bool]) -> dict[str, int]:
    """Return how many entries `clean` would remove, and how many would remain; nothing is written."""
    path = storage.files_metadata(domain_id)
    if not path.exists():
        return {"removed": 0, "remaining": 0}
    with MetadataEntries(path.parent) as entries:
        _load(path, entries)
        kept = sum(map(is_kept, entries))
        return {"removed": len(entries) - kept, "remaining": kept}


@contextlib.contextmanager
def open_metadata(storage: CrawlerStorage, domain_id: str) -> Iterator[MetadataEntries]:
    """Open the entries of a domain to change them; they are written at the end if anything has changed."""
    path = storage.files_metadata(domain_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock.held(path.parent, LOCK_SECONDS), MetadataEntries(path.parent) as entries:
        private_files.remove_left(path)
        is_sound = _load(path, entries)
        yield entries
        if not is_sound:
            _put_aside(path)
        if entries.changes or not path.exists():
            private_files.write_pieces(path, entries.pieces(), is_durable=True)


class MetadataEntries(ScratchDatabase):
    """The entries in their order, found by file and by item, never all in memory."""

    SCHEMA = (
        "CREATE TABLE entries (n INTEGER PRIMARY KEY, file BLOB, item BLOB, entry TEXT)",
        "CREATE INDEX by_file ON entries (file)",
        "CREATE INDEX by_item ON entries (item)",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.changes = 0

    def __len__(self) -> int:
        return int(self._ask("SELECT count(*) FROM entries")[0][0])

    def __iter__(self) -> Iterator[Entry]:
        yield from (entry for _, entry in self._numbered())

    def append(self, entry: Entry) -> None:
        values = (as_key(str(entry.get("openai_file_id", ""))), as_key(str(entry.get("sharepoint_unique_file_id", ""))))
        self._ask("INSERT INTO entries (file, item, entry) VALUES (?, ?, ?)", *values, _written(entry))

    def put(self, entry: Entry) -> None:
        """Take the entry of an embedded file: a new version of an item inherits what people added to the last one."""
        found = self._ask("SELECT n, entry FROM entries WHERE file = ?", as_key(str(entry["openai_file_id"])))
        if found:
            number, text = found[0]
            known = json.loads(text)
            now = updated(known, entry)
            if now != known:
                self._ask("UPDATE entries SET entry = ? WHERE n = ?", _written(now), number)
                self.changes += 1
            return
        item = as_key(str(entry["sharepoint_unique_file_id"]))
        previous = [json.loads(text) for (text,) in self._ask("SELECT entry FROM entries WHERE item = ?", item)]
        self.append(carried_over(entry, previous))
        self.changes += 1

    def remove_unless(self, is_kept: Callable[[Entry], bool]) -> int:
        removed = [number for number, entry in self._numbered() if not is_kept(entry)]
        for number in removed:
            self._ask("DELETE FROM entries WHERE n = ?", number)
        self.changes += len(removed)
        return len(removed)

    def pieces(self) -> Iterator[bytes]:
        before = "[\n"
        for entry in self:
            text = json.dumps(entry, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace").decode()
            yield (before + "  " + text.replace("\n", "\n  ")).encode()
            before = ",\n"
        yield b"[]\n" if before == "[\n" else b"\n]\n"

    def _numbered(self) -> Iterator[tuple[int, Entry]]:
        last = 0
        query = "SELECT n, entry FROM entries WHERE n > ? ORDER BY n LIMIT ?"
        while found := self._ask(query, last, PAGE_ROWS):
            last = found[-1][0]
            yield from ((number, json.loads(text)) for number, text in found)


def _written(entry: Entry) -> str:
    return json.dumps(entry)


def _load(path: Path, entries: MetadataEntries) -> bool:
    """Read the file; False if it is damaged: then the part before the damage was read."""
    try:
        with path.open("rb") as file:
            for entry in read_entries(file):
                entries.append(entry)
    except FileNotFoundError:
        return True
    except EntriesDamaged as error:
        log.warning(
            "⚠️ %s cannot be read → %s. It is kept beside a new one, with the entries before that place.", path, error
        )
        return False
    return True


def _put_aside(path: Path) -> None:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    path.replace(path.with_name(f"{path.name}.damaged-{stamp}"))


# ── cleanup ──


async def clean_metadata(
    store: VectorStore, storage: CrawlerStorage, domain_id: str, *, dry_run: bool = False
) -> dict[str, int]:
    """Remove stale entries, or only count them; return `{"removed": n, "remaining": n}`.

    Raises VectorStoreMissing, or VectorStoreUnavailable if the store or a map cannot be read to its end: then nothing
    is removed, since everything would seem to be gone.
    """
    with SeenIds() as file_ids, SeenIds() as unique_ids:
        async for one in store.files():
            file_ids.add(one.file_id)

        def is_kept(entry: Entry) -> bool:
            is_item = str(entry.get("sharepoint_unique_file_id", "")) in unique_ids
            return is_item and str(entry.get("openai_file_id", "")) in file_ids

        await asyncio.to_thread(_read_items, storage, domain_id, unique_ids)
        if dry_run:
            return await asyncio.to_thread(count_stale, storage, domain_id, is_kept)
        found = await asyncio.to_thread(clean, storage, domain_id, is_kept)
    log.info("🧹 Cleaned the metadata of %s → %d removed, %d remain", domain_id, found["removed"], found["remaining"])
    return found


def _read_items(storage: CrawlerStorage, domain_id: str, unique_ids: SeenIds) -> None:
    for path in vector_store_maps(storage, domain_id):
        try:
            with path.open("rb") as lines:
                for row in decode(lines, VectorStoreRow):
                    unique_ids.add(row.sharepoint_unique_file_id)
        except (MapFileDamaged, OSError) as error:
            raise VectorStoreUnavailable(
                f"{path} cannot be read ({error}); nothing is cleaned. Embed the domain again: that writes it anew."
            ) from None
