"""The embed step: bring the vector store up to date with the files of one source.

    list the store ─► clean the map ─► remove ─► compare ─► upload, wait, swap ─► files_metadata.json

Everything can be repeated: a run that was killed at any point is continued by the next one, since the attributes of a
file in the store say whose it is and which bytes it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from core.outputs.vector_store.embed_changes import EmbedChange, change_of, failed_folder_sentence, subfolder_of
from core.outputs.vector_store.io import metadata_file
from core.outputs.vector_store.io.embed_comparison import FILES_AT_ONCE, EmbedComparison
from core.outputs.vector_store.io.embed_maps import EmbedMaps
from core.outputs.vector_store.io.embed_step_context import EmbedStepContext
from core.outputs.vector_store.io.embed_uploads import EmbedUploads
from core.outputs.vector_store.io.named_files import NamedFiles
from core.outputs.vector_store.io.store_listing import StoreListing
from core.outputs.vector_store.protocol import FileStatus, StoredFile, VectorStore, VectorStoreUnavailable
from core.outputs.vector_store.store_findings import row_problem
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.sources.sharepoint.step_results import EmbedCounts
from core.sources.sharepoint.stored_source import StoredSource

log = logging.getLogger("crawler")


async def embed(
    store: VectorStore, storage: CrawlerStorage, source: StoredSource, step: Step, *, is_full: bool
) -> EmbedCounts:
    """Bring the store up to date. Raises VectorStoreMissing, or VectorStoreUnavailable before anything is changed."""
    with contextlib.ExitStack() as stack:
        maps = await asyncio.to_thread(stack.enter_context, EmbedMaps(storage, source))
        listing = stack.enter_context(StoreListing(storage.source_folder(source)))
        named = stack.enter_context(NamedFiles(storage, storage.map_file(source, VectorStoreRow)))
        one = EmbedStepContext(store, storage, source, source.paths, maps, listing, named, step, is_full)
        if not one.maps.has_files:
            one.warn(f"{source.source_id} has no readable {FileRow.file_name}: nothing is embedded until its download.")
            return one.counts
        await _Embedding(one).run()
        await asyncio.to_thread(metadata_file.record, storage, source, one.maps)
    return step.statistics.embed


class _Embedding:
    def __init__(self, one: EmbedStepContext) -> None:
        self._pass = one
        self._maps = one.maps
        self._counts = one.counts
        self._uploads = EmbedUploads(one)

    async def run(self) -> None:
        await self._pass.listing.read(self._pass.store)
        await self._uploads.forget_begun()
        await self._clean()
        await self._remove_lost()
        await asyncio.to_thread(self._maps.begin_rows)
        await EmbedComparison(self._pass, self._uploads).run()
        await self._uploads.finish(FILES_AT_ONCE)
        if not self._pass.step.should_stop():
            await self._remove_leftovers()
        with contextlib.suppress(VectorStoreUnavailable):  # the note stays, and the next run does it
            await self._uploads.forget_begun()
        await asyncio.to_thread(self._maps.finish)
        await asyncio.to_thread(self._tell_failed)

    def _tell_failed(self) -> None:
        """Count what is in `03_failed`, also from earlier runs: search does not find it."""
        step, failed = self._pass.step, CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER
        count = sum(subfolder_of(file.file_relative_path) == failed for file in self._maps.files)
        self._counts.in_failed_folder = count
        if count:
            sentence = failed_folder_sentence(count)
            log.warning("⚠️ %s → %s", sentence, self._pass.source.source_id)
            if not step.warnings:  # other counts name the files that failed in this run
                step.warnings.append(sentence)

    # ── what the store or the disk has lost ──

    async def _clean(self) -> None:
        get, store_id = self._pass.listing.get, self._pass.store.id
        lost = await asyncio.to_thread(
            lambda: [row for row in self._maps.rows if row_problem(row, get(row.openai_file_id), store_id)]
        )
        for row in lost:
            found = await asyncio.to_thread(self._pass.listing.get, row.openai_file_id)
            if found is not None and row.vector_store_id == self._pass.store.id:
                await self._pass.remove_file(row.openai_file_id)
            await asyncio.to_thread(self._maps.drop_row, row.sharepoint_unique_file_id)
            self._counts.cleaned += 1
            log.info("🧹 Not in the vector store any more → %s", row.file_relative_path)

    async def _remove_lost(self) -> None:
        gone = await asyncio.to_thread(lambda: list(self._maps.rows.missing_from(self._maps.files)))
        for row in gone:
            if self._pass.step.should_stop():
                return
            await self._pass.remove_item(row)

    async def _remove_leftovers(self) -> None:
        """Remove files of ours that no row names: old versions whose end a killed process did not see."""
        leftovers = await asyncio.to_thread(
            lambda: [one.file_id for one in self._pass.listing.of_source(self._pass.source) if self._is_left_over(one)]
        )
        for file_id in leftovers:
            await self._pass.remove_file(file_id)
            log.info("🧹 Removed an upload that no map names → %s", file_id)

    def _is_left_over(self, one: StoredFile) -> bool:
        unique_id = one.attributes.get("unique_id", "")
        row, file = self._maps.rows.get(unique_id), self._maps.files.get(unique_id)
        if row is not None and row.openai_file_id:
            # A new version that is not embedded yet has no row; it goes, or the old one, when that is known.
            return row.openai_file_id != one.file_id and one.status is not FileStatus.IN_PROGRESS
        # In doubt it stays: the item may only wait for its download.
        return file is None or change_of(file, row) is EmbedChange.FAILED
