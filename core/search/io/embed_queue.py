"""The items that wait to be embedded, and why embedding is paused."""

from __future__ import annotations

from collections.abc import Sequence

from core.keys import Keys
from core.store.connect import Client, texts
from core.store.pipeline import read_many

MOST_LOOKED = 10_000
"""How many of the newest items are looked through: for all sources that wait, and for some that are not paused."""

# KEYS[1] what waits · ARGV how many to look through, how many to return, how keys of records begin. The newest items in
# turns: the newest of each source, then the second newest of each, so that a small source does not wait
# for a large one.
_FAIR = """
local call = redis.call
local sources, turns = {}, {}
for _, id in ipairs(call('ZREVRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  local source = call('HGET', ARGV[3] .. id, 'sources') or ''
  local turn = (sources[source] or 0) + 1
  sources[source] = turn
  if not turns[turn] then turns[turn] = {} end
  table.insert(turns[turn], id)
end
local picked = {}
for _, turn in ipairs(turns) do
  for _, id in ipairs(turn) do
    if #picked == tonumber(ARGV[2]) then return picked end
    picked[#picked + 1] = id
  end
end
return picked
"""


class EmbedQueue:
    """Reads `embed:due`, reads and writes `embed:away`. Commits put items into `embed:due` and take them out."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def count(self) -> int:
        """Return how many items wait."""
        return int(await self._client.zcard(self._keys.embed_due))

    async def next(self, count: int, paused_runs: Sequence[str] = ()) -> list[str]:
        """Return items that wait, without those of paused runs: the newest of each source in turns."""
        if count <= 0:
            return []
        # What is paused may be in front of all others.
        most = MOST_LOOKED if paused_runs else count
        reply = await self._client.eval(_FAIR, 1, self._keys.embed_due, MOST_LOOKED, most, self._keys.item(""))
        return (await self.without(texts(reply), paused_runs))[:count]

    async def without(self, item_ids: Sequence[str], paused_runs: Sequence[str]) -> list[str]:
        """Return those of the items that belong to none of these runs."""
        if not item_ids:
            return []
        asked = [("ZMSCORE", self._keys.run_items(run_id), *item_ids) for run_id in paused_runs]
        scores = await read_many(self._client, asked) if asked else []
        return [item for place, item in enumerate(item_ids) if all(one[place] is None for one in scores)]

    async def count_in(self, sources: Sequence[str]) -> int:
        """Return how many items of these sources wait; one that two of them list counts twice."""
        asked = [("ZINTERCARD", 2, self._keys.embed_due, self._keys.refs(source)) for source in sources]
        return sum(map(int, await read_many(self._client, asked))) if asked else 0

    async def pause_reason(self) -> str:
        """Return why nothing is embedded now; empty: embedding is not paused."""
        return str(await self._client.get(self._keys.embed_away) or "")

    async def pause(self, reason: str, seconds: int) -> None:
        """Send nobody work for so long."""
        await self._client.set(self._keys.embed_away, reason, ex=seconds)

    async def resume(self) -> None:
        """End a pause before its time."""
        await self._client.delete(self._keys.embed_away)
