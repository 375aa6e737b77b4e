"""Read the chunks of many pages with their vectors in a few round trips, each page as one whole version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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


# KEYS the page's list, its text · ARGV how keys of chunks and of vectors begin. The live version, then for each chunk
# its name, text, headings, text hash, space and vector. One call for a page: a tenth of the time of asking for each.
_READ = """
local found = {redis.call('HGET', KEYS[2], 'live')}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local text, headings, text_hash, space =
    unpack(redis.call('HMGET', ARGV[1] .. name, 'text', 'headings', 'text_hash', 'space'))
  found[#found + 1] = {name, text, headings, text_hash, space, redis.call('GET', ARGV[2] .. name)}
end
return found
"""
Row = Sequence[Any]


class ChunkReader:
    """Reads `index:chunk*` and `index:vector:*`."""

    def __init__(self, raw: Redis, keys: Keys) -> None:
        """`raw` is a client that decodes nothing."""
        self._raw = raw
        self._keys = keys

    async def read(
        self, versions: Mapping[str, str], space: Space | None, *, is_partial_fine: bool = False
    ) -> dict[str, list[StoredChunk]]:
        """By item id the chunks in order, of exactly these versions; what was swapped meanwhile is left out.

        `is_partial_fine` takes what there is of a page that lacks some.
        """
        pipe = self._raw.pipeline(transaction=False)
        for item_id in versions:
            keys = (self._keys.chunks(item_id), self._keys.document(item_id))
            pipe.eval(_READ, 2, *keys, self._keys.chunk(""), self._keys.vector(""))
        answers = await pipe.execute() if versions else []
        found: dict[str, list[StoredChunk]] = {}
        for (item_id, version), (live, *rows) in zip(versions.items(), answers, strict=True):
            is_whole = all(row[1] is not None for row in rows)
            if live == version.encode() and (is_whole or is_partial_fine):
                found[item_id] = [_stored(place, row, space) for place, row in enumerate(rows) if row[1] is not None]
        return found


def _stored(place: int, row: Row, space: Space | None) -> StoredChunk:
    name, text, headings, text_hash, of = (value.decode() if value else "" for value in row[:5])
    chunk = Chunk(name, text, tuple(json.loads(headings or "[]")), place, text_hash)
    return StoredChunk(chunk, _fit(row[5], space) if space and of == space.name else None)


def _fit(vector: bytes | None, space: Space) -> bytes | None:
    """The vector, if it is one of this space."""
    return vector if vector and len(vector) == 4 * space.dimension else None
