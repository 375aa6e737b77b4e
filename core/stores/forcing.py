"""Make items due: at once, or read anew whatever their validators say. Durable before any job is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from core.keys import Keys
from core.stores.connect import Client

# KEYS: records · ARGV[1] JSON: ids, now, force, token, how due sets begin and end, how crash counters begin.
# 1 = done (also by an earlier copy of this very call), 0 = there is no such record. A parked item is free again.
_MAKE_DUE = """
local call = redis.call
local asked = cjson.decode(ARGV[1])
local said = {}
for i, id in ipairs(asked.ids) do
  local sources = call('HGET', KEYS[i], 'sources')
  if not sources then
    said[#said + 1] = '0'
  else
    if asked.force and call('HGET', KEYS[i], 'forcedBy') ~= asked.token then
      call('HINCRBY', KEYS[i], 'reindexGeneration', 1)
      call('HSET', KEYS[i], 'reindexRequested', 'true', 'forcedBy', asked.token)
      call('DEL', asked.crashes .. id)
    end
    call('HSET', KEYS[i], 'nextCrawlAt', asked.iso)
    for source in string.gmatch(sources, '[^,]+') do
      local due = asked.due_before .. source .. asked.due_after
      local score = call('ZSCORE', due, id)
      if not score or tonumber(score) > asked.now then call('ZADD', due, asked.now, id) end
    end
    said[#said + 1] = '1'
  end
end
return table.concat(said)
"""


class Forcing:
    """Raises generations and due stamps, a batch in one step."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def make_due(
        self, item_ids: Sequence[str], now: float, iso_now: str, *, force: bool = False, token: str = ""
    ) -> list[bool]:
        """Make these due at once; with `force` their generation rises, once per `token`. False: no such item."""
        if not item_ids:
            return []
        before, after = self._keys.due("\n").split("\n")
        asked = {
            "ids": list(item_ids),
            "now": now,
            "iso": iso_now,
            "force": force,
            "token": token,
            "due_before": before,
            "due_after": after,
            "crashes": self._keys.crashes(""),
        }
        keys = [self._keys.item(item_id) for item_id in item_ids]
        said = await self._client.eval(_MAKE_DUE, len(keys), *keys, msgspec.json.encode(asked))
        return [letter == "1" for letter in cast(str, said)]
