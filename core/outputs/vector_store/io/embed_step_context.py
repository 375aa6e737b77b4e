"""What the parts of one embed step share: the store, the maps, what the store has, the counts."""

from __future__ import annotations

import asyncio
import logging

from core.outputs.vector_store.io.embed_maps import EmbedMaps
from core.outputs.vector_store.io.named_files import NamedFiles
from core.outputs.vector_store.io.store_listing import StoreListing
from core.outputs.vector_store.protocol import StoredFile, VectorStore
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.local_paths import LocalPaths
from core.sources.sharepoint.map_columns import VectorStoreRow
from core.sources.sharepoint.step_results import EmbedCounts
from core.sources.sharepoint.stored_source import StoredSource
from core.value_class import value_class

log = logging.getLogger("crawler")


@value_class
class EmbedStepContext:
    store: VectorStore
    storage: CrawlerStorage
    source: StoredSource
    paths: LocalPaths
    maps: EmbedMaps
    listing: StoreListing
    named: NamedFiles
    step: Step
    is_full: bool

    @property
    def counts(self) -> EmbedCounts:
        return self.step.statistics.embed

    def files_of(self, unique_id: str) -> list[StoredFile]:
        return self.listing.of_item(self.source, unique_id)

    async def remove_file(self, file_id: str) -> None:
        await self.listing.take_out(self.store, self.named, file_id)

    async def remove_item(self, row: VectorStoreRow) -> None:
        if row.openai_file_id:
            await self.remove_file(row.openai_file_id)
        await asyncio.to_thread(self.maps.drop_row, row.sharepoint_unique_file_id)
        self.counts.removed += 1
        log.info("🗑️ Removed from the vector store → %s", row.file_relative_path)

    def warn(self, sentence: str) -> None:
        log.warning("⚠️ %s", sentence)
        self.step.warnings.append(sentence)
