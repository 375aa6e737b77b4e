"""Which vector space this store is in. Vectors of two spaces are never compared (trap T70).

A new space is built beside the live one, in the cache of vectors; the cut-over is one step. After it the pages are made
due, so that workers take their new vectors out of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from core.errors import SettingsError
from core.keys import Keys
from core.models import Space
from core.registry import Status
from core.stores.connect import Client

FIELD = "space"

# KEYS pairs of record and chunk list · ARGV[1] JSON: ids, space, now, the keys of two status sets and of what
# waits, how chunk keys begin. How many were changed. Twice is once: what waits already is not Indexed any more.
_MAKE_DUE = """
local call = redis.call
local asked = cjson.decode(ARGV[1])
local changed = 0
for i, id in ipairs(asked.ids) do
  local record, chunks = KEYS[2 * i - 1], KEYS[2 * i]
  local first = call('ZRANGE', chunks, 0, 0)[1]
  local space = first and call('HGET', asked.chunk .. first, 'space')
  if call('HGET', record, 'status') == asked.indexed and first and space ~= asked.space then
    call('HSET', record, 'status', asked.crawled, 'indexedHash', '')
    call('SREM', asked.indexed_set, id)
    call('SADD', asked.crawled_set, id)
    call('ZADD', asked.due, asked.now, id)
    changed = changed + 1
  end
end
return changed
"""


class Spaces:
    """The space of the live index."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def current(self) -> str:
        """The name of the live space; empty: nothing was ever embedded."""
        return str(await self._client.hget(self._keys.version, FIELD) or "")

    async def live(self) -> Space | None:
        """The live space; None: nothing was ever embedded."""
        return _parsed(await self.current())

    async def claim(self, space: Space | None) -> None:
        """A new store takes the first space; another one than the store's is refused with a sentence."""
        if space is None:
            return
        await self._client.hsetnx(self._keys.version, FIELD, space.name)
        current = await self.current()
        if current != space.name:
            raise SettingsError(refusal(current, space))

    def still(self, space: Space | None) -> tuple[str, ...]:
        """What a commit expects: that nobody cut over to another space meanwhile."""
        return (self._keys.version, FIELD, space.name) if space else ()

    async def cut_over(self, space: Space) -> None:
        """From now on this is the live space; whoever was refused for it may come again."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.version, FIELD, space.name)
            pipe.delete(self._keys.embed_away)
            await pipe.execute()

    async def make_due(self, item_ids: Sequence[str], space: Space, now: float) -> int:
        """Those of the pages whose chunks are of another space wait for an embed worker again; how many."""
        if not item_ids:
            return 0
        asked = {
            "ids": list(item_ids),
            "space": space.name,
            "now": f"{now:.3f}",
            "indexed": str(Status.INDEXED),
            "crawled": str(Status.CRAWLED),
            "indexed_set": self._keys.status(str(Status.INDEXED)),
            "crawled_set": self._keys.status(str(Status.CRAWLED)),
            "due": self._keys.embed_due,
            "chunk": self._keys.chunk(""),
        }
        keys = [key for item_id in item_ids for key in (self._keys.item(item_id), self._keys.chunks(item_id))]
        return int(cast(int, await self._client.eval(_MAKE_DUE, len(keys), *keys, msgspec.json.encode(asked))))


def refusal(current: str, space: Space) -> str:
    """Why vectors of this space are not used now, and what to do."""
    return (
        f"This store's vectors are of {current}, the settings ask for {space.name}; they cannot be compared. "
        "`python -m scripts.reindex --embeddings` builds the new ones beside the old and then changes over."
    )


def _parsed(name: str) -> Space | None:
    """A space by its name, as `Space.name` spells it."""
    model, dimension, chunker = ["", "", *name.rsplit("-", 2)][-3:]
    if not (dimension.isdigit() and chunker.startswith("c")):
        return None
    return Space(model, int(dimension), chunker[1:])
