"""Chunks and vectors in Redis: the truth behind every search.

New ones are written beside the old, then one commit makes them the page's chunks and takes the old ones away; so a
reader sees one whole version, never half of each (trap T59). Vectors are bytes and go by a client that reads bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry.record import Item, Status, iso
from core.search.io.chunk_remover import CACHE_SECONDS, ChunkRemover, OldChunks
from core.search.vectors import is_valid
from core.store.commit import Command, batched
from core.store.connect import Client, now
from core.store.events import event
from core.store.packing import packed_json

AT_ONCE = 500
BESIDE_SECONDS = 3_600
"""What is written beside and never swapped in, since its writer died, ends by itself."""

# KEYS chunk, vector, the page's list · ARGV[1] JSON: the chunk's id, text hash and space, how long it lives beside and
# in the cache, how keys of the cache are spelt; ARGV[2] the vector or nothing, then fields. A chunk in the page's list
# stays for ever, any other ends by itself. Text, space and vector change together; a vector of another space goes to
# the cache, since somebody may go back to that model. What the cache has of the text lives on: it is in use.
_WRITE = """
local call = redis.call
local asked = cjson.decode(ARGV[1])
local before = call('HGET', KEYS[1], 'space')
if before and before ~= '' and before ~= asked.space then
  local kept = asked.cache .. before .. asked.cache_hash .. asked.text_hash
  if call('COPY', KEYS[2], kept, 'REPLACE') == 1 then call('EXPIRE', kept, asked.cache_seconds) end
end
call('HSET', KEYS[1], unpack(ARGV, 3))
call('HSETNX', KEYS[1], 'created_at', asked.created_at)
if ARGV[2] == '' then call('DEL', KEYS[2]) else call('SET', KEYS[2], ARGV[2]) end
if asked.space ~= '' then
  call('EXPIRE', asked.cache .. asked.space .. asked.cache_hash .. asked.text_hash, asked.cache_seconds)
end
if not call('ZSCORE', KEYS[3], asked.id) then
  call('EXPIRE', KEYS[1], asked.seconds)
  call('EXPIRE', KEYS[2], asked.seconds)
end
return 1
"""


# ARGV how keys of chunks, of vectors and of the cache begin, the space; then pairs of chunk id and damaged vector.
_DROP = """
local call = redis.call
local function value(key)
  local found = redis.pcall('GET', key)
  return type(found) == 'string' and found or ''
end
for i = 5, #ARGV, 2 do
  local chunk, vector = ARGV[1] .. ARGV[i], ARGV[2] .. ARGV[i]
  local text_hash, space = unpack(call('HMGET', chunk, 'text_hash', 'space'))
  if space == ARGV[4] and value(vector) == ARGV[i + 1] then
    call('HSET', chunk, 'space', '')
    call('DEL', vector)
    local kept = ARGV[3] .. (text_hash or '')
    if value(kept) == ARGV[i + 1] then call('DEL', kept) end
  end
