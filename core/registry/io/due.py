"""The due sets of all sources: pick what is due, oldest first and each host its share, or make items due.

Picking moves the due time ahead in the same step: a lost job costs its items that time and no more, and two timers
never pick the same. The record's `nextCrawlAt` keeps saying when the item became due until it is visited or postponed;
`lockedUntil` says that it is being visited.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import cast

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import iso
from core.store.connect import Client, texts
from core.store.leases import DONE_MILLISECONDS, LEASE_SECONDS, new_token
from core.store.packing import packed_json
from core.store.pipeline import read_many
from core.urls.pace import Paces
from core.value_class import value_class

LOOK = 5_000
"""How many of the oldest one pick looks at; a host's items beyond its share are skipped."""
NO_SHARE = 1_000_000
HOLD_AT_ONCE = 1_000
HOLD_SECONDS = 900.0
"""How long the items of a job are held back: longer than a job lasts, so a lost job costs them this and no more."""
RUN_HOLD_SECONDS = 1.5 * LEASE_SECONDS
"""How long a pass holds back what it picked. A running pass renews it; those of a dead one are due again soon."""

# KEYS[1] due, KEYS[2] answer · ARGV: now, new time, wanted, share per host, how many to look at, beginning of record
# keys, TTL of the answer, JSON of shares by host (`*.` and a domain: all hosts below it), JSON of the keys of items
# that are paused, and until when these are held back.
# Returns the ids, oldest first; a resend gets the same.
# If one host fills all that was looked at, the skipped items go to the end of the line, in their order: otherwise
# no other host would have a turn before that one is done.
_PICK = """
local call = redis.call
local before = call('GET', KEYS[2])
if before then return cjson.decode(before) end
local wanted, share, look = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local shares, paused = cjson.decode(ARGV[8]), cjson.decode(ARGV[9])
local is_shared = share < 1000000 or next(shares) ~= nil or #paused > 0
local oldest = call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, is_shared and look or wanted)
local picked, skipped, by_host = {}, {}, {}
local function share_of(host)
  local own, domain = shares[host], host
  while not own and domain do
    own = shares['*.' .. domain]
    domain = string.match(domain, '^[^.]+%.(.+)$')
  end
  return own or share
end
local function is_in_paused_run(id)
  for _, items in ipairs(paused) do
    if call('ZSCORE', items, id) then return true end
  end
  return false
end
for _, id in ipairs(oldest) do
  if #picked >= wanted then break end
  local is_taken, is_paused = true, is_in_paused_run(id)
  if is_shared and not is_paused then
    local host = call('HGET', ARGV[6] .. id, 'sourceHost') or ''
    by_host[host] = (by_host[host] or 0) + 1
    is_taken = by_host[host] <= share_of(host)
  end
  if is_paused then
    call('ZADD', KEYS[1], 'XX', ARGV[10], id)
  elseif is_taken then
    call('ZADD', KEYS[1], 'XX', ARGV[2], id)
    picked[#picked + 1] = id
  else
    skipped[#skipped + 1] = id
  end
end
if is_shared and #oldest >= look and #picked < wanted then
  for i, id in ipairs(skipped) do
    call('ZADD', KEYS[1], 'XX', string.format('%.6f', tonumber(ARGV[1]) - (#skipped - i) * 0.000001), id)
  end
end
if #picked > 0 then call('SET', KEYS[2], cjson.encode(picked), 'PX', ARGV[7]) end
return picked
"""

