"""Lua scripts that open and count runs; `run_step.lua` changes their status. Each may be sent twice."""

from __future__ import annotations

from pathlib import Path

STEP = (Path(__file__).parent / "run_step.lua").read_text(encoding="utf-8")

# KEYS: open runs, all runs, runs of the kind, cancelled scopes · ARGV: scope, new id, head of run keys, now, TTL, how
# many runs are kept, how many of a kind, whether it ends a cancellation, then fields and values of the new run.
# Returns the id of the run that has the scope: the open one, else the new one.
OPEN = """
local call, scope, id = redis.call, ARGV[1], ARGV[2]
local open = call('HGET', KEYS[1], scope)
if open then
  local status = call('HGET', ARGV[3] .. open, 'status')
  local has_ended = status == 'succeeded' or status == 'partial' or status == 'failed' or status == 'cancelled'
  if status and not has_ended then return open end
end
if call('EXISTS', ARGV[3] .. id) == 1 then return id end
call('HSET', ARGV[3] .. id, unpack(ARGV, 9))
call('EXPIRE', ARGV[3] .. id, ARGV[5])
call('HSET', KEYS[1], scope, id)
for i, kept in ipairs({ARGV[6], ARGV[7]}) do
  call('ZADD', KEYS[i + 1], ARGV[4], id)
  call('ZREMRANGEBYRANK', KEYS[i + 1], 0, -kept - 1)
end
if ARGV[8] == '1' then call('HDEL', KEYS[4], scope) end
return id
"""

# KEYS: run, marker · ARGV: jobs, TTL of the marker. A resend finds the marker.
COUNT_JOBS = """
if redis.call('EXISTS', KEYS[1]) == 0 or not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('HINCRBY', KEYS[1], 'jobs_sent', ARGV[1])
"""

# KEYS: run, marker · ARGV: how many, TTL of the marker. Never below zero; a resend finds the marker.
UNCOUNT_FAILED = """
local call = redis.call
local failed, visited = unpack(call('HMGET', KEYS[1], 'failed', 'visited'))
local count = math.min(ARGV[1], tonumber(failed or 0) or 0, tonumber(visited or 0) or 0)
if count <= 0 or not call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[2]) then return 0 end
call('HINCRBY', KEYS[1], 'failed', -count)
return call('HINCRBY', KEYS[1], 'visited', -count)
"""

# KEYS: workers of a run · ARGV: token of one that is dead.
MARK_DEAD = """
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local is_json, worker = pcall(cjson.decode, stored or '')
if not is_json or type(worker) ~= 'table' then return 0 end
worker.dead = true
return redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(worker))
"""
