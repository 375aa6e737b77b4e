"""Chunks and vectors that belong to no page: search never finds them, and without a look they would stay for ever.

What has an end was written beside by a worker at work; it is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.doctor.io.index_keys import types_of
from core.keys import Keys
from core.search.io.chunk_remover import CACHE_SECONDS
from core.store.connect import Client, texts
from core.store.packing import packed_json

# KEYS[1] any key of it · ARGV[1] JSON: ids of chunks, whether they shall go, how keys begin, seconds in the cache.
# The ids that are astray. Looked at and taken away in one step, so that a swap in between is not hurt; a vector goes to
# the cache, as of every chunk that goes. What is of another type counts as nothing.
_ASTRAY = """
local call = redis.call
local asked = cjson.decode(ARGV[1])
local found = {}
for _, id in ipairs(asked.ids) do
  local chunk, vector = asked.chunk .. id, asked.vector .. id
  local is_chunk = call('TYPE', chunk).ok == 'hash'
  local item, text_hash, space = unpack(is_chunk and call('HMGET', chunk, 'item', 'text_hash', 'space') or {})
  local list = asked.chunks .. (item or '')
  local is_live = item and call('TYPE', list).ok == 'zset' and call('ZSCORE', list, id)
  if not is_live and call('TTL', is_chunk and chunk or vector) == -1 then
    found[#found + 1] = id
    if asked.fix then
      if text_hash and space and space ~= '' and call('TYPE', vector).ok == 'string' then
        local kept = asked.cache .. space .. asked.cache_hash .. text_hash
        if call('COPY', vector, kept, 'REPLACE') == 1 then call('EXPIRE', kept, asked.cache_seconds) end
      end
      call('DEL', chunk, vector)
    end
  end
end
return found
"""


class OrphanChunks:
    """Finds them, and takes them away."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def look(self, names: Sequence[str]) -> list[str]:
        """Those of these chunks that belong to no page."""
        return await self._ask(names, fix=False)

    async def lone(self, names: Sequence[str]) -> list[str]:
        """Vectors without their chunk; any other goes with it."""
        types = await types_of(self._client, [self._keys.chunk(name) for name in names])
        return [name for name, found in zip(names, types, strict=True) if found != "hash"]

    async def take_away(self, names: Sequence[str]) -> int:
        """Delete those of these chunks that still belong to no page; how many."""
        return len(await self._ask(names, fix=True))

    async def _ask(self, names: Sequence[str], *, fix: bool) -> list[str]:
        if not names:
            return []
        cache, cache_hash, _ = self._keys.embed_cache("\n", "\n").split("\n")
        asked = {
            "ids": list(names),
            "fix": fix,
            "chunk": self._keys.chunk(""),
            "chunks": self._keys.chunks(""),
            "vector": self._keys.vector(""),
            "cache": cache,
            "cache_hash": cache_hash,
            "cache_seconds": CACHE_SECONDS,
        }
        place = self._keys.chunk(names[0])
        return texts(cast(list[str], await self._client.eval(_ASTRAY, 1, place, packed_json(asked))))
