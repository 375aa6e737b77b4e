"""Read the chunks of many pages with their vectors in a few round trips, each page as one whole version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from core.keys import Keys
from core.models import Chunk, Space


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as Redis has it."""

    chunk: Chunk
    vector: bytes | None
    """None: not embedded, or in another space."""


class ChunkReader:
    """Reads `index:chunk*` and `index:vector:*`."""

    def __init__(self, raw: Redis, keys: Keys) -> None:
        """`raw` is a client that decodes nothing."""
        self._raw = raw
        self._keys = keys

    async def read(
        self, versions: Mapping[str, str], space: Space | None, *, is_partial_fine: bool = False
    ) -> dict[str, list[StoredChunk]]:
        """By item id the chunks in order, of exactly these versions; what is swapped just now is left out.

        Whoever asks has seen that version live; it is asked for once more after the chunks. `is_partial_fine` takes
        what there is of a page that lacks some.
        """
        names = await self._names(list(versions))
        rows, live = await self._rows(names)
        found: dict[str, list[StoredChunk]] = {}
        for item_id, version in versions.items():
            own = rows[item_id]
            is_whole = all(values[0] is not None for _, values, _ in own)
            if live[item_id] == version.encode() and (is_whole or is_partial_fine):
                found[item_id] = [_stored(place, row, space) for place, row in enumerate(own) if row[1][0] is not None]
        return await self._with_cached(found, space)

    async def _names(self, item_ids: list[str]) -> dict[str, list[bytes]]:
        pipe = self._raw.pipeline(transaction=False)
        for item_id in item_ids:
            pipe.zrange(self._keys.chunks(item_id), 0, -1)
        return dict(zip(item_ids, await pipe.execute() if item_ids else [], strict=True))

    async def _rows(
        self, names: Mapping[str, list[bytes]]
    ) -> tuple[dict[str, list[tuple[str, list[Any], bytes | None]]], dict[str, bytes | None]]:
        """Each chunk's name, fields and vector; and, asked for last, which version of the page is live."""
        pipe = self._raw.pipeline(transaction=False)
        for own in names.values():
            for name in own:
                pipe.hmget(self._keys.chunk(name.decode()), ["text", "headings", "text_hash", "space"])
                pipe.get(self._keys.vector(name.decode()))
        for item_id in names:
            pipe.hget(self._keys.document(item_id), "live")
        answers = iter(await pipe.execute() if names else [])
        rows = {item: [(name.decode(), next(answers), next(answers)) for name in own] for item, own in names.items()}
        return rows, {item_id: next(answers) for item_id in names}

    async def _with_cached(
        self, found: dict[str, list[StoredChunk]], space: Space | None
    ) -> dict[str, list[StoredChunk]]:
        """After a cut-over the vector may still be where it was built."""
        missing = [one for own in found.values() for one in own if one.vector is None] if space else []
        if not space or not missing:
            return found
        pipe = self._raw.pipeline(transaction=False)
        for one in missing:
            pipe.get(self._keys.embed_cache(space.name, one.chunk.text_hash))
        cached = {one.chunk.id: _fit(vector, space) for one, vector in zip(missing, await pipe.execute(), strict=True)}
        return {
            item_id: [StoredChunk(one.chunk, one.vector or cached.get(one.chunk.id)) for one in own]
            for item_id, own in found.items()
        }


def _stored(place: int, row: tuple[str, list[Any], bytes | None], space: Space | None) -> StoredChunk:
    name, values, vector = row
    text, headings, text_hash, of = (value.decode() if value else "" for value in values)
    chunk = Chunk(name, text, tuple(json.loads(headings or "[]")), place, text_hash)
    return StoredChunk(chunk, _fit(vector, space) if space and of == space.name else None)


def _fit(vector: bytes | None, space: Space) -> bytes | None:
    """The vector, if it is one of this space."""
    return vector if vector and len(vector) == 4 * space.dimension else None
