"""Invariants of keys whatever they hold: leases that end, TTLs that are there, counters that add up."""

from __future__ import annotations

from core.doctor.io.lua_check import LuaCheck
from core.doctor.problems import Problem
from core.keys import Keys

WITH_TTL = frozenset(
    {
        *("lease", "crashes", "done", "gate", "gate_line", "gate_busy", "robots", "entry", "failure", "run"),
        *("snapshot", "embed_cache", "alias", "content", "quarantined"),
    }
)
"""Families whose keys end by themselves. Sets that anybody may add to get their TTL in the next cycle."""

KEY_CHECKS = (
    LuaCheck(
        Problem.LEASE_TOO_LONG,
        "lease",
        """
  if call('TTL', keys.lease .. name) > ttls.longest_lease then
    report(name)
    if fix then call('EXPIRE', keys.lease .. name, ttls.lease) end
  end
""",
    ),
    LuaCheck(
        Problem.NO_TTL,
        "keys_with_ttl",
        """
  local family, key = pair(name)
  if call('TTL', key) == -1 then
    report(name)
    if fix then call('EXPIRE', key, ttls[family]) end
  end
""",
    ),
    LuaCheck(
        Problem.WRONG_COUNTERS,
        "counters",
        """
  local words = {}
  for word in string.gmatch(name, '[^\\n]+') do words[#words + 1] = word end
  local sum = 0
  for i = 3, #words do sum = sum + (tonumber(get(words[1], words[i])) or 0) end
  if is(words[1], 'hash') and (tonumber(get(words[1], words[2])) or 0) ~= sum then
    report(name)
    if fix then call('HSET', words[1], words[2], string.format('%d', sum)) end
  end
""",
    ),
)


def counters(keys: Keys) -> list[str]:
    """Hash, total and parts of every sum that has to add up, as the check wants them; parts before what they make."""
    new = ("new", "stored", "failed", "retry", "alias", "duplicate", "deferred")
    sums = [
        (keys.canonical_stats, *new),
        (keys.canonical_stats, "found", "new", "known", "rejected"),
        (keys.ingest_stats, "links_found", "links_new", "links_known", "links_rejected"),
        (keys.refresh_stats, "visited", "changed", "unchanged", "gone", "failed", "excluded"),
    ]
    return ["\n".join(words) for words in sums]
