"""Read the chunks of many pages with their vectors in a few round trips, each page as one whole version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry import field_parsing
from core.search.protocols import is_unit_vector


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as Redis has it."""

    chunk: Chunk
    vector: bytes | None
    """None: not embedded, or in another space, or damaged."""
    damaged: bytes | None = None
    """What is stored as its vector and is none; empty: nothing, or no string."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """The chunks of one version of a page, in order."""

    chunks: list[StoredChunk]
    is_whole: bool
    """False: its list names chunks that are not there."""


# KEYS the page's list, its text · ARGV how keys of chunks and of vectors begin. The live version, then for each chunk
# its name, text, headings, text hash, space, level, types and vector; what is of another type is not there.
# One call for a page: a tenth of the time of asking for each.
_READ = """
local reply = {redis.call('HGET', KEYS[2], 'live')}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local fields = redis.pcall('HMGET', ARGV[1] .. name, 'text', 'headings', 'text_hash', 'space', 'level', 'types')
  if fields.err then fields = {false, false, false, false, false, false} end
  local vector = redis.pcall('GET', ARGV[2] .. name)
  reply[#reply + 1] = {name, unpack(fields)}
  reply[#reply][8] = type(vector) == 'string' and vector
end
return reply
"""


class ChunkReader:
    """Reads `index:chunk*` and `index:vector:*`."""

    def __init__(self, raw: Redis, keys: Keys) -> None:
        """`raw` is a client that decodes nothing."""
        self._raw = raw
        self._keys = keys

    async def read(self, versions: Mapping[str, str], space: VectorSpace | None) -> dict[str, StoredPage]:
        """Return by item id the chunks of exactly these versions; what was swapped meanwhile is left out."""
        pipe = self._raw.pipeline(transaction=False)
        for item_id in versions:
            keys = (self._keys.chunks(item_id), self._keys.document(item_id))
            pipe.eval(_READ, 2, *keys, self._keys.chunk(""), self._keys.vector(""))
        replies = await pipe.execute() if versions else []
        pages: dict[str, StoredPage] = {}
        for (item_id, version), (live, *rows) in zip(versions.items(), replies, strict=True):
            if live == version.encode("utf-8", "surrogateescape"):
                chunks = [_stored(place, row, space) for place, row in enumerate(rows) if row[1] is not None]
                pages[item_id] = StoredPage(chunks, len(chunks) == len(rows))
        return pages


def _stored(place: int, row: Sequence[Any], space: VectorSpace | None) -> StoredChunk:
    values = (value.decode("utf-8", "replace") if value else "" for value in row[:7])
    name, text, headings, text_hash, chunk_space, level, types = values
    path, kinds = (tuple(map(str, field_parsing.sequence(value))) for value in (headings, types))
    # Chunks of before these fields have neither level nor types until they are next written.
    chunk = Chunk(name, text, path, place, text_hash, field_parsing.integer(level), kinds)
    if space is None or chunk_space != space.name:
        return StoredChunk(chunk, None)
    vector = bytes(row[7] or b"")
    return StoredChunk(chunk, vector) if is_unit_vector(vector, space.dimension) else StoredChunk(chunk, None, vector)
