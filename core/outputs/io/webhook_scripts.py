"""Lua scripts of webhooks. Each is one step that a crash cannot cut in half, and may be sent twice."""

from __future__ import annotations

# Every change of a webhook raises its score in the list of all, so that senders notice it with one command.
_CHANGED = """
local function changed(list, id)
  local time = redis.call('TIME')
  redis.call('ZADD', list, string.format('%d.%06d', time[1], time[2]), id)
end
"""

# KEYS[1] webhook, KEYS[2] list of all · ARGV[1] id, ARGV[2] most webhooks, then fields and values.
# 0 = there are too many.
ADD = f"""{_CHANGED}
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
changed(KEYS[2], ARGV[1])
return 1
"""

# KEYS[1] webhook, KEYS[2] list of all · ARGV[1] id, then fields and values. Nil = it is gone.
CHANGE = f"""{_CHANGED}
if redis.call('EXISTS', KEYS[1]) == 0 then return nil end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
changed(KEYS[2], ARGV[1])
return 1
"""

# KEYS[1] webhook, KEYS[2] queue, KEYS[3] list of all · ARGV[1] id, ARGV[2] the field that says how far was read,
# ARGV[3] what it must hold, ARGV[4] a JSON list of messages (event, type, body), ARGV[5] a JSON list of fields and
# values to set, ARGV[6] how many messages may wait.
# 1 = written, 0 = another process has read on or the webhook is gone, -1 = the queue is full.
FILL = f"""{_CHANGED}
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 0 end
local messages = cjson.decode(ARGV[4])
if #messages > 0 and redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[6]) then return -1 end
for _, one in ipairs(messages) do
  redis.call('XADD', KEYS[2], '*', 'event', one[1], 'type', one[2], 'body', one[3])
end
redis.call('HSET', KEYS[1], unpack(cjson.decode(ARGV[5])))
if ARGV[2] == 'replay_after' and redis.call('HGET', KEYS[1], 'replay_after') == '' then changed(KEYS[3], ARGV[1]) end
return 1
"""

# KEYS[1] webhook, KEYS[2] queue, KEYS[3] dead letters, KEYS[4] lease, KEYS[5] list of all
# ARGV[1] id, ARGV[2] token, ARGV[3] entry of the queue, ARGV[4] what becomes of it: `delivered`, `retry`, `dead` or
# `kept`, ARGV[5] a JSON list of fields and values to set, ARGV[6] dead letters kept, then fields of the dead letter.
# Returns when the webhook was last changed; 0 = the lease is not ours, or the webhook is gone.
SETTLE = f"""{_CHANGED}
if redis.call('GET', KEYS[4]) ~= ARGV[2] or redis.call('EXISTS', KEYS[1]) == 0 then return '0' end
local entry = redis.call('XRANGE', KEYS[2], ARGV[3], ARGV[3])[1]
if entry then
  redis.call('HSET', KEYS[1], unpack(cjson.decode(ARGV[5])))
  if ARGV[4] == 'dead' then
    local words = entry[2]
    for i = 7, #ARGV do words[#words + 1] = ARGV[i] end
    redis.call('XADD', KEYS[3], 'MAXLEN', ARGV[6], '*', unpack(words))
  end
  if ARGV[4] == 'kept' then changed(KEYS[5], ARGV[1]) end
  if ARGV[4] == 'delivered' or ARGV[4] == 'dead' then redis.call('XDEL', KEYS[2], ARGV[3]) end
end
return redis.call('ZSCORE', KEYS[5], ARGV[1]) or '0'
"""

# KEYS[1] webhook, KEYS[2] pending, KEYS[3] list of all · ARGV[1] id, ARGV[2] the event after which to begin.
# Everything up to what waits is queued again: what waits is delivered anyway. Nil = it is gone.
REPLAY = f"""{_CHANGED}
if redis.call('EXISTS', KEYS[1]) == 0 then return nil end
local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local before = first and first[2][2]
if not before then
  local ms, number = string.match(redis.call('HGET', KEYS[1], 'read_id'), '^(%d+)-(%d+)$')
  before = ms .. '-' .. string.format('%d', tonumber(number) + 1)
end
redis.call('HSET', KEYS[1], 'replay_after', ARGV[2], 'replay_before', before, 'next_attempt_ts', 0)
changed(KEYS[3], ARGV[1])
return 1
"""

# KEYS[1] webhook, KEYS[2] replay queue, KEYS[3] dead letters, KEYS[4] list of all · ARGV[1] id.
# Returns how many were moved; nil = the webhook is gone.
REPLAY_DEAD = f"""{_CHANGED}
if redis.call('EXISTS', KEYS[1]) == 0 then return nil end
local moved = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[3], '-', '+')) do
  local words = entry[2]
  redis.call('XADD', KEYS[2], '*', words[1], words[2], words[3], words[4], words[5], words[6])
  moved = moved + 1
end
redis.call('DEL', KEYS[3])
if moved > 0 then
  redis.call('HSET', KEYS[1], 'next_attempt_ts', 0)
  changed(KEYS[4], ARGV[1])
end
return moved
"""

# KEYS[1] webhook, KEYS[2] replay queue, KEYS[3] pending, KEYS[4] dead letters, KEYS[5] list of all · ARGV[1] id,
# ARGV[2] dead letters kept, then fields of the dead letter. Gives up the first message.
# Returns its event; empty = nothing waits, nil = the webhook is gone.
SKIP = f"""{_CHANGED}
if redis.call('EXISTS', KEYS[1]) == 0 then return nil end
for i = 2, 3 do
  local entry = redis.call('XRANGE', KEYS[i], '-', '+', 'COUNT', 1)[1]
  if entry then
    local words = entry[2]
    local event = words[2]
    for j = 3, #ARGV do words[#words + 1] = ARGV[j] end
    redis.call('XADD', KEYS[4], 'MAXLEN', ARGV[2], '*', unpack(words))
    redis.call('XDEL', KEYS[i], entry[1])
    redis.call('HINCRBY', KEYS[1], 'dead', 1)
    redis.call('HSET', KEYS[1], 'attempts', 0, 'attempts_of', '', 'next_attempt_ts', 0)
    changed(KEYS[5], ARGV[1])
    return event
  end
end
return ''
"""

# KEYS: of each webhook its record, pending, replay and dead letters · ARGV: every status; the last one is also that of
# a record without a readable one. Returns how many have each status, how many fail, what waits, is dead, was lost.
TOTALS = """
local count, failing, waiting, dead, lost = {}, 0, 0, 0, 0
for _, status in ipairs(ARGV) do count[status] = 0 end
for i = 1, #KEYS, 4 do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local values = redis.call('HMGET', KEYS[i], 'status', 'last_error', 'lost_events')
    local status = count[values[1]] and values[1] or ARGV[#ARGV]
    count[status] = count[status] + 1
    if values[2] and values[2] ~= '' then failing = failing + 1 end
    waiting = waiting + redis.call('XLEN', KEYS[i + 1]) + redis.call('XLEN', KEYS[i + 2])
    dead = dead + redis.call('XLEN', KEYS[i + 3])
    lost = lost + (tonumber(values[3]) or 0)
  end
end
local found = {}
for _, status in ipairs(ARGV) do found[#found + 1] = count[status] end
for _, value in ipairs({failing, waiting, dead, lost}) do found[#found + 1] = value end
return found
"""
