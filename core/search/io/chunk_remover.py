"""Take a page out of search with all its chunks; their vectors stay in the cache for a return or a move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.keys import Keys
from core.store.commit import Command
from core.store.connect import Client, texts

CACHE_SECONDS = 30 * 86_400


@dataclass(frozen=True, slots=True)
class OldChunks:
    """What a page's chunks are: id → (text hash, space)."""

    known: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class ChunkRemover:
    """Says what to delete; a commit does it."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def old(self, item_id: str) -> OldChunks:
        """The chunks that the page has now."""
        return (await self.old_of([item_id]))[item_id]

    async def old_of(self, item_ids: Sequence[str]) -> dict[str, OldChunks]:
        """The same of several pages, by item id."""
        pipe = self._client.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.zrange(self._keys.chunks(item_id), 0, -1)
        lists = dict(zip(item_ids, map(texts, await pipe.execute() if item_ids else []), strict=True))
        names = [name for listed in lists.values() for name in listed]
        for name in names:
            pipe.hmget(self._keys.chunk(name), ["text_hash", "space"])
        found = dict(zip(names, await pipe.execute() if names else [], strict=True))
        said = {name: (text_hash or "", space or "") for name, (text_hash, space) in found.items()}
        return {item_id: OldChunks({name: said[name] for name in listed}) for item_id, listed in lists.items()}

    async def of(self, item_id: str) -> list[Command]:
        """Commands that leave nothing of the page in search."""
        gone: list[Command] = [("ZREM", self._keys.embed_due, item_id)]
        old = await self.old(item_id)
        return [*gone, ("DEL", self._keys.chunks(item_id)), *self.let_go(old.known)] if old.known else gone

    def let_go(self, old: Mapping[str, tuple[str, str]]) -> list[Command]:
        """Commands that delete these chunks and keep their vectors for a while."""
        commands: list[Command] = []
        for name, (text_hash, space) in old.items():
            if text_hash and space:
                kept = self._keys.embed_cache(space, text_hash)
                # COPY of what is not there does nothing, where RENAME would be an error in the middle of a commit.
                commands += [("COPY", self._keys.vector(name), kept, "REPLACE"), ("EXPIRE", kept, CACHE_SECONDS)]
            commands.append(("DEL", self._keys.chunk(name), self._keys.vector(name)))
        return commands
