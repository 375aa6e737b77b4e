"""Compare the map files of a domain with its vector store, both ways, and repair what differs.

Files of others are left alone: only those that say they are of this domain are ever deleted. A lost map is written
again from the attributes of the files in the store, so that nothing has to be uploaded twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from core.outputs.vector_store.file_attributes import newest_live
from core.outputs.vector_store.io.embed_maps import EmbedMaps
from core.outputs.vector_store.io.local_content import LocalState, content_hash, look_at
from core.outputs.vector_store.io.named_files import NamedFiles
from core.outputs.vector_store.io.store_listing import StoreListing
from core.outputs.vector_store.protocol import StoredFile, VectorStore
from core.outputs.vector_store.store_findings import StoreFinding, StoreProblem, file_problem, rebuilt_row, row_problem
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource
from core.value_class import value_class

log = logging.getLogger("crawler")


@value_class
class CheckedDomain:
    id: str
    source_ids: Collection[str]
    """Own names of the sources that its domain.json has: a map that one of them lacks was lost."""
    busy: Collection[str] = ()
    """Own names of sources that a run is at now; they are left out."""


async def check_store(
    store: VectorStore, storage: CrawlerStorage, domain: CheckedDomain, *, fix: bool = False
) -> AsyncIterator[StoreFinding]:
    """Yield what is wrong between maps and store, with `fix` each after its repair.

    Raises VectorStoreUnavailable or VectorStoreMissing before anything is changed.
    """
    folder = storage.crawler
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with StoreListing(folder) as listing:
        await listing.read(store)
        check = _StoreCheck(store, storage, domain, listing, fix)
        for source in await asyncio.to_thread(lambda: sorted(check.sources(), key=str)):
            if source.source_id not in domain.busy:
                async for finding in check.source(source):
                    yield finding


class _StoreCheck:
    def __init__(
        self, store: VectorStore, storage: CrawlerStorage, domain: CheckedDomain, listing: StoreListing, fix: bool
    ) -> None:
        self._store = store
        self._storage = storage
        self._domain = domain
        self._listing = listing
        self._fix = fix
        self._named_files: NamedFiles

    def sources(self) -> set[StoredSource]:
        """Return the sources that have a folder here or files in the store."""
        found: set[StoredSource] = set()
        for kind in SharePointType:
            with contextlib.suppress(OSError):
                folders = (self._storage.crawler / self._domain.id / kind.folder).iterdir()
                found |= {self._named(one.name, kind) for one in folders if one.is_dir()}
        for stored in self._listing.of_domain(self._domain.id):
            with contextlib.suppress(ValueError):
                kind = SharePointType(stored.attributes.get("source_type", ""))
                found.add(self._named(stored.attributes.get("source_id", ""), kind))
        return {one for one in found if one.source_id and one.source_id == Path(one.source_id).name}

    def _named(self, source_id: str, kind: SharePointType) -> StoredSource:
        return StoredSource(self._domain.id, source_id, kind, "")

    async def source(self, source: StoredSource) -> AsyncIterator[StoreFinding]:
        has_folder = await asyncio.to_thread(self._storage.source_folder(source).is_dir)
        is_known = has_folder or source.source_id in self._domain.source_ids
        with contextlib.ExitStack() as stack:
            own_map = self._storage.map_file(source, VectorStoreRow)
            self._named_files = stack.enter_context(NamedFiles(self._storage, own_map))
            if not is_known:
                for stored in await asyncio.to_thread(lambda: list(self._listing.of_source(source))):
                    yield await self._removed(StoreProblem.UNNAMED, stored.file_id)
            elif not has_folder and not self._fix:
                yield StoreFinding(StoreProblem.NO_MAP, source.source_id)
            else:
                maps = await asyncio.to_thread(stack.enter_context, EmbedMaps(self._storage, source))
                async for finding in self._compare(source, maps):
                    yield finding

    async def _compare(self, source: StoredSource, maps: EmbedMaps) -> AsyncIterator[StoreFinding]:
        if not maps.has_rows and await asyncio.to_thread(lambda: any(self._listing.of_source(source))):
            if self._fix:
                await asyncio.to_thread(self._rebuild, source, maps)
            yield StoreFinding(StoreProblem.NO_MAP, source.source_id, self._fix)
            if not self._fix:
                return
        async for finding in self._rows(maps):
            yield finding
        async for finding in self._files(source, maps):
            yield finding
        if self._fix:
            await asyncio.to_thread(maps.finish)

    async def _rows(self, maps: EmbedMaps) -> AsyncIterator[StoreFinding]:
        def lost() -> list[VectorStoreRow]:
            rows = ((row, self._listing.get(row.openai_file_id)) for row in maps.rows)
            return [row for row, stored in rows if row_problem(row, stored, self._store.id)]

        for row in await asyncio.to_thread(lost):
            if self._fix:
                if row.vector_store_id == self._store.id:
                    await self._removed(StoreProblem.ROW_WITHOUT_FILE, row.openai_file_id)
                await asyncio.to_thread(maps.drop_row, row.sharepoint_unique_file_id)
            yield StoreFinding(StoreProblem.ROW_WITHOUT_FILE, row.openai_file_id, self._fix)

    async def _files(self, source: StoredSource, maps: EmbedMaps) -> AsyncIterator[StoreFinding]:
        def judged() -> list[tuple[StoreProblem, StoredFile]]:
            found = []
            for stored in self._listing.of_source(source):
                unique_id = stored.attributes.get("unique_id", "")
                problem = file_problem(stored, maps.rows.get(unique_id), maps.files.get(unique_id))
                if problem:
                    found.append((problem, stored))
            return found

        for problem, stored in await asyncio.to_thread(judged):
            if problem is StoreProblem.UNRECORDED and self._fix:
                await asyncio.to_thread(self._take_up, source, maps, stored)
                yield StoreFinding(problem, stored.file_id, is_healed=True)
            elif problem is StoreProblem.UNRECORDED:
                yield StoreFinding(problem, stored.file_id)
            else:
                yield await self._removed(problem, stored.file_id)

    # ── repairing ──

    async def _removed(self, problem: StoreProblem, file_id: str) -> StoreFinding:
        """Remove a file of ours; it stays in the global storage if a map of another source names it."""
        if self._fix:
            await self._listing.take_out(self._store, self._named_files, file_id)
            log.info("🧹 Removed from the vector store → %s", file_id)
        return StoreFinding(problem, file_id, self._fix)

    def _rebuild(self, source: StoredSource, maps: EmbedMaps) -> None:
        """Write a lost map again: of each item the newest version that can be found."""
        for stored in self._listing.of_source(source):
            newest = newest_live(self._listing.of_item(source, stored.attributes.get("unique_id", "")))
            if newest is not None and newest.file_id == stored.file_id:
                self._take_up(source, maps, stored)
        maps.begin_rows()

    def _take_up(self, source: StoredSource, maps: EmbedMaps, stored: StoredFile) -> None:
        file = maps.files.get(stored.attributes.get("unique_id", ""))
        is_same = file is not None and self._has_bytes(source, file, stored.attributes.get("content_hash", ""))
        maps.put_row(rebuilt_row(stored, file, self._store.id, is_same_content=is_same))

    def _has_bytes(self, source: StoredSource, file: FileRow, wanted_hash: str) -> bool:
        local = look_at(self._storage, source.paths, file)
        if local.state is not LocalState.SOUND:
            return False
        try:
            return content_hash(local.path) == wanted_hash
        except OSError:
            return False
