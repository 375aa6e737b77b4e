-- The doctor's checks. Each finds and repairs in one step, so that no worker comes in between.
--
-- A check begins with `--- PROBLEM: where` and is run once for each name that stands there: `where` is a family of keys,
-- whose ids are the names, or a list that `doctor.py` walks. It calls `report(name)` where the invariant does not hold,
-- and repairs that inside `if fix then ... end`. What stands before the first check may be used by all of them.
--
-- `keys` has how the keys of each family begin, or the key itself where there is only one; `tails` how they end.
-- A name may be a pair, divided by a line break.

local call = redis.call
local args = cjson.decode(ARGV[1])
local keys, tails, ttls, fix, now = args.keys, args.tails, args.ttls, args.fix, args.now
local found = {}
local function report(name) found[#found + 1] = name end
local function type_of(key) return call('TYPE', key).ok end
local function is(key, kind) return type_of(key) == kind end
local function fits(key, kind) local there = type_of(key); return there == kind or there == 'none' end
local function get(key, field) return is(key, 'hash') and call('HGET', key, field) or '' end
local function pair(name) return string.match(name, '^(.-)\n(.*)$') end
local function is_source(sid)
  if args.built_in[sid] then return true end
  return is(keys.sources, 'set') and call('SISMEMBER', keys.sources, sid) == 1
end
local function of_source(place, sid) return keys[place] .. sid .. tails[place] end
local function make_due(id, sources)
  call('HSET', keys.item .. id, 'nextCrawlAt', args.iso)
  for sid in string.gmatch(sources, '[^,]+') do
    local due = of_source('due', sid)
    if is_source(sid) and fits(due, 'zset') then call('ZADD', due, now, id) end
  end
end
local function read_again(id)
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
local function quarantine(key, field, value)
  local clock = call('TIME')
  local place = keys.quarantined .. clock[1] .. string.format('%03d', math.floor(clock[2] / 1000)) .. ':' .. key
  call('HSET', place, field, value)
  call('EXPIRE', place, ttls.quarantine)
  if fits(keys.quarantine, 'zset') then call('ZADD', keys.quarantine, now, place) end
end
-- Its TTL is over, and the next prune takes it out: no damage.
local function has_ended(uid)
  if not is(keys.attempted, 'set') or call('SISMEMBER', keys.attempted, uid) == 0 then return false end
  local since = is(keys.article_index, 'zset') and call('ZSCORE', keys.article_index, uid)
  return not since or tonumber(since) <= now - ttls.article
end


-- Articles: their indexes, their TTL, the memory of what was tried, failures, aliases

--- LISTED_WITHOUT_ARTICLE: category_members
local set, uid = pair(name)
if is(set, 'set') and call('SISMEMBER', set, uid) == 1 then
  local status = get(keys.article .. uid, 'status')
  if status == 'gone' or (type_of(keys.article .. uid) == 'none' and not has_ended(uid)) then
    report(name)
    if fix then call('SREM', set, uid) end
  end
end

--- INDEXED_WITHOUT_ARTICLE: index_members
if is(keys.article_index, 'zset') and call('ZSCORE', keys.article_index, name)
  and type_of(keys.article .. name) == 'none' and not has_ended(name) then
  report(name)
  if fix then call('ZREM', keys.article_index, name) end
end

--- ARTICLE_NOT_IN_INDEX: article
if get(keys.article .. name, 'status') == 'success' and fits(keys.article_index, 'zset')
  and not call('ZSCORE', keys.article_index, name) then
  report(name)
  if fix then call('ZADD', keys.article_index, tonumber(get(keys.article .. name, 'fetched_ts')) or now, name) end
end

--- ARTICLE_NOT_IN_CATEGORY: article
if get(keys.article .. name, 'status') == 'success' then
  local is_wrong = false
  for category in string.gmatch(get(keys.article .. name, 'categories'), '[^,]+') do
    local set = keys.articles_by_category .. category
    if fits(set, 'set') and call('SISMEMBER', set, name) == 0 then
      is_wrong = true
      if fix then
        call('SADD', set, name)
        call('EXPIRE', set, ttls.article)
      end
    end
  end
  if is_wrong then report(name) end
end

--- WRONG_ARTICLE_TTL: article
local ttl = is(keys.article .. name, 'hash') and call('TTL', keys.article .. name) or 0
if ttl == -1 or ttl > ttls.article then
  report(name)
  if fix then call('EXPIRE', keys.article .. name, ttls.article) end
end

--- ARTICLE_NOT_ATTEMPTED: article
if ttls.attempted > ttls.article and get(keys.article .. name, 'status') == 'success'
  and fits(keys.attempted, 'set') and fits(keys.attempted_at, 'zset')
  and call('SISMEMBER', keys.attempted, name) == 0 then
  report(name)
  if fix then
    call('SADD', keys.attempted, name)
    call('ZADD', keys.attempted_at, 'GT', now, name)
    call('EXPIRE', keys.attempted, ttls.attempted)
    call('EXPIRE', keys.attempted_at, ttls.attempted)
  end
end

--- STALE_ATTEMPT: attempted_members
if fits(keys.attempted, 'set') and fits(keys.attempted_at, 'zset') then
  local at = call('ZSCORE', keys.attempted_at, name)
  local is_member = call('SISMEMBER', keys.attempted, name) == 1
  local is_old = at and tonumber(at) < now - ttls.attempted - ttls.slack
  local is_ahead = at and tonumber(at) > now + ttls.slack
  if is_old or (at and not is_member) then
    report(name)
    if fix then
      call('SREM', keys.attempted, name)
      call('ZREM', keys.attempted_at, name)
    end
  elseif is_ahead or (is_member and not at) then
    report(name)
    if fix then call('ZADD', keys.attempted_at, now, name) end
  end
end

--- BAD_FAILURE: failure_members
local at = is(keys.failures, 'zset') and call('ZSCORE', keys.failures, name)
if at then
  local uid, code = string.match(name, '^(%x+):([A-Z_]+)$')
  local is_known = uid and #uid == 16 and args.codes[code]
  local is_older = false
  if is_known then
    for other, _ in pairs(args.codes) do
      local since = other ~= code and call('ZSCORE', keys.failures, uid .. ':' .. other)
      if since and (tonumber(since) > tonumber(at) or (since == at and other > code)) then is_older = true end
    end
  end
  if not is_known or is_older or tonumber(at) < now - ttls.attempted - ttls.slack then
    report(name)
    if fix then
      if not is_known then quarantine(keys.failures, name, at) end
      call('ZREM', keys.failures, name)
    end
  end
end

--- ALIAS_OF_NOTHING: alias
local target = is(keys.alias .. name, 'string') and call('GET', keys.alias .. name)
if target and type_of(keys.article .. target) == 'none' and not has_ended(target) then
  report(name)
  if fix then
    call('DEL', keys.alias .. name)
    if is(keys.attempted, 'set') then call('SREM', keys.attempted, name) end
    if is(keys.attempted_at, 'zset') then call('ZREM', keys.attempted_at, name) end
  end
end

--- ALTERED_TEXT: article
local key = keys.article .. name
local sum = get(key, 'text_sha1')
local text = get(key, 'content_hash') .. '\n' .. get(key, 'markdown') .. '\n' .. get(key, 'clean_text')
if sum ~= '' and get(key, 'status') == 'success' and redis.sha1hex(text) ~= sum then
  report(name)
  if fix then
    quarantine(key, 'markdown', get(key, 'markdown'))
    call('HDEL', key, 'markdown', 'clean_text', 'content_hash', 'text_sha1')
    read_again(get(key, 'item_id'))
  end
end


-- Registry records: listed by their sources, due again, with living parents and alias targets

--- NOT_LISTED: item
local key = keys.item .. name
if get(key, 'status') ~= '' and get(key, 'parentPageId') == '' then
  local is_wrong = false
  for sid in string.gmatch(get(key, 'sources'), '[^,]+') do
    local refs = of_source('refs', sid)
    if is_source(sid) and fits(refs, 'zset') and not call('ZSCORE', refs, name) then
      is_wrong = true
      if fix then call('ZADD', refs, 0, name) end
    end
  end
  if is_wrong then report(name) end
end

--- NEVER_DUE: item
local key = keys.item .. name
local status, sources, next_at = get(key, 'status'), get(key, 'sources'), get(key, 'nextCrawlAt')
local uid, is_wrong = get(key, 'articleUid'), false
local may_rest = status == '' or status == 'Gone' or status == 'OutOfScope' or get(key, 'parentPageId') ~= ''
  or string.find(get(key, 'errorMessage'), 'it is parked', 1, true)
if uid ~= '' and sources == 'rss' then
  -- Its article has ended, or has a token in its address that is stored nowhere.
  may_rest = may_rest or type_of(keys.article .. uid) == 'none'
    or string.sub(redis.sha1hex(get(key, 'articleUrl')), 1, 16) ~= uid
end
if next_at ~= '' or not may_rest then
  for sid in string.gmatch(sources, '[^,]+') do
    local due = of_source('due', sid)
    if is_source(sid) and fits(due, 'zset') then
      local at = call('ZSCORE', due, name)
      if not at or tonumber(at) > now + ttls.longest_wait or next_at == '' then is_wrong = true end
    end
  end
end
if is_wrong then
  report(name)
  if fix then make_due(name, sources) end
end

--- DUE_AND_NOT_LISTED: due_members
local sid, id = pair(name)
local due, refs = of_source('due', sid), of_source('refs', sid)
if is(due, 'zset') and fits(refs, 'zset') and call('ZSCORE', due, id) and not call('ZSCORE', refs, id) then
  local sources = ',' .. get(keys.item .. id, 'sources') .. ','
  if not string.find(sources, ',' .. sid .. ',', 1, true) then
    report(name)
    if fix then call('ZREM', due, id) end
  end
end

--- WRONG_GENERATION: item
local key = keys.item .. name
local generation, processed = tonumber(get(key, 'reindexGeneration')), tonumber(get(key, 'processedGeneration'))
if generation and processed then
  local is_wanted = get(key, 'reindexRequested') == 'true'
  if processed > generation then
    report(name)
    if fix then
      call('HSET', key, 'processedGeneration', get(key, 'reindexGeneration'), 'reindexRequested', 'false')
    end
  elseif is_wanted ~= (generation > processed) then
    report(name)
    if fix then call('HSET', key, 'reindexRequested', generation > processed and 'true' or 'false') end
  end
end

--- NO_PARENT: item
local key = keys.item .. name
local parent = get(key, 'parentPageId')
if parent ~= '' and type_of(keys.item .. parent) == 'none' then
  report(name)
  if fix then
    quarantine(key, 'normalizedSource', get(key, 'normalizedSource'))
    local partition = keys.partition .. get(key, 'PartitionKey')
    call('DEL', key)
    for status, _ in pairs(args.statuses) do
      if is(keys.status .. status, 'set') then call('SREM', keys.status .. status, name) end
    end
    if is(partition, 'set') then call('SREM', partition, name) end
  end
end

--- ALIAS_CYCLE: item
local target = get(keys.item .. name, 'aliasOf')
if target ~= '' then
  local key = keys.item .. target
  local status, uid = get(key, 'status'), get(key, 'articleUid')
  local has_text = get(keys.document .. target, 'content_hash') ~= ''
    or (uid ~= '' and get(keys.article .. uid, 'status') == 'success')
  local is_settled = status == 'Crawled' or status == 'Indexed'
  if status == '' or get(key, 'aliasOf') ~= '' or (is_settled and not has_text) then
    report(name)
    if fix then read_again(name) end
  end
end

--- ALTERED_TEXT: document
local key = keys.document .. name
local sum = get(key, 'text_sha1')
local text = get(key, 'content_hash') .. '\n' .. get(key, 'markdown') .. '\n'
if sum ~= '' and redis.sha1hex(text) ~= sum then
  report(name)
  if fix then
    quarantine(key, 'markdown', get(key, 'markdown'))
    call('HDEL', key, 'markdown', 'content_hash', 'text_sha1')
    if get(keys.article .. get(keys.item .. name, 'articleUid'), 'status') ~= 'success' then read_again(name) end
  end
end


-- Run by `index_checks.py`, which knows items that are in no set, and keys of search

--- MISPLACED: listed_item
-- The record is right; the sets follow it.
local key, is_wrong = keys.item .. name, false
local status, partition = get(key, 'status'), get(key, 'PartitionKey')
local function place(set, should_be_in)
  if fits(set, 'set') and (call('SISMEMBER', set, name) == 1) ~= should_be_in then
    is_wrong = true
    if fix then call(should_be_in and 'SADD' or 'SREM', set, name) end
  end
end
if args.statuses[status] then
  for other, _ in pairs(args.statuses) do place(keys.status .. other, other == status) end
  if partition ~= '' then place(keys.partition .. partition, true) end
end
if is_wrong then report(name) end

--- ORPHAN_CHUNK: chunk_of_search
-- What has a TTL was written by a worker that has not swapped it in yet, and is left alone.
local chunk, vector = keys.chunk .. name, keys.vector .. name
local is_chunk, item = is(chunk, 'hash'), get(chunk, 'item')
local list = keys.chunks .. item
local is_live = item ~= '' and is(list, 'zset') and call('ZSCORE', list, name)
if not is_live and call('TTL', is_chunk and chunk or vector) == -1 then
  report(name)
  if fix then
    local space, text_hash = get(chunk, 'space'), get(chunk, 'text_hash')
    if space ~= '' and text_hash ~= '' and is(vector, 'string') then
      -- The vector stays in the cache, as that of every chunk that is removed.
      local kept = keys.embed_cache .. space .. args.before_hash .. text_hash
      if call('COPY', vector, kept, 'REPLACE') == 1 then call('EXPIRE', kept, ttls.embed_cache) end
    end
    call('DEL', chunk, vector)
  end
end


-- Sources, domains and feeds: listed, and due again

--- SOURCE_NOT_LISTED: source
if is(keys.source .. name, 'hash') and call('HEXISTS', keys.source .. name, 'config') == 1
  and fits(keys.sources, 'set') and fits(keys.sources_due, 'zset') then
  local is_member = call('SISMEMBER', keys.sources, name) == 1
  local at = call('ZSCORE', keys.sources_due, name)
  if not is_member or not at or tonumber(at) > now + ttls.longest_wait then
    report(name)
    if fix then
      call('SADD', keys.sources, name)
      call('ZADD', keys.sources_due, now, name)
    end
  end
end

--- DOMAIN_NOT_LISTED: domain
if get(keys.domain .. name, 'config') ~= '' and fits(keys.domains, 'set')
  and call('SISMEMBER', keys.domains, name) == 0 then
  report(name)
  if fix then call('SADD', keys.domains, name) end
end

--- FEED_NEVER_DUE: feed
local status = get(keys.feed .. name, 'status')
local at = is(keys.feeds_due, 'zset') and call('ZSCORE', keys.feeds_due, name)
if at and status ~= 'gone' and tonumber(at) > now + ttls.longest_wait then
  report(name)
  if fix then call('ZADD', keys.feeds_due, 0, name) end
end

--- FEED_MISLISTED: feed
local status = get(keys.feed .. name, 'status')
local is_broken = status == 'error' or status == 'gone'
if fits(keys.feeds_broken, 'zset') then
  local at = call('ZSCORE', keys.feeds_broken, name)
  if is_broken ~= (at and true or false) then
    report(name)
    if fix and is_broken then
      local since = tonumber(get(keys.feed .. name, 'error_since_ts')) or 0
      if since == 0 then since = tonumber(get(keys.feed .. name, 'last_poll_ts')) or now end
      call('ZADD', keys.feeds_broken, since, name)
    elseif fix then
      call('ZREM', keys.feeds_broken, name)
    end
  end
end

--- FEED_MISLISTED: broken_members
if not is(keys.feed .. name, 'hash') and is(keys.feeds_broken, 'zset')
  and call('ZSCORE', keys.feeds_broken, name) then
  report(name)
  if fix then call('ZREM', keys.feeds_broken, name) end
end


-- Keys, whatever they hold: leases that end, TTLs that are there, counters that add up

--- LEASE_TOO_LONG: lease
if call('TTL', keys.lease .. name) > ttls.longest_lease then
  report(name)
  if fix then call('EXPIRE', keys.lease .. name, ttls.lease) end
end

--- NO_TTL: keys_with_ttl
local family, key = pair(name)
if call('TTL', key) == -1 then
  report(name)
  if fix then call('EXPIRE', key, ttls[family]) end
end

--- WRONG_COUNTERS: counters
local words = {}
for word in string.gmatch(name, '[^\n]+') do words[#words + 1] = word end
local sum = 0
for i = 3, #words do sum = sum + (tonumber(get(words[1], words[i])) or 0) end
if is(words[1], 'hash') and (tonumber(get(words[1], words[2])) or 0) ~= sum then
  report(name)
  if fix then call('HSET', words[1], words[2], string.format('%d', sum)) end
end
