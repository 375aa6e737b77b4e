"""Invariants of registry records: listed by their sources, due again, with living parents and alias targets."""

from __future__ import annotations

from core.doctor.io.lua_check import LuaCheck
from core.doctor.problems import Problem

ITEM_CHECKS = (
    LuaCheck(
        Problem.NOT_LISTED,
        "item",
        """
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
""",
    ),
    LuaCheck(
        Problem.NEVER_DUE,
        "item",
        """
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
""",
    ),
    LuaCheck(
        Problem.DUE_AND_NOT_LISTED,
        "due_members",
        """
  local sid, id = pair(name)
  local due, refs = of_source('due', sid), of_source('refs', sid)
  if is(due, 'zset') and fits(refs, 'zset') and call('ZSCORE', due, id) and not call('ZSCORE', refs, id) then
    local sources = ',' .. get(keys.item .. id, 'sources') .. ','
    if not string.find(sources, ',' .. sid .. ',', 1, true) then
      report(name)
      if fix then call('ZREM', due, id) end
    end
  end
""",
    ),
    LuaCheck(
        Problem.WRONG_GENERATION,
        "item",
        """
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
""",
    ),
    LuaCheck(
        Problem.NO_PARENT,
        "item",
        """
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
""",
    ),
    LuaCheck(
        Problem.ALIAS_CYCLE,
        "item",
        """
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
""",
    ),
    LuaCheck(
        Problem.ALTERED_TEXT,
        "document",
        """
  local key = keys.document .. name
  local sum = get(key, 'text_sha1')
  local text = get(key, 'content_hash') .. '\\n' .. get(key, 'markdown') .. '\\n'
  if sum ~= '' and redis.sha1hex(text) ~= sum then
    report(name)
    if fix then
      quarantine(key, 'markdown', get(key, 'markdown'))
      call('HDEL', key, 'markdown', 'content_hash', 'text_sha1')
      if get(keys.article .. get(keys.item .. name, 'articleUid'), 'status') ~= 'success' then read_again(name) end
    end
  end
""",
    ),
)
SOURCE_CHECKS = (
    LuaCheck(
        Problem.SOURCE_NOT_LISTED,
        "source",
        """
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
""",
    ),
    LuaCheck(
        Problem.DOMAIN_NOT_LISTED,
        "domain",
        """
  if get(keys.domain .. name, 'config') ~= '' and fits(keys.domains, 'set')
    and call('SISMEMBER', keys.domains, name) == 0 then
    report(name)
    if fix then call('SADD', keys.domains, name) end
  end
""",
    ),
    LuaCheck(
        Problem.FEED_NEVER_DUE,
        "feed",
        """
  local status = get(keys.feed .. name, 'status')
  local at = is(keys.feeds_due, 'zset') and call('ZSCORE', keys.feeds_due, name)
  if at and status ~= 'gone' and tonumber(at) > now + ttls.longest_wait then
    report(name)
    if fix then call('ZADD', keys.feeds_due, 0, name) end
  end
""",
    ),
)
MISPLACED = LuaCheck(
    Problem.MISPLACED,
    "item",
    """
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
""",
)
"""The record is right; the sets follow it. Run by `IndexChecks`, which also knows items that are in no set."""
ORPHAN_CHUNK = LuaCheck(
    Problem.ORPHAN_CHUNK,
    "chunk",
    """
  local chunk, vector = keys.chunk .. name, keys.vector .. name
  local is_chunk, item = is(chunk, 'hash'), get(chunk, 'item')
  local list = keys.chunks .. item
  local is_live = item ~= '' and is(list, 'zset') and call('ZSCORE', list, name)
  if not is_live and call('TTL', is_chunk and chunk or vector) == -1 then
    report(name)
    if fix then
      local space, text_hash = get(chunk, 'space'), get(chunk, 'text_hash')
      if space ~= '' and text_hash ~= '' and is(vector, 'string') then
        local kept = keys.embed_cache .. space .. args.cache_hash .. text_hash
        if call('COPY', vector, kept, 'REPLACE') == 1 then call('EXPIRE', kept, ttls.embed_cache) end
      end
      call('DEL', chunk, vector)
    end
  end
""",
)
"""What has a TTL was written by a worker that has not swapped it in yet, and is left alone. Run by `IndexChecks`."""
