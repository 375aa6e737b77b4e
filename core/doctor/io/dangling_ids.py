"""Find and remove ids without a record that a set of the registry, a source or search still names.

No pass visits such an item, and none registers it again as long as its source seems to know it; so it is removed
everywhere, and its sources list again.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.doctor.io.key_types import NOTHING, KeyTypes
from core.keys import Keys
from core.registry import item_keys
from core.registry.io.removal_commands import Remover
from core.registry.record import Status
from core.search.io.chunk_remover import ChunkRemover
from core.sources.io.source_store import SourceStore
from core.store.commands import Command
from core.store.connect import Client
from core.store.pipeline import read_many


class DanglingIds:
    """Finds them, and tells how to remove them."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._types = KeyTypes(client, keys)
        self._sources = SourceStore(client, keys)
        self._chunks = ChunkRemover(client, keys)
        self._remover = Remover(client, keys)

    async def sources(self) -> list[str]:
        """Return the ids of all sources, also of those that always exist."""
        return item_keys.every_source(await self._sources.ids())

    async def find(self, item_ids: Sequence[str], place: str = "") -> list[str]:
        """Return those of the ids that have no record and are named somewhere, or in the set `place`."""
        types = await self._types.types_of([self._keys.item(item_id) for item_id in item_ids])
        gone = [item_id for item_id, kind in zip(item_ids, types, strict=True) if kind == NOTHING]
        sources = await self.sources() if gone else []
        return [item_id for item_id in gone if await self._is_named(item_id, sources, place)]

    async def commands(self, item_id: str, place: str = "") -> list[Command]:
        """Return commands that leave nothing of it but its links: other pages may be reached only by them."""
        keys, sources = self._keys, await self.sources()
        return [
            *await self._chunks.remove_page(item_id),
            ("DEL", *item_keys.text_keys(keys, item_id), keys.crashes(item_id)),
            *self._remover.images(await self._remover.images_of(item_id)),
            *(("SREM", key, item_id) for key in self._sets(sources, place)),
            *(("ZREM", key, item_id) for key in item_keys.item_ranks(keys, sources)),
            *await self._list_again(item_id, sources),
        ]

    async def _list_again(self, item_id: str, sources: Sequence[str]) -> list[Command]:
        """Sources that had it forget their last listing, and find it again if it is there."""
        configs = [("HEXISTS", self._keys.source(sid), "config") for sid in sources]
        scores = [("ZSCORE", self._keys.refs(sid), item_id) for sid in sources]
        replies = await read_many(self._client, [*configs, *scores])
        rows = zip(sources, replies[: len(sources)], replies[len(sources) :], strict=True)
        had = [sid for sid, has_config, score in rows if has_config and score is not None]
        return [("HSET", self._keys.source(sid), "links_dirty", "1", "memory", "{}") for sid in had]

    async def _is_named(self, item_id: str, sources: Sequence[str], place: str) -> bool:
        sets, ranks = self._sets(sources, place), item_keys.item_ranks(self._keys, sources)
        has_text: Command = ("EXISTS", self._keys.document(item_id), self._keys.chunks(item_id))
        is_member = [("SISMEMBER", key, item_id) for key in sets]
        scores = [("ZSCORE", key, item_id) for key in ranks]
        replies = await read_many(self._client, [has_text, *is_member, *scores])
        return any(replies[: len(sets) + 1]) or any(score is not None for score in replies[len(sets) + 1 :])

    def _sets(self, sources: Sequence[str], place: str) -> list[str]:
        statuses = [self._keys.status(str(status)) for status in Status]
        return [*statuses, *map(self._keys.listed, sources), *([place] if place else [])]
