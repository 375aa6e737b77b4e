"""Clean `files_metadata.json`: remove entries of files that the store no longer has, and of items that are gone."""

from __future__ import annotations

import asyncio
import logging

from core.outputs.vector_store.file_metadata import Entry
from core.outputs.vector_store.io.metadata_file import clean
from core.outputs.vector_store.io.named_files import vector_store_maps
from core.outputs.vector_store.protocol import VectorStore
from core.outputs.vector_store.store_files import VectorStoreUnavailable
from core.sources.sharepoint.io.seen_ids import SeenIds
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_csv import MapFileDamaged, decode
from core.sources.sharepoint.map_rows import VectorStoreRow

log = logging.getLogger("crawler")


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
        found = await asyncio.to_thread(clean, storage, domain_id, is_kept, dry_run=dry_run)
    if dry_run:
        return found
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