# KEYS[1] the first record · ARGV[1] JSON: ids, beginning of records, now, iso, force, token, beginning and end of due
# keys, beginning of crash counters, since. A thousand records as words of their own would cost the client ten times as
# much. Returns for each 1 = done (also by an earlier copy of this call), 0 = no such record. A parked item is free
# again, except for a pass (since), which leaves alone what is parked and what was checked since it was requested; a
# pass by force leaves alone what was processed since it forced it.
_MAKE_DUE = """
local call = redis.call
local request = cjson.decode(ARGV[1])
local answers = {}
for _, id in ipairs(request.ids) do
  local record = request.records .. id
  local sources, next_at, checked = unpack(call('HMGET', record, 'sources', 'nextCrawlAt', 'checkedTs'))
  -- A record without the field was written before there were other sources than feeds.
  if not sources and call('EXISTS', record) == 1 then sources = 'rss' end
  local is_left = request.since and not request.force and (next_at == '' or tonumber(checked or 0) >= request.since)
  if request.since and request.force then
    local forced = call('HMGET', record, 'forcedBy', 'reindexGeneration', 'processedGeneration')
    is_left = forced[1] == request.token and tonumber(forced[3] or 0) >= tonumber(forced[2] or 0)
  end
  if not sources then
    answers[#answers + 1] = '0'
  elseif is_left then
    answers[#answers + 1] = '1'
  else
    if request.force and call('HGET', record, 'forcedBy') ~= request.token then
      call('HINCRBY', record, 'reindexGeneration', 1)
      call('HSET', record, 'reindexRequested', 'true', 'forcedBy', request.token)
      call('DEL', request.crashes .. id)
    end
    local was_due = false
    for source in string.gmatch(sources, '[^,]+') do
      local due = request.due_before .. source .. request.due_after
      local score = call('ZSCORE', due, id)
      if score and tonumber(score) <= request.now then was_due = true else call('ZADD', due, request.now, id) end
    end
    -- What was due already keeps its place in line, and the record its time.
    if not was_due or (next_at or '') == '' or next_at > request.iso then
      call('HSET', record, 'nextCrawlAt', request.iso)
    end
    answers[#answers + 1] = '1'
  end
end
return table.concat(answers)
"""


# KEYS[1] due · ARGV: now, until, how many to look at, beginning of lease keys, of record keys, now and until in ISO,
# then beginnings of tokens. What someone has picked and does not visit is due now: nobody has leased it, or only a
# process with such tokens. Its record still says when it was due, or, where it was made due in the due set alone, when
# it would have been; of one that was visited or put off, record and due set agree. Returns how many.
_TAKE_BACK = """
local call, taken = redis.call, 0
local function is_left(holder)
  if not holder then return true end
  for i = 8, #ARGV do
    if string.sub(holder, 1, #ARGV[i]) == ARGV[i] then return true end
  end
  return false
end
for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])) do
  local next_at = call('HGET', ARGV[5] .. id, 'nextCrawlAt')
  local is_picked = next_at and next_at ~= '' and (next_at <= ARGV[6] or next_at > ARGV[7])
  if is_picked and is_left(call('GET', ARGV[4] .. id)) then
    call('DEL', ARGV[4] .. id)
    call('ZADD', KEYS[1], 'XX', ARGV[1], id)
    call('HSET', ARGV[5] .. id, 'lockedUntil', '')
    taken = taken + 1
  end
end
return taken
"""


@value_class
class HostShares:
    """How many items of one host are picked at once."""

    each: int = NO_SHARE
    by_host: Mapping[str, int] = field(default_factory=dict)
    """Limits of hosts with a pace of their own; `*.` and a registrable domain means all hosts below it."""

    @classmethod
    def within(cls, seconds: float, paces: Paces) -> HostShares:
        """Return as many of each host as its gap lets through within this time."""

        def share(gap: float) -> int:
            return max(int(seconds / gap), 1) if gap else NO_SHARE

        own = {host: share(gap) for host, gap in paces.gaps_by_host().items()}
        return cls(share(paces.default_gap_seconds), own)


