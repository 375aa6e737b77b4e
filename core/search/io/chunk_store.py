"""Chunks and vectors in Redis, from which every replica is built.

New ones are written next to the old, then one commit makes them the page's chunks and removes the old ones; so a reader
sees one whole version, never half of each (docs/architecture.md#swap). Vectors are bytes and need a client that does
not decode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from redis.asyncio import Redis

from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry import field_parsing
from core.registry.record import Item, Status, iso
from core.search.io.chunk_remover import CACHE_SECONDS, ChunkRefs, ChunkRemover
from core.search.vector_spaces import SEPARATOR, Spaces, parse_spaces
from core.store.commands import Command, batched, flat
from core.store.connect import Client, now
from core.store.event_command import event
from core.store.packing import packed_json
from core.value_class import value_class

AT_ONCE = 500
PENDING_SECONDS = 3_600
"""TTL of chunks until they are swapped in; those of a writer that died expire."""

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

# KEYS chunk, vector, the page's list · ARGV[1] JSON: the chunk's id, text hash and space, its TTL until the swap and in
# the cache, how keys of the cache are spelt; ARGV[2] the vector or nothing, then fields. A chunk in the page's list
# has no TTL, any other has. Text, space and vector change together; a vector of another space goes to the cache, since
# someone may go back to that model. The TTL of what the cache has of the text is renewed: it is in use.
_WRITE = """
local call = redis.call
local args = cjson.decode(ARGV[1])
local before = call('HGET', KEYS[1], 'space')
if before and before ~= '' and before ~= args.space then
  local kept = args.cache .. before .. args.cache_hash .. args.text_hash
  if call('COPY', KEYS[2], kept, 'REPLACE') == 1 then call('EXPIRE', kept, args.cache_seconds) end
end
call('HSET', KEYS[1], unpack(ARGV, 3))
call('HSETNX', KEYS[1], 'created_at', args.created_at)
if ARGV[2] == '' then call('DEL', KEYS[2]) else call('SET', KEYS[2], ARGV[2]) end
if args.space ~= '' then
  call('EXPIRE', args.cache .. args.space .. args.cache_hash .. args.text_hash, args.cache_seconds)
end
if not call('ZSCORE', KEYS[3], args.id) then
  call('EXPIRE', KEYS[1], args.seconds)
  call('EXPIRE', KEYS[2], args.seconds)
end
return 1
"""


# ARGV how keys of chunks and of vectors begin, those of the cache before and behind the name of the spaces; then pairs
# of chunk id and damaged vector.
_DROP = """
local call = redis.call
local function value(key)
  local found = redis.pcall('GET', key)
  return type(found) == 'string' and found or ''
end
for i = 5, #ARGV, 2 do
  local chunk, vector = ARGV[1] .. ARGV[i], ARGV[2] .. ARGV[i]
  local text_hash, space = unpack(call('HMGET', chunk, 'text_hash', 'space'))
  if value(vector) == ARGV[i + 1] then
    call('HSET', chunk, 'space', '')
    call('DEL', vector)
    local kept = ARGV[3] .. (space or '') .. ARGV[4] .. (text_hash or '')
    if value(kept) == ARGV[i + 1] then call('DEL', kept) end
  end
