"""The gate's Lua. All times are epoch seconds of the server's own clock, the only one that all processes share.

Microseconds are kept: rounded to less, `last_at` could lie in the future of the very next request.
Every script may be resent: redis-py does so by itself after a lost reply, and the same token gets the same reply.
"""

# KEYS 1 gate HASH, 2 line ZSET (token by start), 3 busy ZSET (token by when it counts as lost)
# ARGV 1 token, 2 gap, 3 parallel, 4 longest wait, 5 hold; all in seconds
# → {go | wait | busy | defer, seconds to wait, reason}
ENTER = """
local token, gap, parallel = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local longest, hold = tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000

redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 60)
if redis.call('ZSCORE', KEYS[3], token) then return {'go', '0', ''} end

local state = redis.call('HMGET', KEYS[1], 'next_at', 'last_at', 'until', 'why')
local next_at, last_at = tonumber(state[1] or 0), tonumber(state[2] or 0)
local closed_until = tonumber(state[3] or 0)
local slot = tonumber(redis.call('ZSCORE', KEYS[2], token) or nil)

local start = math.max(slot or next_at, last_at + gap, closed_until, now)
local admission, wait, reason = 'wait', start - now, 'gap'
if closed_until >= start then reason = state[4] or '' end

if wait <= 0 and redis.call('ZCARD', KEYS[3]) >= parallel then
  -- Its moment has passed: it goes to the end of the line, so that two starts are never closer than the gap.
  -- Without a gap it asks again soon; the longer the line, the more patiently.
  admission, reason = 'busy', 'busy'
  start = math.max(now, next_at)
  wait = math.max(start - now, math.min(2, 0.1 * (1 + redis.call('ZCARD', KEYS[2]) / parallel)))
end

-- A token with a place was told that its wait is short enough; it may be late by one gap.
if slot then longest = longest + gap end
if wait > longest then
  redis.call('ZREM', KEYS[2], token)
  return {'defer', string.format('%.3f', wait), reason}
end

if wait > 0 then
  if slot ~= start then redis.call('ZADD', KEYS[2], string.format('%.6f', start), token) end
  if not slot or slot ~= start then next_at = math.max(next_at, start + gap) end
else
  admission, reason, last_at = 'go', '', now
  next_at = math.max(next_at, now + gap)
  redis.call('ZREM', KEYS[2], token)
  redis.call('ZADD', KEYS[3], string.format('%.6f', now + hold), token)
end

redis.call('HSET', KEYS[1], 'next_at', string.format('%.6f', next_at), 'last_at', string.format('%.6f', last_at))
redis.call('EXPIRE', KEYS[1], math.ceil(math.max(next_at, closed_until) - now) + 60)
redis.call('EXPIRE', KEYS[2], 600)
redis.call('EXPIRE', KEYS[3], math.ceil(hold))
return {admission, string.format('%.3f', wait), reason}
"""

# KEYS 1 line ZSET, 2 busy ZSET · ARGV 1 token
LEAVE = """
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
"""

# KEYS 1 gate HASH · ARGV 1 seconds, 2 reason. Never shortens what is already asked of us.
CLOSE = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local closed_until = now + tonumber(ARGV[1])
if closed_until <= tonumber(redis.call('HGET', KEYS[1], 'until') or 0) then return 0 end
redis.call('HSET', KEYS[1], 'until', string.format('%.6f', closed_until), 'why', ARGV[2])
local next_at = tonumber(redis.call('HGET', KEYS[1], 'next_at') or 0)
redis.call('EXPIRE', KEYS[1], math.ceil(math.max(next_at, closed_until) - now) + 60)
return 1
"""
