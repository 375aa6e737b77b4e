"""Invariants of articles: their indexes, their life, the memory of what was tried, failures, aliases."""

from __future__ import annotations

from core.doctor.io.lua_check import LuaCheck
from core.doctor.problems import Problem

ARTICLE_CHECKS = (
    LuaCheck(
        Problem.LISTED_WITHOUT_ARTICLE,
        "category_members",
        """
  local set, uid = pair(name)
  if is(set, 'set') and call('SISMEMBER', set, uid) == 1 then
    local status = get(keys.article .. uid, 'status')
    if status == 'gone' or (type_of(keys.article .. uid) == 'none' and not has_ended(uid)) then
      report(name)
      if fix then call('SREM', set, uid) end
    end
  end
""",
    ),
    LuaCheck(
        Problem.INDEXED_WITHOUT_ARTICLE,
        "index_members",
        """
  if is(keys.article_index, 'zset') and call('ZSCORE', keys.article_index, name)
    and type_of(keys.article .. name) == 'none' and not has_ended(name) then
    report(name)
    if fix then call('ZREM', keys.article_index, name) end
  end
""",
    ),
    LuaCheck(
        Problem.ARTICLE_NOT_IN_INDEX,
        "article",
        """
  if get(keys.article .. name, 'status') == 'success' and fits(keys.article_index, 'zset')
    and not call('ZSCORE', keys.article_index, name) then
    report(name)
    if fix then call('ZADD', keys.article_index, tonumber(get(keys.article .. name, 'fetched_ts')) or now, name) end
  end
""",
    ),
    LuaCheck(
        Problem.ARTICLE_NOT_IN_CATEGORY,
        "article",
        """
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
""",
    ),
    LuaCheck(
        Problem.WRONG_ARTICLE_TTL,
        "article",
        """
  local ttl = is(keys.article .. name, 'hash') and call('TTL', keys.article .. name) or 0
  if ttl == -1 or ttl > ttls.article then
    report(name)
    if fix then call('EXPIRE', keys.article .. name, ttls.article) end
  end
""",
    ),
    LuaCheck(
        Problem.ARTICLE_NOT_ATTEMPTED,
        "article",
        """
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
""",
    ),
    LuaCheck(
        Problem.STALE_ATTEMPT,
        "attempted_members",
        """
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
""",
    ),
    LuaCheck(
        Problem.BAD_FAILURE,
        "failure_members",
        """
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
""",
    ),
    LuaCheck(
        Problem.ALIAS_OF_NOTHING,
        "alias",
        """
  local target = is(keys.alias .. name, 'string') and call('GET', keys.alias .. name)
  if target and type_of(keys.article .. target) == 'none' and not has_ended(target) then
    report(name)
    if fix then
      call('DEL', keys.alias .. name)
      if is(keys.attempted, 'set') then call('SREM', keys.attempted, name) end
      if is(keys.attempted_at, 'zset') then call('ZREM', keys.attempted_at, name) end
    end
  end
""",
    ),
    LuaCheck(
        Problem.ALTERED_TEXT,
        "article",
        """
  local key = keys.article .. name
  local sum = get(key, 'text_sha1')
  local text = get(key, 'content_hash') .. '\\n' .. get(key, 'markdown') .. '\\n' .. get(key, 'clean_text')
  if sum ~= '' and get(key, 'status') == 'success' and redis.sha1hex(text) ~= sum then
    report(name)
    if fix then
      quarantine(key, 'markdown', get(key, 'markdown'))
      call('HDEL', key, 'markdown', 'clean_text', 'content_hash', 'text_sha1')
      read_again(get(key, 'item_id'))
    end
  end
""",
    ),
)