end
return 1
"""


class ChunkStore:
    """Reads and writes `index:chunk*`, `index:vector:*` and the cache of vectors."""

    def __init__(self, client: Client, raw: Redis, keys: Keys) -> None:
        """`raw` is a client that decodes nothing."""
        self._client = client
        self._raw = raw
        self._keys = keys
        self._removal = ChunkRemover(client, keys)

    # ── before ──

    async def old(self, item_id: str) -> OldChunks:
        """The chunks that the page has now."""
        return await self._removal.old(item_id)

    async def old_of(self, item_ids: Sequence[str]) -> dict[str, OldChunks]:
        """The same of several pages, by item id."""
        return await self._removal.old_of(item_ids)

    async def vectors(
        self, chunks: Sequence[Chunk], space: VectorSpace, old: Mapping[str, tuple[str, str]] | None = None
    ) -> dict[str, bytes]:
        """Vectors that need no embedding, by text hash: of the pages' `old` chunks, or of the cache.

        A page's own count below whatever heading they stood: a heading is changed long after the cache forgot them.
        """
        wanted = dict.fromkeys(chunk.text_hash for chunk in chunks)
        own = {
            text_hash: self._keys.vector(name)
            for name, (text_hash, of) in (old or {}).items()
            if of == space.name and text_hash in wanted
        }
        found = await self._fitting(own, space)
        rest = {text_hash: self._keys.embed_cache(space.name, text_hash) for text_hash in wanted.keys() - found.keys()}
        return found | await self._fitting(rest, space)

    async def _fitting(self, places: Mapping[str, str], space: VectorSpace) -> dict[str, bytes]:
        """What is at these places, as far as it is a vector of the space."""
        names, keys = list(places), list(places.values())
        found: list[bytes | None] = []
        for start in range(0, len(keys), AT_ONCE):
            found += cast(list[bytes | None], await self._raw.mget(keys[start : start + AT_ONCE]))
        return {
            name: vector
            for name, vector in zip(names, found, strict=True)
            if vector and is_valid(vector, space.dimension)
        }

    async def drop_vectors(self, damaged: Mapping[str, bytes], space: VectorSpace) -> None:
        """Take away what stands in the place of the vectors of these chunks, by chunk id, here and in the cache.

        Their chunks are then of no space. What somebody has written since is left as it is.
        """
        cache, cache_hash, _ = self._keys.embed_cache("\n", "\n").split("\n")
        heads = (self._keys.chunk(""), self._keys.vector(""), f"{cache}{space.name}{cache_hash}", space.name)
        await self._raw.eval(_DROP, 0, *heads, *(word for pair in damaged.items() for word in pair))

    # ── writing beside ──

    async def write(
        self, item_id: str, chunks: Sequence[Chunk], space: VectorSpace | None, vectors: Mapping[str, bytes]
    ) -> None:
        """Put chunks and vectors where the swap will find them; by ids of their content, so twice is once."""
        await self.write_all({item_id: chunks}, space, vectors)

    async def write_all(
        self, pages: Mapping[str, Sequence[Chunk]], space: VectorSpace | None, vectors: Mapping[str, bytes]
    ) -> None:
        """The same for the chunks of several pages, by item id."""
        flat = [(item_id, chunk) for item_id, chunks in pages.items() for chunk in chunks]
        created_at = iso(await now(self._client)) if flat else ""
        for start in range(0, len(flat), AT_ONCE):
            pipe = self._raw.pipeline(transaction=False)
            for item_id, chunk in flat[start : start + AT_ONCE]:
                vector = vectors.get(chunk.text_hash) if space else None
                name = space.name if space and vector else ""
                keys = (self._keys.chunk(chunk.id), self._keys.vector(chunk.id), self._keys.chunks(item_id))
                words = _words(item_id, chunk, name)
                pipe.eval(_WRITE, 3, *keys, self._asked(chunk, name, created_at), vector or b"", *words)
            await pipe.execute()

    def _asked(self, chunk: Chunk, space: str, created_at: str) -> bytes:
        cache, cache_hash, _ = self._keys.embed_cache("\n", "\n").split("\n")
        asked = {
            "id": chunk.id,
            "text_hash": chunk.text_hash,
            "space": space,
            "created_at": created_at,
            "seconds": BESIDE_SECONDS,
            "cache_seconds": CACHE_SECONDS,
            "cache": cache,
            "cache_hash": cache_hash,
        }
        return packed_json(asked)

    async def remember(self, space: VectorSpace, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors of a space that is being built, or of texts that may come back."""
        pipe = self._raw.pipeline(transaction=False)
        for text_hash, vector in vectors.items():
            pipe.set(self._keys.embed_cache(space.name, text_hash), vector, ex=CACHE_SECONDS)
        if vectors:
            await pipe.execute()

    async def discard(self, chunks: Sequence[Chunk], old: OldChunks) -> None:
        """Superseded before the swap, and the lease still ours: what was written for nothing goes again."""
        extra = [chunk.id for chunk in chunks if chunk.id not in old.known]
        if extra:
            keys = [key for name in extra for key in (self._keys.chunk(name), self._keys.vector(name))]
            await self._client.delete(*keys)

    # ── the swap ──

    def swap(self, item: Item, chunks: Sequence[Chunk], old: OldChunks, at: float) -> list[Command]:
        """Commands that make these the page's chunks, and the page known to search."""
        key, status = self._keys.chunks(item.id), str(_known(item.status))
        placed = [word for place, chunk in enumerate(chunks) for word in (place, chunk.id)]
        record = {
            "status": status,
            "indexedHash": item.content_hash,
            "lastIndexed": iso(at),
            "lastIndexedDocId": item.id,
            "chunkCount": str(len(chunks)),
        }
        new = {chunk.id for chunk in chunks}
        return [
            ("DEL", key),
            *batched(("ZADD", key), placed, words_per_member=2),
            *(("PERSIST", store(chunk.id)) for chunk in chunks for store in (self._keys.chunk, self._keys.vector)),
            ("HSET", self._keys.document(item.id), "id", item.id, "live", item.content_hash),
            ("HSET", self._keys.item(item.id), *(word for pair in record.items() for word in pair)),
            ("SREM", self._keys.status(str(item.status)), item.id),
            ("SADD", self._keys.status(status), item.id),
            ("ZREM", self._keys.embed_due, item.id),
            *self._removal.let_go({name: what for name, what in old.known.items() if name not in new}),
            event(self._keys, "item.indexed", id=item.id, source=item.source, version=item.content_hash),
        ]


def _words(item_id: str, chunk: Chunk, space: str) -> list[str]:
    """Fields and values of a chunk's hash."""
    fields = {
        "item": item_id,
        "text": chunk.text,
        "headings": json.dumps(chunk.headings, ensure_ascii=False),
        "level": str(chunk.level),
        "types": json.dumps(chunk.types),
        "text_hash": chunk.text_hash,
        "space": space,
    }
    return [word for pair in fields.items() for word in pair]


def _known(status: Status) -> Status:
    """Where an item stands once search knows its text: one whose last check failed has still to be checked."""
    return status if status in (Status.ERROR, Status.OUT_OF_SCOPE) else Status.INDEXED