end
return 1
"""


@value_class
class StoredChunk:
    """A chunk as Redis has it."""

    chunk: Chunk
    vectors: Mapping[str, bytes] = field(default_factory=dict)
    """By the name of their space; none: not embedded, or in other spaces, or damaged."""
    damaged: bytes | None = None
    """What is stored as its vector and is none; empty: nothing, or no string."""


@value_class
class StoredPage:
    """The chunks of one version of a page, in order."""

    chunks: list[StoredChunk]
    is_whole: bool
    """False: its list names chunks that are not there."""


class ChunkStore:
    """Reads and writes `index:chunk*`, `index:vector:*` and the cache of vectors."""

    def __init__(self, client: Client, raw: Redis, keys: Keys) -> None:
        """`raw` is a client that decodes nothing."""
        self._client = client
        self._raw = raw
        self._keys = keys
        self.remover = ChunkRemover(client, keys)

    # ── reading ──

    async def read(self, versions: Mapping[str, str], spaces: Spaces) -> dict[str, StoredPage]:
        """Return by item id the chunks of exactly these versions; what was swapped meanwhile is left out."""
        pipe = self._raw.pipeline(transaction=False)
        for item_id in versions:
            keys = (self._keys.chunks(item_id), self._keys.document(item_id))
            pipe.eval(_READ, 2, *keys, self._keys.chunk(""), self._keys.vector(""))
        replies = await pipe.execute() if versions else []
        pages: dict[str, StoredPage] = {}
        for (item_id, version), (live, *rows) in zip(versions.items(), replies, strict=True):
            if live == version.encode("utf-8", "surrogateescape"):
                chunks = [_stored(place, row, spaces) for place, row in enumerate(rows) if row[1] is not None]
                pages[item_id] = StoredPage(chunks, len(chunks) == len(rows))
        return pages

    async def vectors(
        self, chunks: Sequence[Chunk], space: VectorSpace, stored: ChunkRefs | None = None
    ) -> dict[str, bytes]:
        """Return vectors that need no embedding, by text hash: of the pages' `stored` chunks, or of the cache.

        The heading does not matter: one may be changed long after the vectors have expired from the cache.
        """
        wanted = dict.fromkeys(chunk.text_hash for chunk in chunks)
        own = {
            text_hash: (self._keys.vector(name), parse_spaces(chunk_space))
            for name, (text_hash, chunk_space) in (stored or {}).items()
            if text_hash in wanted and space.name in chunk_space.split(SEPARATOR)
        }
        known = await self._read_vectors(own, space)
        alone = Spaces([space])
        rest = {
            text_hash: (self._keys.embed_cache(space.name, text_hash), alone)
            for text_hash in wanted.keys() - known.keys()
        }
        return known | await self._read_vectors(rest, space)

    async def _read_vectors(
        self, keys_by_hash: Mapping[str, tuple[str, Spaces]], space: VectorSpace
    ) -> dict[str, bytes]:
        """Read these keys, which hold vectors of these spaces, and leave out what is not a vector of the one."""
        keys = [key for key, _ in keys_by_hash.values()]
        values: list[bytes | None] = []
        for start in range(0, len(keys), AT_ONCE):
            values += cast(list[bytes | None], await self._raw.mget(keys[start : start + AT_ONCE]))
        rows = zip(keys_by_hash.items(), values, strict=True)
        parts = {text_hash: spaces.split(value or b"") for (text_hash, (_, spaces)), value in rows}
        return {text_hash: vectors[space.name] for text_hash, vectors in parts.items() if space.name in vectors}

    async def drop_vectors(self, damaged: Mapping[str, bytes]) -> None:
        """Delete damaged vectors, by chunk id, here and in the cache; their chunks are then in no space.

        What someone has written since is left as it is.
        """
        heads = (self._keys.chunk(""), self._keys.vector(""), *self._keys.embed_cache("\n", "\n").split("\n")[:2])
        await self._raw.eval(_DROP, 0, *heads, *(word for pair in damaged.items() for word in pair))

    # ── before the swap ──

    async def write(
        self, pages: Mapping[str, Sequence[Chunk]], vectors: Mapping[str, tuple[str, bytes]] | None = None
    ) -> None:
        """Write the chunks of pages, by item id, and their vectors, by chunk id, for the swap to come.

        With the vectors, one behind the other, goes the name of their spaces.

        Chunk ids follow from the content, so that writing twice changes nothing.
        """
        all_chunks = [(item_id, chunk) for item_id, chunks in pages.items() for chunk in chunks]
        cache, cache_hash, _ = self._keys.embed_cache("\n", "\n").split("\n")
        common = {
            "created_at": iso(await now(self._client)) if all_chunks else "",
            "seconds": PENDING_SECONDS,
            "cache_seconds": CACHE_SECONDS,
            "cache": cache,
            "cache_hash": cache_hash,
        }
        for start in range(0, len(all_chunks), AT_ONCE):
            pipe = self._raw.pipeline(transaction=False)
            for item_id, chunk in all_chunks[start : start + AT_ONCE]:
                name, vector = (vectors or {}).get(chunk.id, ("", b""))
                keys = (self._keys.chunk(chunk.id), self._keys.vector(chunk.id), self._keys.chunks(item_id))
                args = packed_json(common | {"id": chunk.id, "text_hash": chunk.text_hash, "space": name})
                fields: dict[str, str | int] = {
                    "item": item_id,
                    "text": chunk.text,
                    "headings": json.dumps(chunk.headings, ensure_ascii=False),
                    "level": chunk.level,
                    "types": json.dumps(chunk.types),
                    "text_hash": chunk.text_hash,
                    "space": name,
                }
                pipe.eval(_WRITE, 3, *keys, args, vector, *flat(fields))
            await pipe.execute()

    async def remember(self, space: VectorSpace, vectors: Mapping[str, bytes]) -> None:
        """Put vectors into the cache: those of a space that is being built, or of texts that may come back."""
        pipe = self._raw.pipeline(transaction=False)
        for text_hash, vector in vectors.items():
            pipe.set(self._keys.embed_cache(space.name, text_hash), vector, ex=CACHE_SECONDS)
        if vectors:
            await pipe.execute()

    async def discard(self, item_id: str, chunks: Sequence[Chunk]) -> None:
        """Delete those of the written chunks that the page does not have: its text changed before the swap."""
        stored = (await self.remover.stored([item_id]))[item_id]
        extra = [chunk.id for chunk in chunks if chunk.id not in stored]
        if extra:
            keys = [key for name in extra for key in (self._keys.chunk(name), self._keys.vector(name))]
            await self._client.delete(*keys)

    # ── the swap ──

    def swap(self, item: Item, chunks: Sequence[Chunk], stored: ChunkRefs, at: float) -> list[Command]:
        """Return commands that make these the page's chunks instead of those `stored`, and the page Indexed."""
        # One whose last check failed has still to be checked.
        stays = item.status in (Status.ERROR, Status.OUT_OF_SCOPE)
        key, status = self._keys.chunks(item.id), str(item.status if stays else Status.INDEXED)
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
            ("HSET", self._keys.item(item.id), *flat(record)),
            ("SREM", self._keys.status(str(item.status)), item.id),
            ("SADD", self._keys.status(status), item.id),
            ("ZREM", self._keys.embed_due, item.id),
            *self.remover.remove_chunks({name: ref for name, ref in stored.items() if name not in new}),
            *self._counted(len(new - stored.keys())),
            event(self._keys, "item.indexed", id=item.id, source=item.source, version=item.content_hash),
        ]

    def _counted(self, chunks: int) -> list[Command]:
        """Return commands that count a page, and its chunks that search did not have."""
        key = self._keys.embed_stats
        more: list[Command] = [("HINCRBY", key, name, chunks) for name in ("chunks", "written") if chunks]
        return [("HINCRBY", key, "pages", 1), *more]


def _stored(place: int, row: Sequence[Any], live: Spaces) -> StoredChunk:
    values = (value.decode("utf-8", "replace") if value else "" for value in row[:7])
    name, text, headings, text_hash, chunk_space, level, types = values
    path, kinds = (tuple(map(str, field_parsing.sequence(value))) for value in (headings, types))
    # Chunks of before these fields have neither level nor types until they are next written.
    chunk = Chunk(name, text, path, place, text_hash, field_parsing.integer(level), kinds)
    spaces = parse_spaces(chunk_space)
    if not spaces or not live.has_all(spaces):
        return StoredChunk(chunk)
    value = bytes(row[7] or b"")
    vectors = spaces.split(value)
    return StoredChunk(chunk, vectors) if vectors else StoredChunk(chunk, {}, value)
