"""Lua scripts of the state of a knowledge base. Each may be sent twice and leaves the same.

A script derives what it writes from what is stored at that moment, so that writers who meet lose nothing.
"""

from __future__ import annotations

# Behind a succeeded run: `indexing` while texts of the domain wait to be embedded, then `done`. The percent is never
# below `least`, which it had before in the same run.
_SETTLE = """
local call, state, domain, embed_due = redis.call, KEYS[1], KEYS[2], KEYS[3]
local ask = cjson.decode(ARGV[1])

local function settle(least)
  local waiting = 0
  for sid in string.gmatch(call('HGET', domain, 'sources') or '', '[^,]+') do
    local refs = ask.refs_head .. sid .. ask.refs_tail
    waiting = waiting + call('ZINTERCARD', 2, embed_due, refs, 'LIMIT', ask.most_waiting)
  end
  if waiting > 0 then
    local many = waiting < ask.most_waiting and waiting or 'more than ' .. ask.most_waiting
    local message = 'Indexing: ' .. many .. ' texts wait to be embedded'
    call('HSET', state, 'job.phase', 'indexing', 'job.progress', math.max(least, 99), 'job.message', message)
    return
  end
  local told = call('HGET', state, 'run_message') or ''
  if told == '' then
    local counts = call('HMGET', state, 'crawl.pages_crawled', 'processing.last_indexed_id')
    told = 'Done: ' .. (counts[1] or 0) .. ' pages crawled, ' .. (counts[2] or 0) .. ' documents indexed'
  end
  call('HSET', state, 'job.phase', 'done', 'job.progress', 100, 'job.message', told)
end
"""

# KEYS: state, domain, texts to embed, run, paused scopes · ARGV[1] JSON: kb, scope (of the whole domain), version,
# updated_at, run, created_ts, created_at, begins (its kind is a crawl, so that visits are counted anew), now,
# refs_head, refs_tail, most_waiting.
# Copies a run into the job section. Returns 0 if the section follows a newer run, else 1.
FOLLOW = (
    _SETTLE
    + """
local OPEN = {queued = true, running = true, pausing = true, paused = true, cancelling = true}
local NAMES = {'status', 'phase', 'progress', 'message', 'error', 'started', 'ended', 'heartbeat_ts'}
local run = {}
for i, value in ipairs(call('HMGET', KEYS[4], unpack(NAMES))) do run[NAMES[i]] = value or '' end
local followed, created, status, progress, pages = unpack(call('HMGET', state,
  'run_id', 'run_created_ts', 'job.status', 'job.progress', 'crawl.pages_crawled'))
local is_new = followed ~= ask.run
if run.status == '' or (followed and is_new and (tonumber(created) or 0) > ask.created_ts) then return 0 end
if is_new then
  -- A crawl beside another one goes on counting, one beside a refresh does not.
  local is_crawling = OPEN[status] and call('HGET', state, 'run_begins') == '1'
  if ask.begins and not is_crawling then
    call('HSET', state, 'crawl.pages_crawled', 0, 'crawl.pages_failed', 0)
    pages = 0
  end
  call('HSET', state, 'kb_id', ask.kb, 'version', ask.version, 'run_id', ask.run, 'run_created_ts', ask.created_ts)
  call('HSET', state, 'job.created_at', ask.created_at, 'run_begins', ask.begins and 1 or 0)
end
if run.status == 'running' and (is_new or status ~= 'running') then
  call('HSET', state, 'rate_from_ts', ask.now, 'rate_from_pages', pages or 0)
end
local least = is_new and 0 or tonumber(progress) or 0
local percent = math.max(tonumber(run.progress) or 0, least)
local is_paused = run.status == 'pausing' or run.status == 'paused' or call('HEXISTS', KEYS[5], ask.scope) == 1
local is_cancelled = run.status == 'cancelling' or run.status == 'cancelled'
call('HSET', state, 'updated_at', ask.updated_at, 'heartbeat_ts', run.heartbeat_ts, 'run_message', run.message,
  'job.status', run.status, 'job.phase', run.phase, 'job.progress', percent, 'job.message', run.message,
  'job.error', run.error, 'job.started_at', run.started, 'job.completed_at', run.ended,
  'job.paused', is_paused and 'true' or 'false', 'job.cancel_requested', is_cancelled and 'true' or 'false')
if run.status == 'succeeded' or run.status == 'partial' then settle(least) end
return 1
"""
)

# KEYS: state, domain, texts to embed · ARGV[1] as in FOLLOW. Goes from `indexing` to `done` when nothing waits.
SETTLE = (
    _SETTLE
    + """
if call('HGET', state, 'job.phase') ~= 'indexing' then return 0 end
local status, percent = unpack(call('HMGET', state, 'job.status', 'job.progress'))
if status == 'succeeded' or status == 'partial' then settle(tonumber(percent) or 0) end
return 1
"""
)

