"""Make items due: at once, or read anew whatever their validators say. Durable before any job is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.keys import Keys
from core.store.commit import new_token
from core.store.connect import Client
from core.store.packing import packed_json

# KEYS: records · ARGV[1] JSON: ids, now, force, token, how due sets begin and end, how crash counters begin, since.
# 1 = done (also by an earlier copy of this very call), 0 = there is no such record. A parked item is free again, unless
# it is a pass that asks (since): that leaves alone what is parked, and what was checked since it was asked for.
_MAKE_DUE = """
local call = redis.call
local asked = cjson.decode(ARGV[1])
local said = {}
for i, id in ipairs(asked.ids) do
  local sources, next_at, checked = unpack(call('HMGET', KEYS[i], 'sources', 'nextCrawlAt', 'checkedTs'))
  -- A record without the field was written before there were other sources than feeds.
  if not sources and call('EXISTS', KEYS[i]) == 1 then sources = 'rss' end
  local is_left = asked.since and not asked.force and (next_at == '' or tonumber(checked or 0) >= asked.since)
  if not sources then
    said[#said + 1] = '0'
  elseif is_left then
    said[#said + 1] = '1'
  else
    if asked.force and call('HGET', KEYS[i], 'forcedBy') ~= asked.token then
      call('HINCRBY', KEYS[i], 'reindexGeneration', 1)
      call('HSET', KEYS[i], 'reindexRequested', 'true', 'forcedBy', asked.token)
      call('DEL', asked.crashes .. id)
    end
    local was_due = false
    for source in string.gmatch(sources, '[^,]+') do
      local due = asked.due_before .. source .. asked.due_after
      local score = call('ZSCORE', due, id)
      if score and tonumber(score) <= asked.now then was_due = true else call('ZADD', due, asked.now, id) end
    end
    -- What was due already keeps its place in line, and the record its time.
    if not was_due or (next_at or '') == '' or next_at > asked.iso then
      call('HSET', KEYS[i], 'nextCrawlAt', asked.iso)
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
        self,
        item_ids: Sequence[str],
        now: float,
        iso_now: str,
        *,
        force: bool = False,
        token: str = "",
        since: float | None = None,
    ) -> list[bool]:
        """Make these due at once; with `force` their generation rises, once per `token`. False: no such item.

        A pass says `since` when it was asked for: what was checked since, and what is parked, it leaves alone.
        """
        if not item_ids:
            return []
        before, after = self._keys.due("\n").split("\n")
        asked = {
            "ids": list(item_ids),
            "now": now,
            "iso": iso_now,
            "force": force,
            "token": token or new_token(),
            "due_before": before,
            "due_after": after,
            "crashes": self._keys.crashes(""),
            **({} if since is None else {"since": since}),
        }
        keys = [self._keys.item(item_id) for item_id in item_ids]
        said = await self._client.eval(_MAKE_DUE, len(keys), *keys, packed_json(asked))
        return [letter == "1" for letter in cast(str, said)]
