"""Checks in Lua, which find and repair in one step, so that no worker comes in between.

A check is a piece of Lua that runs once for each name. It calls `report(name)` where the invariant does not hold, and
repairs that inside `if fix then … end`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from core.doctor.problems import Finding, Problem
from core.errors import FailCode
from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status, iso
from core.settings import Settings
from core.store import connect
from core.store.commit import CRASH_MEMORY_SECONDS, LEASE_SECONDS
from core.store.connect import Client, texts
from core.store.key_families import KeyFamilies
from core.store.packing import packed_json
from core.store.quarantine import QUARANTINE_SECONDS

AT_ONCE = 500
DAY_SECONDS = 86_400
SLACK_SECONDS = 600.0
"""What is pruned by a worker may be over for so long before it counts as forgotten."""
LONGEST_LEASE_SECONDS = 1_800.0
LONGEST_WAIT_SECONDS = 40 * DAY_SECONDS

# `keys` has how keys of each family begin, or a key that there is once; `tails` how they end. Names may be a pair,
# divided by a line break.
_HEAD = """
local call = redis.call
local args = cjson.decode(ARGV[1])
local keys, tails, ttls, fix, now = args.keys, args.tails, args.ttls, args.fix, args.now
local found = {}
local function report(name) found[#found + 1] = name end
local function type_of(key) return call('TYPE', key).ok end
local function is(key, kind) return type_of(key) == kind end
local function fits(key, kind) local there = type_of(key); return there == kind or there == 'none' end
local function get(key, field) return is(key, 'hash') and call('HGET', key, field) or '' end
local function pair(name) return string.match(name, '^(.-)\\n(.*)$') end
local function is_source(sid)
  if args.built_in[sid] then return true end
  return is(keys.sources, 'set') and call('SISMEMBER', keys.sources, sid) == 1
end
local function of_source(place, sid) return keys[place] .. sid .. tails[place] end
local function make_due(id, sources)
  call('HSET', keys.item .. id, 'nextCrawlAt', args.iso)
  for sid in string.gmatch(sources, '[^,]+') do
    local due = of_source('due', sid)
    if is_source(sid) and fits(due, 'zset') then call('ZADD', due, now, id) end
  end
end
local function read_again(id)
  local key = keys.item .. id
  if not is(key, 'hash') then return end
  local status = call('HGET', key, 'status') or ''
  local generation = tonumber(call('HGET', key, 'reindexGeneration') or 0) or 0
  call('HSET', key, 'aliasOf', '', 'contentHash', '', 'textHash', '', 'indexedHash', '', 'bodyHash', '',
    'visitedVersion', '', 'httpEtag', '', 'httpLastModified', '', 'validatorsUrl', '', 'status', 'Pending',
    'reindexGeneration', string.format('%d', generation + 1), 'reindexRequested', 'true')
  if status ~= '' and fits(keys.status .. status, 'set') then call('SREM', keys.status .. status, id) end
  if fits(keys.status .. 'Pending', 'set') then call('SADD', keys.status .. 'Pending', id) end
  make_due(id, call('HGET', key, 'sources') or 'rss')
end
local function quarantine(key, field, value)
  local clock = call('TIME')
  local place = keys.quarantined .. clock[1] .. string.format('%03d', math.floor(clock[2] / 1000)) .. ':' .. key
  call('HSET', place, field, value)
  call('EXPIRE', place, ttls.quarantine)
  if fits(keys.quarantine, 'zset') then call('ZADD', keys.quarantine, now, place) end
end
-- Its TTL is over, and the next prune takes it out: no damage.
local function has_ended(uid)
  if not is(keys.attempted, 'set') or call('SISMEMBER', keys.attempted, uid) == 0 then return false end
  local since = is(keys.article_index, 'zset') and call('ZSCORE', keys.article_index, uid)
  return not since or tonumber(since) <= now - ttls.article
end
for _, name in ipairs(args.names) do
"""
_TAIL = """
end
return found
"""


@dataclass(frozen=True, slots=True)
class LuaCheck:
    """One invariant: what is wrong where it does not hold, the names to look at, and how to find and repair it."""

    problem: Problem
    where: str
    """A family of keys, whose ids are the names; or one of the lists that `Doctor` walks."""
    body: str

    @property
    def script(self) -> str:
        """As the server runs it."""
        return f"{_HEAD}{self.body}{_TAIL}"


class LuaChecks:
    """Runs checks on names, and again on what they found."""

    def __init__(self, client: Client, keys: Keys, settings: Settings, checks: Sequence[LuaCheck] = ()) -> None:
        self._client = client
        self._checks = checks
        self.problems = frozenset(check.problem for check in checks)
        families = list(KeyFamilies(keys))
        self._args = {
            "keys": {one.name: one.head for one in families},
            "tails": {one.name: one.tail for one in families},
            "cache_hash": keys.embed_cache("\n", "\n").split("\n")[1],
            "built_in": {ARTICLES_SOURCE: True, URLS_SOURCE: True},
            "statuses": {str(status): True for status in Status},
            "codes": {str(code): True for code in FailCode},
            "ttls": _ttls(settings),
        }
        self._any_key = keys.version

    async def run(self, check: LuaCheck, names: Sequence[str], now: float = 0.0, *, fix: bool = False) -> list[str]:
        """Return those of the names for which the invariant does not hold; with `fix` it holds afterwards.

        `now` only matters to checks that compare times.
        """
        found: list[str] = []
        for start in range(0, len(names), AT_ONCE):
            args = self._args | {"names": names[start : start + AT_ONCE], "fix": fix, "now": now, "iso": iso(now)}
            reply = await self._client.eval(check.script, 1, self._any_key, packed_json(args))
            found += texts(cast(list[str], reply))
        return found

    async def check(self, names: Mapping[str, Sequence[str]]) -> list[Finding]:
        """Run all checks on names, by where they stand."""
        now = await connect.now(self._client)
        return [
            Finding(check.problem, name, check.where)
            for check in self._checks
            for name in await self.run(check, names.get(check.where, ()), now)
        ]

    async def recheck(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return those of the findings that are still there."""
        return await self._run_again(findings, await connect.now(self._client))

    async def repair(self, findings: Sequence[Finding], now: float) -> None:
        """Repair those that are still there."""
        await self._run_again(findings, now, fix=True)

    async def _run_again(self, findings: Sequence[Finding], now: float, *, fix: bool = False) -> list[Finding]:
        found: list[Finding] = []
        for check in self._checks:
            own = [one.name for one in findings if (one.problem, one.place) == (check.problem, check.where)]
            found += [Finding(check.problem, name, check.where) for name in await self.run(check, own, now, fix=fix)]
        return found

    async def repair_items(self, item_ids: Sequence[str], now: float) -> None:
        """Make all invariants of these records true."""
        for check in self._checks:
            if check.where == "item":
                await self.run(check, item_ids, now, fix=True)


def _ttls(settings: Settings) -> dict[str, float]:
    """Seconds that things are kept, by family and for comparisons."""
    article, attempted, day = settings.article_ttl_seconds, settings.attempted_ttl_seconds, DAY_SECONDS
    return {
        "article": article,
        "alias": article,
        "content": article,
        "attempted": attempted,
        "failure": attempted,
        "entry": settings.link_ttl_seconds,
        "lease": int(LEASE_SECONDS),
        "longest_lease": LONGEST_LEASE_SECONDS,
        "crashes": CRASH_MEMORY_SECONDS,
        "done": 60,
        "gate": day,
        "gate_line": 600,
        "gate_busy": 600,
        "robots": day,
        "run": 30 * day,
        "snapshot": int(max(settings.snapshot_days, 1) * day),
        "embed_cache": 30 * day,
        "quarantined": QUARANTINE_SECONDS,
        "quarantine": QUARANTINE_SECONDS,
        "longest_wait": max(LONGEST_WAIT_SECONDS, settings.crawl_max_interval_seconds * 1.5),
        "slack": SLACK_SECONDS,
    }
