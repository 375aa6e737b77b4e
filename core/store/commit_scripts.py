"""The Lua of leases and commits. Every one may be sent twice and answers the same."""

from __future__ import annotations

# KEYS[1] lease, KEYS[2] crash counter · ARGV[1] token, ARGV[2] milliseconds, ARGV[3] life of the counter.
# 0 = somebody else has it; else how many workers took it without an end, this one included. Asked again with the
# same token, nothing is counted.
ACQUIRE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if holder then return tonumber(redis.call('GET', KEYS[2]) or 1) end
local taken = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return taken
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

# KEYS[1] done marker, then leases · ARGV[1] token, ARGV[2] the commands as JSON, ARGV[3] life of the marker.
# 1 = written, now or by an earlier copy of this very call; 0 = a lease is not ours. Without leases: written once.
COMMIT = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
for i = 2, #KEYS do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then return 0 end
end
for _, command in ipairs(cjson.decode(ARGV[2])) do
  redis.call(unpack(command))
end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[3])
if #KEYS > 1 then redis.call('DEL', unpack(KEYS, 2)) end
return 1
"""

# KEYS triples of lease, crash counter, record · ARGV[1] token, ARGV[2] milliseconds, ARGV[3] until when, for people.
# For each: 0 = somebody else has it; else 1 + how many workers died over it. Nothing is counted here: of a whole batch
# only what is being read can be to blame (`mark`).
ACQUIRE_MANY = """
local taken = {}
for i = 1, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[i])
  if holder and holder ~= ARGV[1] then
    taken[#taken + 1] = 0
  else
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    if redis.call('EXISTS', KEYS[i + 2]) == 1 then redis.call('HSET', KEYS[i + 2], 'lockedUntil', ARGV[3]) end
    taken[#taken + 1] = 1 + tonumber(redis.call('GET', KEYS[i + 1]) or 0)
  end
end
return taken
"""

# KEYS[1] done marker · ARGV[1] a JSON list of works, ARGV[2] life of the marker. A work is its token, its leases, what
# it expects of records (key, field, value, …), and its commands. For each: 1 = written, 0 = a lease is not ours,
# 2 = the record is not as expected; its leases are still ours. A resend gets the answer of the first.
COMMIT_MANY = """
local before = redis.call('GET', KEYS[1])
if before then return before end
local said = {}
for _, work in ipairs(cjson.decode(ARGV[1])) do
  local token, leases, expected, commands = work[1], work[2], work[3], work[4]
  local answer = '1'
  for _, lease in ipairs(leases) do
    if redis.call('GET', lease) ~= token then answer = '0' end
  end
  for i = 1, #expected, 3 do
    local found = redis.call('HGET', expected[i], expected[i + 1]) or '0'
    if answer == '1' and found ~= expected[i + 2] then answer = '2' end
  end
  if answer == '1' then
    for _, command in ipairs(commands) do redis.call(unpack(command)) end
    if #leases > 0 then redis.call('DEL', unpack(leases)) end
  end
  said[#said + 1] = answer
end
local all = table.concat(said)
redis.call('SET', KEYS[1], all, 'PX', ARGV[2])
return all
"""
