"""Lua scripts of leases and commits. Each may be sent twice and answers the same."""

from __future__ import annotations

# KEYS[1] the first lease · ARGV[1] milliseconds, ARGV[2] TTL of the crash counters, ARGV[3] a JSON list of leases, each
# with its crash counter, its token and commands that read. One value and one reply for all: as commands of their own,
# they would cost the client twice as much CPU time.
# For each: 0 = someone else has it, else how many workers took it since the last commit, this one included; then the
# replies to its commands. Called again with the same token, nothing is counted.
ACQUIRE = """
local replies = {}
for i, one in ipairs(cjson.decode(ARGV[3])) do
  local lease, crashes, token, commands = one[1], one[2], one[3], one[4]
  local holder = redis.call('GET', lease)
  local reply = {0}
  if not holder or holder == token then
    redis.call('SET', lease, token, 'PX', ARGV[1])
    if holder then
      reply[1] = tonumber(redis.call('GET', crashes) or 1)
    else
      reply[1] = redis.call('INCR', crashes)
      redis.call('PEXPIRE', crashes, ARGV[2])
    end
  end
  for j, command in ipairs(commands) do reply[j + 1] = redis.call(unpack(command)) end
  replies[i] = reply
end
return replies
"""

# KEYS leases · ARGV[1] milliseconds, then a token for each lease. Only what is still ours is renewed: 1, else 0.
RENEW = """
local renewed = {}
for i, lease in ipairs(KEYS) do
  local is_ours = redis.call('GET', lease) == ARGV[i + 1]
  if is_ours then redis.call('PEXPIRE', lease, ARGV[1]) end
  renewed[i] = is_ours and 1 or 0
end
return renewed
"""

# KEYS[1] lease · ARGV[1] how its token begins, if it is to be deleted.
RELEASE_OF = """
local holder = redis.call('GET', KEYS[1])
if holder and string.sub(holder, 1, #ARGV[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

# KEYS[1] the first lease · ARGV: token, milliseconds, until when, for people; JSON of the ids of items; beginnings of
# their leases, crash counters and records. A thousand keys as words of their own would cost the client more than all
# else in the call.
# For each: 0 = someone else has it; else 1 + how many workers died over it. Nothing is counted here: of a whole batch
# only what is being read can be to blame (`Leases.count_crash`).
ACQUIRE_MANY = """
local taken = {}
for _, id in ipairs(cjson.decode(ARGV[4])) do
  local lease, record = ARGV[5] .. id, ARGV[7] .. id
  local holder = redis.call('GET', lease)
  if holder and holder ~= ARGV[1] then
    taken[#taken + 1] = 0
  else
    redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])
    if redis.call('EXISTS', record) == 1 then redis.call('HSET', record, 'lockedUntil', ARGV[3]) end
    taken[#taken + 1] = 1 + tonumber(redis.call('GET', ARGV[6] .. id) or 0)
  end
end
return taken
"""

# KEYS[1] done marker · ARGV[1] a JSON list of commits, ARGV[2] TTL of the marker. A commit is its token, its leases,
# what it expects of records (key, field, value, …; without a field, of a string), and its commands; without leases it
# is written in any case.
# For each: 1 = written, 0 = a lease is not ours, 2 = a record is not as expected; then its leases are kept.
# A resend of what was written gets the answer of the first.
COMMIT = """
local before = redis.call('GET', KEYS[1])
if before then return before end
local results, is_written = {}, false
for i, commit in ipairs(cjson.decode(ARGV[1])) do
  local token, leases, expected, commands = commit[1], commit[2], commit[3], commit[4]
  local result = '1'
  for _, lease in ipairs(leases) do
    if redis.call('GET', lease) ~= token then result = '0' end
  end
  for j = 1, #expected, 3 do
    local key, field = expected[j], expected[j + 1]
    local value = field == '' and redis.call('GET', key) or field ~= '' and redis.call('HGET', key, field) or '0'
    if result == '1' and value ~= expected[j + 2] then result = '2' end
  end
  if result == '1' then
    for _, command in ipairs(commands) do redis.call(unpack(command)) end
    if #leases > 0 then redis.call('DEL', unpack(leases)) end
    is_written = true
  end
  results[i] = result
end
local all = table.concat(results)
if is_written then redis.call('SET', KEYS[1], all, 'PX', ARGV[2]) end
return all
"""
