"""Read and set the vector spaces of the store. Two are never compared (docs/architecture.md#vector-spaces).

The main model has one, and that of other languages another, if its package is installed. A new space is built next to
the live one, in the cache of vectors; the cut-over is one step. After it the pages are made due, so that workers take
their new vectors out of the cache. A store without vectors gets its first ones likewise, and one that should have none
any more loses them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import cast

from core.errors import SettingsError
from core.keys import Keys
from core.registry.record import Status
from core.search.vector_spaces import Spaces, parse_spaces
from core.store import scanning
from core.store.connect import Client
from core.store.packing import packed_json
from core.store.pipeline import read_many

log = logging.getLogger("embed")

SPACE_FIELD = "space"

BATCH = 500
_INDEXED = ("indexedHash", "parentPageId", "aliasOf")
MAY_BE_INDEXED = (Status.INDEXED, Status.ERROR, Status.OUT_OF_SCOPE)
"""Statuses of pages whose chunks search may have; what is Crawled waits already."""

# KEYS pairs of record and chunk list · ARGV[1] JSON: ids, the spaces that each should be in (or for all of them those
# that any may be in), now, two statuses with the keys of their sets, the key of what waits, how chunk keys begin.
# How many were changed. Twice is once: what waits already has no indexedHash. What is in trouble stays so, and its text
# waits all the same.
_MAKE_DUE = """
local call = redis.call
local args = cjson.decode(ARGV[1])
local changed = 0
local function is_of_another(id, chunks)
  for _, name in ipairs(call('ZRANGE', chunks, 0, -1)) do
    local space = call('HGET', args.chunk .. name, 'space') or ''
    local wanted = args.wanted[id]
    if wanted and space ~= wanted or not wanted and not args.known[space] then return true end
  end
  return false
end
for i, id in ipairs(args.ids) do
  local record, chunks = KEYS[2 * i - 1], KEYS[2 * i]
  local status, known = unpack(call('HMGET', record, 'status', 'indexedHash'))
  local is_indexed = status == args.indexed
  if (is_indexed or (known and known ~= '')) and (args.is_damaged or is_of_another(id, chunks)) then
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


# KEYS[1] a hash · ARGV field, value before, value after.
_REPLACE = """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
"""


class VectorSpaceStore:
    """Reads and changes the spaces of the live index."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def current(self) -> str:
        """Return the name of the live spaces; empty: nothing was ever embedded."""
        return str(await self._client.hget(self._keys.version, SPACE_FIELD) or "")

    async def live(self) -> Spaces:
        """Return the live spaces; empty: nothing was ever embedded."""
        return parse_spaces(await self.current())

    async def claim(self, spaces: Spaces, now: float) -> str:
        """Make these the live spaces of a store without vectors, add that of other languages to those of a store that
        lacks it; return the name of what is live now. Raises SettingsError if another main space is live."""
        current = await self.current()
        if spaces and not current:
            # Before, so that after a crash in between the next worker begins again; and once more for what a worker
            # without vectors swapped in meanwhile. Search goes on by words.
            await self.make_all_due(spaces, now)
            await self._client.hsetnx(self._keys.version, SPACE_FIELD, spaces.name)
            await self.make_all_due(spaces, now)
            current = await self.current()
        live = parse_spaces(current)
        is_extended = len(live) == 1 and not live.has_all(spaces)
        if live.main != spaces.main or not (live.has_all(spaces) or is_extended):
            raise SettingsError(refusal(current, spaces) if spaces else without_vectors(current))
        return await self._add(current, spaces) if is_extended else current

    async def _add(self, before: str, spaces: Spaces) -> str:
        """Add the space of other languages, unless somebody changed the live ones; return the name of these."""
        await self._client.eval(_REPLACE, 1, self._keys.version, SPACE_FIELD, before, spaces.name)
        log.info(
            "🌍 Pages in other languages than English get vectors too from now on; those that are there already "
            "by `freshet reindex --embeddings`"
        )
        return await self.current()

    def expectation(self, live_name: str) -> tuple[str, ...]:
        """Return what a commit expects: that the live spaces are still these."""
        return (self._keys.version, SPACE_FIELD, live_name or "0")

    async def cut_over(self, spaces: Spaces) -> None:
        """Make these the live spaces, and end the pause of workers that were refused for them."""
        async with self._client.pipeline(transaction=True) as pipe:
            if spaces:
                pipe.hset(self._keys.version, SPACE_FIELD, spaces.name)
            else:
                pipe.hdel(self._keys.version, SPACE_FIELD)
            pipe.delete(self._keys.embed_away)
            await pipe.execute()

    async def make_all_due(self, spaces: Spaces, now: float) -> int:
        """Queue every page with chunks that are in none of these spaces for embedding; return how many."""
        known = known_names(spaces)
        return sum([await self.make_due(item_ids, now, known=known) async for item_ids in self.may_be_indexed()])

    async def rebuild_all(self, now: float, should_stop: Callable[[], bool] = lambda: False) -> AsyncIterator[int]:
        """Queue every page for embedding, whatever its chunks say; yield how many each batch had.

        A worker cuts the text anew and swaps the new chunks in; until then search has the old ones.
        """
        async for item_ids in self.may_be_indexed():
            if should_stop():
                return
            rows = await read_many(self._client, [("HMGET", self._keys.item(one), *_INDEXED) for one in item_ids])
            # Images and aliases have no text of their own.
            pages = [one for one, row in zip(item_ids, rows, strict=True) if row[0] and not (row[1] or row[2])]
            yield await self.make_due(pages, now, is_damaged=True)

    async def may_be_indexed(self) -> AsyncIterator[list[str]]:
        """Yield the ids of all pages whose chunks search may have, in batches."""
        for status in MAY_BE_INDEXED:
            async for item_ids in scanning.set_members(self._client, self._keys.status(str(status)), BATCH):
                yield item_ids

    async def make_due(
        self,
        item_ids: Sequence[str],
        now: float,
        wanted: Mapping[str, str] | None = None,
        *,
        known: Sequence[str] = (),
        is_damaged: bool = False,
    ) -> int:
        """Queue those of the pages for embedding that have chunks of other spaces than wanted; return how many.

        `wanted`: the name of the spaces by item id; for others any of the `known` ones will do. `is_damaged`: queue all
        of them, whatever their chunks say.
        """
        if not item_ids:
            return 0
        args = {
            "ids": list(item_ids),
            "wanted": dict(wanted or {}),
            "known": dict.fromkeys(known, True),
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


def known_names(spaces: Spaces) -> tuple[str, ...]:
    """Return the names that chunks may have of these spaces: one, or all of them."""
    return tuple(dict.fromkeys((spaces.name, *(space.name for space in spaces))))


def refusal(current: str, spaces: Spaces) -> str:
    """Explain why vectors of these spaces are not used now, and what to do."""
    return (
        f"This store's vectors are of {current}, the settings ask for {spaces.name}; they cannot be compared. "
        "`python -m scripts.reindex --embeddings` builds the new ones beside the old and then changes over."
    )


def without_vectors(current: str) -> str:
    """Explain why a worker without an embedder may not index into this store, and what to do."""
    return (
        f"This store's vectors are of {current}, and EMBEDDER is none: pages would be lost to search by meaning. "
        "Set EMBEDDER back to what made them; or `EMBEDDER=none python -m scripts.reindex --embeddings` does without."
    )
