"""The files of a vector store for one pass: found by id or by item, never all in memory. Blocks, like all of SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from core.outputs.vector_store.store_files import FileStatus, StoredFile
from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, as_key


class StoreListing(ScratchDatabase):
    """The files of a store, each with its item and the domain that uploaded it."""

    SCHEMA = (
        "CREATE TABLE files (id BLOB PRIMARY KEY, item BLOB NOT NULL, owner BLOB NOT NULL, file TEXT NOT NULL)"
        " WITHOUT ROWID",
        "CREATE INDEX by_item ON files (item)",
    )

    def add_all(self, files: Iterable[StoredFile]) -> None:
        """Take files."""
        rows = ((as_key(one.file_id), as_key(_item(one)), as_key(_owner(one)), _written(one)) for one in files)
        self._write_all("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)

    def remove(self, file_id: str) -> None:
        """Leave out a file."""
        self._ask("DELETE FROM files WHERE id = ?", as_key(file_id))

    def get(self, file_id: str) -> StoredFile | None:
        """Return the file with this id."""
        found = self._ask("SELECT file FROM files WHERE id = ?", as_key(file_id))
        return _read(found[0][0]) if found else None

    def of_item(self, unique_id: str) -> list[StoredFile]:
        """Return the files whose attributes name this item, from any uploader."""
        return [_read(text) for (text,) in self._ask("SELECT file FROM files WHERE item = ?", as_key(unique_id))]

    def of_domain(self, domain_id: str) -> Iterator[StoredFile]:
        """Yield the files that say they are of this domain."""
        last = b""
        query = "SELECT id, file FROM files WHERE owner = ? AND id > ? ORDER BY id LIMIT ?"
        while found := self._ask(query, as_key(domain_id), last, PAGE_ROWS):
            last = found[-1][0]
            yield from (_read(text) for _, text in found)

    def __len__(self) -> int:
        return int(self._ask("SELECT count(*) FROM files")[0][0])


def _item(one: StoredFile) -> str:
    return one.attributes.get("unique_id", "")


def _owner(one: StoredFile) -> str:
    return one.attributes.get("domain", "")


def _written(one: StoredFile) -> str:
    return json.dumps([one.file_id, one.status, one.error, one.uploaded_ts, one.embedded_ts, dict(one.attributes)])


def _read(text: str) -> StoredFile:
    file_id, status, error, uploaded_ts, embedded_ts, attributes = json.loads(text)
    return StoredFile(file_id, FileStatus(status), error, uploaded_ts, embedded_ts, attributes)
