"""The files of a vector store for one pass: found by id or by item, never all in memory. Blocks, like all of SQLite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator

from core.outputs.vector_store.file_attributes import is_of
from core.outputs.vector_store.io.named_files import NamedFiles
from core.outputs.vector_store.protocol import FileStatus, StoredFile, VectorStore
from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, as_key
from core.sources.sharepoint.stored_source import StoredSource

_LISTED_AT_ONCE = 500


class StoreListing(ScratchDatabase):
    """The files of a store, each with its item and the domain that uploaded it."""

    SCHEMA = (
        "CREATE TABLE files (id BLOB PRIMARY KEY, item BLOB NOT NULL, owner BLOB NOT NULL, file TEXT NOT NULL)"
        " WITHOUT ROWID",
        "CREATE INDEX by_item ON files (item)",
    )

    async def read(self, store: VectorStore) -> None:
        """Take every file of a store. Raises if its list cannot be read to its end: then nothing was changed."""
        some: list[StoredFile] = []
        async for one in store.files():
            some.append(one)
            if len(some) >= _LISTED_AT_ONCE:
                await asyncio.to_thread(self.add_all, some)
                some = []
        await asyncio.to_thread(self.add_all, some)

    async def take_out(self, store: VectorStore, named: NamedFiles, file_id: str) -> None:
        """Take a file out of the store, and out of the global storage if no other map names it."""
        if not await asyncio.to_thread(named.has, file_id):
            # First: if we were killed between the two, a file attached nowhere would be an orphan.
            await store.delete(file_id)
        await store.detach(file_id)
        await asyncio.to_thread(self.remove, file_id)

    def add_all(self, files: Iterable[StoredFile]) -> None:
        named = ((one, (one.attributes.get(name, "") for name in ("unique_id", "domain"))) for one in files)
        rows = ((as_key(one.file_id), *map(as_key, names), _written(one)) for one, names in named)
        self._write_all("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)

    def remove(self, file_id: str) -> None:
        self._ask("DELETE FROM files WHERE id = ?", as_key(file_id))

    def get(self, file_id: str) -> StoredFile | None:
        found = self._ask("SELECT file FROM files WHERE id = ?", as_key(file_id))
        return _read(found[0][0]) if found else None

    def of_item(self, source: StoredSource, unique_id: str) -> list[StoredFile]:
        """Return what the store has of an item, in all versions that we uploaded for this source."""
        found = self._ask("SELECT file FROM files WHERE item = ?", as_key(unique_id))
        return [one for (text,) in found if is_of(source, (one := _read(text)).attributes)]

    def of_source(self, source: StoredSource) -> Iterator[StoredFile]:
        return (one for one in self.of_domain(source.domain_id) if is_of(source, one.attributes))

    def of_domain(self, domain_id: str) -> Iterator[StoredFile]:
        """Yield the files that say they are of this domain."""
        last = b""
        query = "SELECT id, file FROM files WHERE owner = ? AND id > ? ORDER BY id LIMIT ?"
        while found := self._ask(query, as_key(domain_id), last, PAGE_ROWS):
            last = found[-1][0]
            yield from (_read(text) for _, text in found)

    def __len__(self) -> int:
        return int(self._ask("SELECT count(*) FROM files")[0][0])


def _written(one: StoredFile) -> str:
    return json.dumps([one.file_id, one.status, one.error, one.uploaded_ts, one.embedded_ts, dict(one.attributes)])


def _read(text: str) -> StoredFile:
    file_id, status, error, uploaded_ts, embedded_ts, attributes = json.loads(text)
    return StoredFile(file_id, FileStatus(status), error, uploaded_ts, embedded_ts, attributes)
