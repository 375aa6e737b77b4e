"""Is every item in the sets that its record says: of its status, and of no other, and of its partition?

The record is the truth; the sets are made of it, and made anew from it where they differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import cast

from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status
from core.store import scanning
from core.store.connect import Client, texts
from core.store.packing import packed_json

SCAN = 500

# KEYS[1] any key of it · ARGV[1] JSON: ids of items, whether to set it right, all statuses, how keys begin.
# The ids that are not where their records say. Looked at and set right in one step: a commit changes both together.
_MISPLACED = """
local call = redis.call
local asked = cjson.decode(ARGV[1])
local is_status = {}
for _, name in ipairs(asked.statuses) do is_status[name] = true end
local found = {}
local function place(key, id, should_be)
  local is_there = call('SISMEMBER', key, id) == 1
  if is_there == should_be then return 0 end
  if asked.fix then call(should_be and 'SADD' or 'SREM', key, id) end
  return 1
end
for _, id in ipairs(asked.ids) do
  local key = asked.item .. id
  local is_record = call('TYPE', key).ok == 'hash'
  local status, partition = unpack(is_record and call('HMGET', key, 'status', 'PartitionKey') or {})
  if status and is_status[status] then
    local wrong = 0
    for _, name in ipairs(asked.statuses) do wrong = wrong + place(asked.status .. name, id, name == status) end
    if (partition or '') ~= '' then wrong = wrong + place(asked.partition .. partition, id, true) end
    if wrong > 0 then found[#found + 1] = id end
  end
end
return found
"""


class RegistrySets:
    """Finds what is not where it belongs, and puts it there."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    # ── who is named where ──

    async def partitions(self) -> AsyncIterator[tuple[str, list[str]]]:
        """Every partition and its items, in pieces."""
        async for names in scanning.keys(self._client, self._keys.pattern(self._keys.partition), kind="SET"):
            for key in names:
                async for some in scanning.set_members(self._client, key, SCAN):
                    yield key, some

    async def of_status(self, status: Status) -> AsyncIterator[list[str]]:
        """What is said to be of this status, in pieces."""
        async for some in scanning.set_members(self._client, self._keys.status(str(status)), SCAN):
            yield some

    async def of_sources(self) -> AsyncIterator[list[str]]:
        """What any source names, in pieces; an item in several sets comes several times."""
        for sid in await self.sources():
            for place in (self._keys.refs, self._keys.due, self._keys.seen):
                async for some in scanning.zset_members(self._client, place(sid), SCAN):
                    yield some
            async for some in scanning.set_members(self._client, self._keys.listed(sid), SCAN):
                yield some

    async def waiting(self) -> AsyncIterator[list[str]]:
        """What waits for an embed worker, in pieces."""
        async for some in scanning.zset_members(self._client, self._keys.embed_due, SCAN):
            yield some

    async def sources(self) -> list[str]:
        """All sources, also those that are always there."""
        return [ARTICLES_SOURCE, URLS_SOURCE, *sorted(texts(await self._client.smembers(self._keys.sources)))]

    # ── who is in the wrong place ──

    async def look(self, item_ids: Sequence[str]) -> list[str]:
        """Those of the items that are not in the sets of their records."""
        return await self._ask(item_ids, fix=False)

    async def set_right(self, item_ids: Sequence[str]) -> list[str]:
        """Put those of the items that still are not there where they belong; which."""
        return await self._ask(item_ids, fix=True)

    async def _ask(self, item_ids: Sequence[str], *, fix: bool) -> list[str]:
        if not item_ids:
            return []
        asked = {
            "ids": list(item_ids),
            "fix": fix,
            "statuses": [str(status) for status in Status],
            "item": self._keys.item(""),
            "status": self._keys.status(""),
            "partition": self._keys.partition(""),
        }
        place = self._keys.item(item_ids[0])
        return texts(cast(list[str], await self._client.eval(_MISPLACED, 1, place, packed_json(asked))))