# KEYS: state, domain, paused scopes · ARGV[1] JSON: kb, scope, version, updated_at, now, until_ts (what is due by then
# is queued), held_ts (what jobs have picked is held back until then at most), now_iso and held_iso, most_looked,
# most_urls, due_head, due_tail, item_head.
# Writes how much is queued and the metrics; returns the fields and the first queued addresses, or nothing if there is
# neither a domain nor a state.
SAVE = """
local call, state, domain = redis.call, KEYS[1], KEYS[2]
local ask = cjson.decode(ARGV[1])
local sources = call('HGET', domain, 'sources')
if not sources and call('EXISTS', state) == 0 then return {{}, {}} end
local queued, urls = 0, {}
local function add_url(id)
  local url = #urls < ask.most_urls and call('HGET', ask.item_head .. id, 'displaySource')
  if url and url ~= '' then urls[#urls + 1] = url end
end
-- The record of an item that a job has picked still says when it was due, or, where it was made due in the due set
-- alone, when it would have been; of one that waits for its time, record and due set agree.
local function count_picked(due)
  local picked, from = 0, string.format('(%.17g', ask.until_ts)
  local held = call('ZRANGEBYSCORE', due, from, ask.held_ts, 'LIMIT', 0, ask.most_looked)
  for _, id in ipairs(held) do
    local next_at = call('HGET', ask.item_head .. id, 'nextCrawlAt') or ''
    if next_at ~= '' and (next_at <= ask.now_iso or next_at > ask.held_iso) then
      picked = picked + 1
      add_url(id)
    end
  end
  if #held < ask.most_looked then return picked end
  return picked + call('ZCOUNT', due, from, ask.held_ts) - #held
end
for sid in string.gmatch(sources or '', '[^,]+') do
  local due = ask.due_head .. sid .. ask.due_tail
  queued = queued + call('ZCOUNT', due, '-inf', ask.until_ts)
  for _, id in ipairs(call('ZRANGEBYSCORE', due, '-inf', ask.until_ts, 'LIMIT', 0, ask.most_urls - #urls)) do
    add_url(id)
  end
  queued = queued + count_picked(due)
end
local function numbers(...)
  local values = call('HMGET', state, ...)
  for i = 1, select('#', ...) do values[i] = tonumber(values[i] or 0) or 0 end
  return unpack(values)
end
local pages, indexed, chunks, batches, rate = numbers('crawl.pages_crawled', 'processing.last_indexed_id',
  'processing.chunks_total', 'processing.batches_processed', 'metrics.crawl_rate_pages_per_min')
local from_ts, from_pages, rate_pages = numbers('rate_from_ts', 'rate_from_pages', 'rate_pages')
local function whole(value, by) return by > 0 and math.floor(value / by + 0.5) or 0 end
-- Behind its run the rate stays as it was, whoever saves.
local status = call('HGET', state, 'job.status')
local is_running = status == 'running'
if from_ts > 0 and pages > from_pages and (is_running or pages ~= rate_pages) then
  rate = whole((pages - from_pages) * 60, math.max(ask.now - from_ts, 1))
end
call('HSET', state, 'kb_id', ask.kb, 'version', ask.version, 'updated_at', ask.updated_at,
  'metrics.documents_per_batch', whole(indexed, batches), 'metrics.avg_chunks_per_doc', whole(chunks, indexed),
  'metrics.crawl_rate_pages_per_min', rate, 'rate_pages', pages)
if sources then call('HSET', state, 'crawl.pages_queued', queued) end
-- A domain can be paused without a run.
local is_paused = call('HEXISTS', KEYS[3], ask.scope) == 1
if call('HEXISTS', state, 'run_id') == 1 then is_paused = is_paused or status == 'pausing' or status == 'paused' end
call('HSET', state, 'job.paused', is_paused and 'true' or 'false')
return {call('HGETALL', state), urls}
"""

# KEYS: state · ARGV: fields and values. Writes them unless a run has been followed or something was counted here.
# Returns 1 if they were written; without any it only tells.
RESTORE = """
local call, state = redis.call, KEYS[1]
local run, stored, crawled = unpack(call('HMGET', state, 'run_id', 'crawl.last_doc_id', 'crawl.pages_crawled'))
local is_restored = call('HEXISTS', state, 'restored_from') == 1
local is_counted = (tonumber(stored or 0) or 0) > 0 or (tonumber(crawled or 0) or 0) > 0
if run or (is_counted and not is_restored) then return 0 end
if #ARGV > 0 then call('HSET', state, unpack(ARGV)) end
return 1
"""
