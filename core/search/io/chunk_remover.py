"""Remove a page from search with all its chunks; their vectors stay in the cache for a return or a move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.keys import Keys
from core.store.commands import Command
from core.store.connect import Client, texts
from core.store.pipeline import read_many

CACHE_SECONDS = 30 * 86_400


class ChunkRef(NamedTuple):
    """Where the vector of a stored chunk belongs in the cache; both are empty if the chunk is damaged."""

    text_hash: str
    space: str


ChunkRefs = Mapping[str, ChunkRef]
"""The stored chunks of a page, by chunk id."""


class ChunkRemover:
    """Tells what to delete; a commit does it."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def stored(self, item_ids: Sequence[str]) -> dict[str, ChunkRefs]:
        """Read the chunks that pages have now, by item id."""
        lists = await read_many(self._client, [("ZRANGE", self._keys.chunks(item_id), 0, -1) for item_id in item_ids])
        pages = dict(zip(item_ids, map(texts, lists), strict=True))
        names = [name for listed in pages.values() for name in listed]
        rows = await read_many(
            self._client, [("HMGET", self._keys.chunk(name), "text_hash", "space") for name in names]
        )
        pairs = zip(names, rows, strict=True)
        refs = {name: ChunkRef(text_hash or "", space or "") for name, (text_hash, space) in pairs}
        return {item_id: {name: refs[name] for name in listed} for item_id, listed in pages.items()}

    async def remove_page(self, item_id: str) -> list[Command]:
        """Return commands that leave nothing of the page in search."""
        return self.remove_stored(item_id, (await self.stored([item_id]))[item_id])

    def remove_stored(self, item_id: str, stored: ChunkRefs) -> list[Command]:
        """Return commands that leave nothing of the page in search; `stored` are its chunks."""
        dequeue: list[Command] = [("ZREM", self._keys.embed_due, item_id)]
        return [*dequeue, ("DEL", self._keys.chunks(item_id)), *self.remove_chunks(stored)] if stored else dequeue

    def remove_chunks(self, chunks: ChunkRefs) -> list[Command]:
        """Return commands that delete these chunks and keep their vectors for a while."""
        commands: list[Command] = []
        for name, (text_hash, space) in chunks.items():
            if text_hash and space:
                kept = self._keys.embed_cache(space, text_hash)
                # COPY of what is not there does nothing, where RENAME would be an error in the middle of a commit.
                commands += [("COPY", self._keys.vector(name), kept, "REPLACE"), ("EXPIRE", kept, CACHE_SECONDS)]
            commands.append(("DEL", self._keys.chunk(name), self._keys.vector(name)))
        return [*commands, ("HINCRBY", self._keys.embed_stats, "chunks", -len(chunks))] if chunks else []
