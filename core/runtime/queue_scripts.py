"""The two steps that RQ takes in several, as one each: a resend after a lost answer changes nothing.

RQ does not run on Redis Cluster (engines.md), so that keys may be put together here.
"""

from __future__ import annotations

SEND = """
-- KEYS: job, its dependents, queue, intermediate queue, started, scheduled, deferred, failed, finished, all queues
-- ARGV: job id, then the fields and values of the job
-- The places decide, not the status in the hash: a worker that was killed between taking a job and starting it leaves
-- a job that is `queued` in no queue, and its id would be blocked for ever.
-- What is of another type is an error (WRONGTYPE) before anything is written; the client puts it aside.
local id = ARGV[1]
redis.call('HLEN', KEYS[1])
redis.call('SCARD', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('LPOS', KEYS[3], id) or redis.call('LPOS', KEYS[4], id) then return 0 end
  if redis.call('ZSCORE', KEYS[6], id) or redis.call('ZSCORE', KEYS[7], id) then return 0 end
  for _, execution in ipairs(redis.call('ZRANGE', KEYS[5], 0, -1)) do
    if string.sub(execution, 1, #id + 1) == id .. ':' then return 0 end
  end
end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[8], id)
redis.call('ZREM', KEYS[9], id)
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('SADD', KEYS[10], KEYS[3])
redis.call('RPUSH', KEYS[3], id)
return 1
"""

WAKE = """
-- KEYS: scheduled, queue
-- ARGV: now, how job keys begin, the status of a queued job
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1000)
for _, id in ipairs(due) do
  if redis.call('EXISTS', ARGV[2] .. id) == 1 then
    redis.call('HSET', ARGV[2] .. id, 'status', ARGV[3])
    redis.call('RPUSH', KEYS[2], id)
  end
  redis.call('ZREM', KEYS[1], id)  -- last: a key of another type ends this before, and nothing is lost
end
return #due
"""
