"""What is due? Oldest first, each host its share, and nothing twice.

Picking moves the due stamp ahead in the same step: a job that is lost costs its items that time and no more, and two
timers never pick the same. The record's `nextCrawlAt` keeps saying when the item became due, until it is visited or
put off; that somebody visits it, `lockedUntil` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.keys import Keys
from core.store.commit import DONE_MILLISECONDS, LEASE_SECONDS, new_token
from core.store.connect import Client

LOOK = 5_000
"""How many of the oldest are looked at for one pick; more of a host than its share are passed over."""
NO_SHARE = 1_000_000
HOLD_AT_ONCE = 1_000
HOLD_SECONDS = 900.0
"""How long an item of a job is held back: longer than a job lasts, so a lost job costs its items this and no more."""
RUN_HOLD_SECONDS = 1.5 * LEASE_SECONDS
"""How long a pass holds back what it picked. A living pass renews it; what a dead one had is due within two leases."""

# KEYS[1] due, KEYS[2] answer · ARGV: now, new stamp, wanted, share per host, how many to look at, how record keys
# begin, life of the answer. Returns the ids, oldest first; a resend gets the same.
# If one host fills all that was looked at, what was passed over goes to the end of the line, in its order: else nobody
# behind it would be seen before it is done.
_PICK = """
local call = redis.call
local before = call('GET', KEYS[2])
if before then return cjson.decode(before) end
local wanted, share, look = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local is_shared = share < 1000000
local oldest = call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, is_shared and look or wanted)
local picked, passed, by_host = {}, {}, {}
for _, id in ipairs(oldest) do
  if #picked >= wanted then break end
  local is_taken = true
  if is_shared then
    local host = call('HGET', ARGV[6] .. id, 'sourceHost') or ''
    by_host[host] = (by_host[host] or 0) + 1
    is_taken = by_host[host] <= share
  end
  if is_taken then
    call('ZADD', KEYS[1], 'XX', ARGV[2], id)
    picked[#picked + 1] = id
  else
    passed[#passed + 1] = id
  end
end
if is_shared and #oldest >= look and #picked < wanted then
  for i, id in ipairs(passed) do
    call('ZADD', KEYS[1], 'XX', string.format('%.6f', tonumber(ARGV[1]) - (#passed - i) * 0.000001), id)
  end
end
if #picked > 0 then call('SET', KEYS[2], cjson.encode(picked), 'PX', ARGV[7]) end
return picked
"""


class DueItems:
    """The due sets of all sources."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def pick(
        self, source: str, now: float, wanted: int, hold_seconds: float, share_per_host: int = NO_SHARE
    ) -> list[str]:
        """Ids of the source that are due, held back for so long."""
        words = (now, now + hold_seconds, wanted, share_per_host, LOOK, self._keys.item(""), DONE_MILLISECONDS)
        keys = (self._keys.due(source), self._keys.done(new_token()))
        return cast(list[str], await self._client.eval(_PICK, len(keys), *keys, *map(str, words)))

    async def hold(self, source: str, item_ids: Sequence[str], until: float) -> None:
        """Whoever picked these works on them still: nobody else picks them before that time."""
        for start in range(0, len(item_ids), HOLD_AT_ONCE):
            some = item_ids[start : start + HOLD_AT_ONCE]
            await self._client.zadd(self._keys.due(source), dict.fromkeys(some, until), xx=True, gt=True)

    async def count(self, source: str, now: float) -> int:
        """How many are due."""
        return int(await self._client.zcount(self._keys.due(source), "-inf", now))

    async def next_at(self, source: str) -> float | None:
        """When the next one is due; None if there is none."""
        first = cast(list[tuple[str, float]], await self._client.zrange(self._keys.due(source), 0, 0, withscores=True))
        return float(first[0][1]) if first else None
