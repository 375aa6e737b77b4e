"""One invariant: what has to be true, where to look, and how it is made true again. Looked at and healed in one step.

A check is a piece of Lua that runs once for each name. It calls `say(name)` where the invariant does not hold, and
`if fix then … end` around what heals it: the look and the repair are one script, so that no worker comes in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from core.doctor.problems import Problem
from core.errors import FailCode
from core.keys import Keys
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE, Status, iso
from core.settings import Settings
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
local asked = cjson.decode(ARGV[1])
local keys, tails, lives, fix, now = asked.keys, asked.tails, asked.lives, asked.fix, asked.now
local found = {}
local function say(name) found[#found + 1] = name end
local function type_of(key) return call('TYPE', key).ok end
local function is(key, kind) return type_of(key) == kind end
local function fits(key, kind) local there = type_of(key); return there == kind or there == 'none' end
local function get(key, field) return is(key, 'hash') and call('HGET', key, field) or '' end
local function pair(name) return string.match(name, '^(.-)\\n(.*)$') end
local function is_source(sid)
  if asked.built_in[sid] then return true end
  return is(keys.sources, 'set') and call('SISMEMBER', keys.sources, sid) == 1
end
local function of_source(place, sid) return keys[place] .. sid .. tails[place] end
local function make_due(id, sources)
  call('HSET', keys.item .. id, 'nextCrawlAt', asked.iso)
  for sid in string.gmatch(sources, '[^,]+') do
    local due = of_source('due', sid)
    if is_source(sid) and fits(due, 'zset') then call('ZADD', due, now, id) end
  end
end
local function read_anew(id)
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
local function aside(key, field, value)
  local clock = call('TIME')
  local place = keys.quarantined .. clock[1] .. string.format('%03d', math.floor(clock[2] / 1000)) .. ':' .. key
  call('HSET', place, field, value)
  call('EXPIRE', place, lives.quarantine)
  if fits(keys.quarantine, 'zset') then call('ZADD', keys.quarantine, now, place) end
end
-- Its own life is over, and the next prune takes it out: no damage.
local function has_ended(uid)
  if not is(keys.attempted, 'set') or call('SISMEMBER', keys.attempted, uid) == 0 then return false end
  local since = is(keys.article_index, 'zset') and call('ZSCORE', keys.article_index, uid)
  return not since or tonumber(since) <= now - lives.article
end
for _, name in ipairs(asked.names) do
"""
_TAIL = """
end
return found
"""


@dataclass(frozen=True, slots=True)
class LuaCheck:
    """One invariant."""

    problem: Problem
    where: str
    """A family of keys, whose ids are the names; or one of the walks of `Names`."""
    body: str

    @property
    def script(self) -> str:
        """As the server runs it."""
        return f"{_HEAD}{self.body}{_TAIL}"


class LuaCheckRunner:
    """Runs checks on names."""

    def __init__(self, client: Client, keys: Keys, settings: Settings) -> None:
        self._client = client
        families = list(KeyFamilies(keys))
        self._asked = {
            "keys": {one.name: one.head for one in families},
            "tails": {one.name: one.tail for one in families},
            "built_in": {ARTICLES_SOURCE: True, URLS_SOURCE: True},
            "statuses": {str(status): True for status in Status},
            "codes": {str(code): True for code in FailCode},
            "lives": _ttls(settings),
        }
        self._place = keys.version

    async def look(self, check: LuaCheck, names: Sequence[str], now: float, *, fix: bool = False) -> list[str]:
        """Those of the names for which the invariant does not hold; with `fix` it holds again."""
        found: list[str] = []
        for start in range(0, len(names), AT_ONCE):
            asked = self._asked | {"names": names[start : start + AT_ONCE], "fix": fix, "now": now, "iso": iso(now)}
            reply = await self._client.eval(check.script, 1, self._place, packed_json(asked))
            found += texts(cast(list[str], reply))
        return found


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