class DueItems:
    """The due sets of all sources."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def pick(
        self,
        source: str,
        now: float,
        wanted: int,
        hold_seconds: float,
        shares: HostShares | None = None,
        *,
        paused_runs: Sequence[str] = (),
    ) -> list[str]:
        """Return ids of the source that are due, and hold them back for so long.

        `paused_runs`: reindexes whose items are not visited; they are held back as well.
        """
        shares = shares or HostShares()
        words = (
            *(now, now + hold_seconds, wanted, shares.each, LOOK, self._keys.item(""), DONE_MILLISECONDS),
            json.dumps(dict(shares.by_host)),
            *(json.dumps([self._keys.run_items(run_id) for run_id in paused_runs]), now + HOLD_SECONDS),
        )
        keys = (self._keys.due(source), self._keys.done(new_token()))
        return cast(list[str], await self._client.eval(_PICK, len(keys), *keys, *map(str, words)))

    async def hold(self, source: str, item_ids: Sequence[str], until: float) -> None:
        """Hold back items that a pass still works on: no other pass picks them before that time."""
        for start in range(0, len(item_ids), HOLD_AT_ONCE):
            some = item_ids[start : start + HOLD_AT_ONCE]
            await self._client.zadd(self._keys.due(source), dict.fromkeys(some, until), xx=True, gt=True)

    async def take_back(self, source: str, now: float, within_seconds: float, dead: Sequence[str] = ()) -> int:
        """Make due now what was picked, held back for at most so long, and is not visited; return how many.

        `dead`: beginnings of the lease tokens of processes that are known to be dead.
        """
        until = now + within_seconds
        heads = (self._keys.lease(""), self._keys.item(""))
        words = (now, until, LOOK, *heads, iso(now), iso(until), *dead)
        return int(await self._client.eval(_TAKE_BACK, 1, self._keys.due(source), *map(str, words)))

    async def has_unvisited(self, item_ids: Sequence[str], since: float) -> bool:
        """Return whether one of these has not been visited since then."""
        commands = [("HGET", self._keys.item(item_id), "checkedTs") for item_id in item_ids]
        return any(field_parsing.timestamp(one) < since for one in await read_many(self._client, commands))

    async def count(self, source: str, now: float) -> int:
        """Return how many items are due."""
        return int(await self._client.zcount(self._keys.due(source), "-inf", now))

    async def next_at(self, source: str) -> float | None:
        """Return when the next item is due; None if there is none."""
        first = cast(list[tuple[str, float]], await self._client.zrange(self._keys.due(source), 0, 0, withscores=True))
        return float(first[0][1]) if first else None

    async def addresses(self, source: str, until: float) -> list[str]:
        """Return the addresses of all items that are due by that time, oldest first."""
        found: list[str] = []
        while True:
            window = (len(found), HOLD_AT_ONCE)
            some = texts(await self._client.zrangebyscore(self._keys.due(source), "-inf", until, *window))
            rows = await read_many(self._client, [("HGET", self._keys.item(one), "displaySource") for one in some])
            found += [address or item_id for address, item_id in zip(rows, some, strict=True)]
            if len(some) < HOLD_AT_ONCE:
                return found

    async def make_due(
        self, item_ids: Sequence[str], now: float, *, force: bool = False, token: str = "", since: float | None = None
    ) -> list[bool]:
        """Make items due at once, durably and before any job is sent; False for an id without a record.

        With `force` their generation rises, once per `token`, so that they are read again whatever their validators
        say. `since`: when a pass was requested; what was checked since, and what is parked, is left alone.
        """
        if not item_ids:
            return []
        before, after = self._keys.due("\n").split("\n")
        request = {
            "ids": list(item_ids),
            "records": self._keys.item(""),
            "now": now,
            "iso": iso(now),
            "force": force,
            "token": token or new_token(),
            "due_before": before,
            "due_after": after,
            "crashes": self._keys.crashes(""),
            **({} if since is None else {"since": since}),
        }
        answers = await self._client.eval(_MAKE_DUE, 1, self._keys.item(item_ids[0]), packed_json(request))
        return [letter == "1" for letter in cast(str, answers)]
