"""Which vector space the store is in. Vectors of two spaces are never compared (docs/architecture.md#vector-spaces).

A new space is built next to the live one, in the cache of vectors; the cut-over is one step. After it the pages are
made due, so that workers take their new vectors out of the cache. A store without vectors gets its first ones likewise,
and one that should have none any more loses them: `None` is the space of no vectors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

from core.errors import SettingsError
from core.keys import Keys
from core.models import VectorSpace
from core.registry.record import Status
from core.search.protocols import MOST_DIMENSIONS
from core.store import scanning
from core.store.connect import Client
from core.store.packing import packed_json
from core.store.pipeline import read_many

SPACE_FIELD = "space"

BATCH = 500
_INDEXED = ("indexedHash", "parentPageId", "aliasOf")
MAY_BE_INDEXED = (Status.INDEXED, Status.ERROR, Status.OUT_OF_SCOPE)
"""Statuses of pages whose chunks search may have; what is Crawled waits already."""

# KEYS pairs of record and chunk list · ARGV[1] JSON: ids, space, now, two statuses with the keys of their sets, the key
# of what waits, how chunk keys begin. How many were changed. Twice is once: what waits already has no indexedHash.
# What is in trouble stays so, and its text waits all the same.
_MAKE_DUE = """
local call = redis.call
local args = cjson.decode(ARGV[1])
local changed = 0
local function is_of_another(chunks)
  for _, name in ipairs(call('ZRANGE', chunks, 0, -1)) do
    if call('HGET', args.chunk .. name, 'space') ~= args.space then return true end
  end
  return false
end
for i, id in ipairs(args.ids) do
  local record, chunks = KEYS[2 * i - 1], KEYS[2 * i]
  local status, known = unpack(call('HMGET', record, 'status', 'indexedHash'))
  local is_indexed = status == args.indexed
  if (is_indexed or (known and known ~= '')) and (args.is_damaged or is_of_another(chunks)) then
    call('HSET', record, 'indexedHash', '')
    if is_indexed then
      call('HSET', record, 'status', args.crawled)
      call('SREM', args.indexed_set, id)
      call('SADD', args.crawled_set, id)
    end
    call('ZADD', args.due, args.now, id)
    changed = changed + 1
  end
end
return changed
"""


class VectorSpaceStore:
    """Reads and changes the space of the live index."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def current(self) -> str:
        """Return the name of the live space; empty: nothing was ever embedded."""
        return str(await self._client.hget(self._keys.version, SPACE_FIELD) or "")

    async def live(self) -> VectorSpace | None:
        """Return the live space; None: nothing was ever embedded."""
        return parse_name(await self.current())

    async def claim(self, space: VectorSpace | None, now: float) -> None:
        """Make this the live space of a store without vectors. Raises SettingsError if another one is live."""
        current = await self.current()
        if space is not None and not current:
            # Before, so that after a crash in between the next worker begins again; and once more for what a worker
            # without vectors swapped in meanwhile. Search goes on by words.
            await self.make_all_due(space, now)
            await self._client.hsetnx(self._keys.version, SPACE_FIELD, space.name)
            await self.make_all_due(space, now)
            current = await self.current()
        if current != (space.name if space else ""):
            raise SettingsError(refusal(current, space) if space else without_vectors(current))

    def expectation(self, space: VectorSpace | None) -> tuple[str, ...]:
        """Return what a commit expects: that the live space is still this one."""
        return (self._keys.version, SPACE_FIELD, space.name if space else "0")

    async def cut_over(self, space: VectorSpace | None) -> None:
        """Make this the live space, and end the pause of workers that were refused for it."""
        async with self._client.pipeline(transaction=True) as pipe:
            if space is None:
                pipe.hdel(self._keys.version, SPACE_FIELD)
            else:
                pipe.hset(self._keys.version, SPACE_FIELD, space.name)
            pipe.delete(self._keys.embed_away)
            await pipe.execute()

    async def make_all_due(self, space: VectorSpace | None, now: float) -> int:
        """Queue every page with chunks that are not of this space for embedding; return how many."""
        return sum([await self.make_due(item_ids, space, now) async for item_ids in self._may_be_indexed()])

    async def rebuild_all(self, now: float, should_stop: Callable[[], bool] = lambda: False) -> AsyncIterator[int]:
        """Queue every page for embedding, whatever its chunks say; yield how many each batch had.

        A worker cuts the text anew and swaps the new chunks in; until then search has the old ones.
        """
        space = await self.live()
        async for item_ids in self._may_be_indexed():
            if should_stop():
                return
            rows = await read_many(self._client, [("HMGET", self._keys.item(one), *_INDEXED) for one in item_ids])
            # Images and aliases have no text of their own.
            pages = [one for one, row in zip(item_ids, rows, strict=True) if row[0] and not (row[1] or row[2])]
            yield await self.make_due(pages, space, now, is_damaged=True)

    async def _may_be_indexed(self) -> AsyncIterator[list[str]]:
        for status in MAY_BE_INDEXED:
            async for item_ids in scanning.set_members(self._client, self._keys.status(str(status)), BATCH):
                yield item_ids

    async def make_due(
        self, item_ids: Sequence[str], space: VectorSpace | None, now: float, *, is_damaged: bool = False
    ) -> int:
        """Queue those of the pages that have chunks of another space for embedding; return how many.

        `is_damaged`: queue all of them, whatever their chunks say.
        """
        if not item_ids:
            return 0
        args = {
            "ids": list(item_ids),
            "space": space.name if space else "",
            "now": f"{now:.3f}",
            "indexed": str(Status.INDEXED),
            "crawled": str(Status.CRAWLED),
            "indexed_set": self._keys.status(str(Status.INDEXED)),
            "crawled_set": self._keys.status(str(Status.CRAWLED)),
            "due": self._keys.embed_due,
            "chunk": self._keys.chunk(""),
            "is_damaged": is_damaged,
        }
        keys = [key for item_id in item_ids for key in (self._keys.item(item_id), self._keys.chunks(item_id))]
        return int(cast(int, await self._client.eval(_MAKE_DUE, len(keys), *keys, packed_json(args))))


def refusal(current: str, space: VectorSpace) -> str:
    """Explain why vectors of this space are not used now, and what to do."""
    return (
        f"This store's vectors are of {current}, the settings ask for {space.name}; they cannot be compared. "
        "`python -m scripts.reindex --embeddings` builds the new ones beside the old and then changes over."
    )


def without_vectors(current: str) -> str:
    """Explain why a worker without an embedder may not index into this store, and what to do."""
    return (
        f"This store's vectors are of {current}, and EMBEDDER is none: pages would be lost to search by meaning. "
        "Set EMBEDDER back to what made them; or `EMBEDDER=none python -m scripts.reindex --embeddings` does without."
    )


def parse_name(name: str) -> VectorSpace | None:
    """Return the space of this name, as `VectorSpace.name` spells it; None if it is no such name."""
    model, dimension, chunker = ["", "", *name.rsplit("-", 2)][-3:]
    if not (dimension.isdecimal() and 0 < int(dimension) <= MOST_DIMENSIONS and chunker.startswith("c")):
        return None
    return VectorSpace(model, int(dimension), chunker[1:])
