-- One step of a run: a worker joins, beats or leaves, or someone asks for a pause, a resume or a cancel.
-- The only place where the status of a run changes. Every step may be sent twice.
-- KEYS: run, its workers, paused scopes, open runs, due items of its source, events, cancelled scopes, its log, its failed
-- items, a marker of this step
-- ARGV[1] join | beat | wait | leave | pause | resume | cancel | finish | check
-- ARGV[2] JSON: id, now, stamp, iso, token, worker, fields, status (finish: its end; leave: what it is without us),
-- lines (for its log), source, head (of run keys), due_head and due_tail (of due sets), silent, job_hold, ttl and
-- marker_ttl, events_kept and lines_kept, takes_until (a refresh that is resumed takes in what is due until then)
-- Returns its status, what its workers are asked to do ('' | pause | cancel | ended | missing | taken), how many work,
-- how many wait for the end of a pause, the id of the run that has the scope if that is taken, how many items failed.
-- A helper is a job that visits items of a crawl beside the worker that lists and ends it: it is waited for, but no sign
-- that the crawl goes on. A refresh is jobs alone: it ends when all are done and nothing is due, or when it takes in
-- nothing more and nobody works on it.
local call, op, ask = redis.call, ARGV[1], cjson.decode(ARGV[2])
local ENDED = {succeeded = true, partial = true, failed = true, cancelled = true}
local PHASES = {crawling = 1, processing = 2, indexing = 3, done = 4}
local NAMES = {'status', 'control', 'scope', 'domain', 'kind', 'parent', 'heartbeat_ts', 'started_ts'}
local run = {}
for i, value in ipairs(call('HMGET', KEYS[1], unpack(NAMES))) do run[NAMES[i]] = value or '' end
if run.status == '' then return {'', 'missing', 0, 0, '', 0} end
local working, helping, waiting, in_flight = 0, 0, 0, 0
local worker = cjson.decode(ask.worker)

local function set(name, value)
  run[name] = tostring(value)
  call('HSET', KEYS[1], name, run[name])
end

local function count_workers()
  working, helping, waiting, in_flight = 0, 0, 0, 0
  local all = call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local is_json, other = pcall(cjson.decode, all[i + 1])
    if not is_json or type(other) ~= 'table' or ask.now - (tonumber(other.ts) or 0) > ask.silent then
      call('HDEL', KEYS[2], all[i])
    elseif other.dead then
      -- Known to be dead; kept for whoever takes back what it had leased.
    elseif other.waiting then
      waiting = waiting + 1
    else
      working, in_flight = working + 1, in_flight + (tonumber(other.in_flight) or 0)
      if other.is_job and run.kind ~= 'refresh' then helping = helping + 1 end
    end
  end
  call('HSET', KEYS[1], 'in_flight', in_flight)
end

local function paused_since()
  local since = call('HMGET', KEYS[3], run.scope, 'domain:' .. run.domain, run.kind)
  return since[1] or since[2] or since[3] or ask.iso
end

local function is_paused()
  if run.control == 'pause' or call('HEXISTS', KEYS[3], run.scope) == 1 then return true end
  if run.domain ~= '' and call('HEXISTS', KEYS[3], 'domain:' .. run.domain) == 1 then return true end
  return call('HEXISTS', KEYS[3], run.kind) == 1
end

local function is_cancelled()
  if run.control == 'cancel' then return true end
  if run.parent == '' then return false end
  local above = call('HMGET', ask.head .. run.parent, 'status', 'control')
  return above[2] == 'cancel' or above[1] == 'cancelling'
end

-- What is still due: of its source, or of the sources of its parts.
local function count_left()
  if run.kind ~= 'domain' then return call('ZCOUNT', KEYS[5], '-inf', ask.now) end
  local left = 0
  for _, name in ipairs(call('HKEYS', KEYS[1])) do
    local sid = string.match(name, '^child:(.+)$')
    if sid then left = left + call('ZCOUNT', ask.due_head .. sid .. ask.due_tail, '-inf', ask.now) end
  end
  return left
end

local function finish(status)
  set('status', status)
  if status == 'succeeded' or status == 'partial' then
    call('HSET', KEYS[1], 'progress', 100, 'phase', 'done')
  end
  local left = count_left()
  local times = {'ended', ask.iso, 'ended_ts', ask.stamp, 'heartbeat_ts', ask.stamp}
  call('HSET', KEYS[1], 'left', left, 'control', '', 'in_flight', 0, unpack(times))
  call('DEL', KEYS[2])
  if call('HGET', KEYS[4], run.scope) == ask.id then call('HDEL', KEYS[4], run.scope) end
  if status == 'cancelled' then
    -- What nobody lists would never be sent again.
    if ask.source ~= '' and run.domain ~= '' then call('HSET', KEYS[7], run.scope, ask.id) end
    call('HDEL', KEYS[3], run.scope)
  end
  local names = {'id', 'kind', 'source', 'domain', 'mode', 'status', 'discovered', 'visited', 'changed', 'unchanged',
    'gone', 'failed', 'excluded'}
  local words = {'type', 'run.finished'}
  for i, value in ipairs(call('HMGET', KEYS[1], unpack(names))) do
    words[#words + 1], words[#words + 2] = names[i], value or ''
  end
  call('XADD', KEYS[6], 'MAXLEN', '~', ask.events_kept, '*', unpack(words))
end

-- A refresh that goes on takes in what is due for as long as a new one.
local function renew_refresh()
  if run.kind == 'refresh' then call('HSET', KEYS[1], 'takes_until_ts', ask.takes_until) end
end

-- What a status becomes by what is asked, and by who still works.
local function settle()
  count_workers()
  if ENDED[run.status] then return 'ended' end
  if run.control == 'resume' then
    call('HDEL', KEYS[3], run.scope)
    set('control', '')
  end
  if is_cancelled() then
    if working == 0 then
      call('HSET', KEYS[1], 'message', '') -- what it was waiting for
      finish('cancelled')
      return 'ended'
    end
    set('status', 'cancelling')
    return 'cancel'
  end
  if is_paused() then
    if run.control == 'pause' then call('HSETNX', KEYS[3], run.scope, ask.iso) end
    set('status', working > 0 and 'pausing' or 'paused')
    if run.status == 'paused' then call('HSET', KEYS[1], 'message', 'Paused since ' .. paused_since()) end
    return 'pause'
  end
  if run.status == 'pausing' or run.status == 'paused' or run.status == 'cancelling' then
    renew_refresh()
    if run.status == 'paused' then call('HSET', KEYS[1], 'message', '') end
    set('status', working + waiting > 0 and 'running' or 'queued')
    if run.status == 'running' then call('HSET', KEYS[1], 'heartbeat_ts', ask.stamp) end
  end
  return ''
end

-- Opens a run again that has ended; another run may have its scope by now.
local function reopen()
  local other = call('HGET', KEYS[4], run.scope)
  if other and other ~= ask.id then
    local status = call('HGET', ask.head .. other, 'status')
    if status and not ENDED[status] then return other end
  end
  call('HSET', KEYS[4], run.scope, ask.id)
  call('HDEL', KEYS[3], run.scope)
  call('HDEL', KEYS[7], run.scope)
  call('HDEL', KEYS[1], 'ended', 'ended_ts', 'error', 'problem', 'receipt', 'left')
  -- The percent stays: what was done is done, and it never runs backwards.
  call('HSET', KEYS[1], 'phase', 'crawling', 'message', '')
  renew_refresh()
  set('control', '')
  set('status', 'queued')
  return ''
end

-- What a worker tells: the percent and the phase never run backwards, whoever else reports.
local function write_fields()
  for name, value in pairs(ask.fields) do
    local before = call('HGET', KEYS[1], name)
    local is_later = true
    if name == 'progress' then is_later = tonumber(value) > (tonumber(before or 0) or 0) end
    if name == 'phase' then is_later = (PHASES[value] or 0) > (PHASES[before or ''] or 0) end
    if is_later then call('HSET', KEYS[1], name, value) end
  end
end

local function is_silent(seconds)
  return ask.now - (tonumber(run.heartbeat_ts) or 0) > seconds
end

-- Nobody works on a refresh: it has ended, or its next job waits in the queue. A lost job never comes; one that comes
-- after the end begins the next refresh.
local function settle_refresh()
  local counts = call('HMGET', KEYS[1], 'jobs_sent', 'jobs_done', 'failed', 'takes_until_ts')
  local is_done = (tonumber(counts[2]) or 0) >= (tonumber(counts[1]) or 0) or is_silent(ask.job_hold)
  local is_full = ask.now > (tonumber(counts[4]) or 0)
  if is_full or (is_done and call('ZCOUNT', KEYS[5], '-inf', ask.now) == 0) then
    finish((tonumber(counts[3]) or 0) > 0 and 'partial' or 'succeeded')
    return 'ended'
  end
  if run.status == 'running' then set('status', 'queued') end
  return ''
end

-- What a resend must not do again is done where it is the first: the others find the marker.
local first
local function is_first()
  if first == nil then first = call('SET', KEYS[10], '1', 'NX', 'PX', ask.marker_ttl) and true or false end
  return first
end

-- The flag in Redis is written by people: what it cannot mean is told in the log of the run, and taken away.
local KNOWN = {[''] = true, pause = true, resume = true, cancel = true}
local function drop_unknown_control()
  if KNOWN[run.control] then return end
  local word = string.sub(string.gsub(run.control, '[^%w _-]', '?'), 1, 40)
  local line = ask.iso .. ' WARNING [refresh] ⚠️ control "' .. word .. '" is ignored; it may be pause, resume or cancel'
  call('RPUSH', KEYS[8], line)
  call('LTRIM', KEYS[8], -ask.lines_kept, -1)
  call('EXPIRE', KEYS[8], ask.ttl)
  set('control', '')
end

local function write_lines()
  if #ask.lines == 0 or not is_first() then return end
  for _, line in ipairs(ask.lines) do call('RPUSH', KEYS[8], line) end
  call('LTRIM', KEYS[8], -ask.lines_kept, -1)
  call('EXPIRE', KEYS[8], ask.ttl)
end

local function reply(request, other)
  return {run.status, request, working, waiting, other or '', call('HLEN', KEYS[9])}
end

call('EXPIRE', KEYS[1], ask.ttl)
drop_unknown_control()
write_lines()
if op == 'finish' then
  if not ENDED[run.status] then
    write_fields()
    finish(ask.status)
  end
  return reply('ended')
elseif op == 'pause' or op == 'cancel' then
  if not ENDED[run.status] then set('control', op) end
elseif op == 'resume' then
  if ENDED[run.status] then
    local other = reopen()
    if other ~= '' then return reply('taken', other) end
  else
    set('control', op)
  end
elseif op == 'leave' then
  call('HDEL', KEYS[2], ask.token)
  -- Also a job that came during a pause and did nothing is done: its items are due again.
  if run.kind == 'refresh' and is_first() then call('HINCRBY', KEYS[1], 'jobs_done', 1) end
elseif op == 'beat' or op == 'wait' then
  call('HSET', KEYS[2], ask.token, ask.worker)
  call('EXPIRE', KEYS[2], ask.ttl)
end
if op ~= 'check' and op ~= 'join' and not ENDED[run.status] then write_fields() end
local request = settle()
local is_helper = worker.is_job and run.kind ~= 'refresh'
if op == 'join' and request == '' then
  call('HSET', KEYS[2], ask.token, ask.worker)
  call('EXPIRE', KEYS[2], ask.ttl)
  working = working + 1
  if not is_helper then
    set('status', 'running')
    if (tonumber(run.started_ts) or 0) == 0 then
      call('HSET', KEYS[1], 'started_ts', ask.stamp, 'started', ask.iso)
    end
  end
end
if (op == 'join' or op == 'beat') and not is_helper and request ~= 'ended' then
  call('HSET', KEYS[1], 'heartbeat_ts', ask.stamp)
  if run.status == 'interrupted' or run.status == 'queued' then set('status', 'running') end
end
local is_alone = working - helping + waiting == 0
if op == 'leave' and ask.status ~= '' and run.status == 'running' and is_alone then set('status', ask.status) end
if run.kind == 'refresh' and (op == 'leave' or op == 'check') and request == '' and working == 0 then
  request = settle_refresh()
elseif op == 'check' and run.status == 'running' and is_alone and is_silent(ask.silent) then
  set('status', 'interrupted')
end
return reply(request)
