"""Lua scripts that move links and articles from one category to another. Each may be sent twice and does the same."""

from __future__ import annotations

# KEYS 1 old links, 2 their last-seen times, 3 new links, 4 their last-seen times · ARGV 1 most, 2 TTL.
# Moves some links with their times, a later time stays; what was added by hand has none. Returns how many were handled.
MOVE_LINKS = """
local call = redis.call
local stamped = call('ZRANGE', KEYS[2], 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #stamped, 2 do
  if call('SREM', KEYS[1], stamped[i]) == 1 then
    call('SADD', KEYS[3], stamped[i])
    call('ZADD', KEYS[4], 'GT', stamped[i + 1], stamped[i])
  end
  call('ZREM', KEYS[2], stamped[i])
end
local by_hand = #stamped == 0 and call('SRANDMEMBER', KEYS[1], ARGV[1]) or {}
for _, link in ipairs(by_hand) do
  call('SADD', KEYS[3], link)
  call('SREM', KEYS[1], link)
end
call('EXPIRE', KEYS[3], ARGV[2])
call('EXPIRE', KEYS[4], ARGV[2])
return #stamped / 2 + #by_hand
"""

# KEYS 1 uids of the old category, 2 uids of the new one, 3 events · ARGV 1 JSON: old, new (empty: only leave the old
# one), uids, items with the uids of their articles, uids of failures, the beginnings of their keys, TTL of articles,
# how many events are kept.
# Returns what is in no other category, and is left as it is: uids of articles, ids of items whose article has expired,
# uids of failures.
REPLACE_CATEGORY = """
local call = redis.call
local request = cjson.decode(ARGV[1])
local old, new = request.old, request.new

local function replaced(listed)
  local names, seen, is_in = {}, {}, false
  for name in string.gmatch(listed or '', '[^,]+') do
    if name == old then
      is_in, name = true, new
    end
    if name ~= '' and not seen[name] then
      names[#names + 1], seen[name] = name, true
    end
  end
  return is_in, names
end

-- Returns whether it is in no other category; then nothing is changed.
local function replace(key, field)
  local is_in, names = replaced(call('HGET', key, field))
  if is_in and #names > 0 then call('HSET', key, field, table.concat(names, ',')) end
  return is_in and #names == 0
end

local articles, items, failures, is_alone = {}, {}, {}, {}
for _, uid in ipairs(request.uids) do
  local key = request.article .. uid
  local category, categories, status, item = unpack(call('HMGET', key, 'category', 'categories', 'status', 'item_id'))
  local listed = (categories and categories ~= '') and categories or category
  -- In the set though the article does not say so: it is in the category all the same.
  if listed and call('SISMEMBER', KEYS[1], uid) == 1 then listed = listed .. ',' .. old end
  local is_in, names = replaced(listed)
  if is_in and #names == 0 then
    articles[#articles + 1], is_alone[uid] = uid, true
  else
    if is_in then
      call('HSET', key, 'categories', table.concat(names, ','), 'category', category == old and names[1] or category)
      if item then
        call('XADD', KEYS[3], 'MAXLEN', '~', request.events_kept, '*', 'type', 'item.listed', 'id', item)
      end
      if new ~= '' and status ~= 'gone' then
        call('SADD', KEYS[2], uid)
        call('EXPIRE', KEYS[2], request.ttl)
      end
    end
    call('SREM', KEYS[1], uid)
  end
end
for _, pair in ipairs(request.items) do
  local id, uid = unpack(pair)
  local key, listed = request.item .. id, call('HGET', request.article .. uid, 'categories')
  if listed and not is_alone[uid] then
    if replaced(call('HGET', key, 'articleCategories')) then call('HSET', key, 'articleCategories', listed) end
  elseif not listed and replace(key, 'articleCategories') then
    items[#items + 1] = id
  end
end
for _, uid in ipairs(request.failures) do
  if replace(request.failure .. uid, 'category') then failures[#failures + 1] = uid end
end
return {articles, items, failures}
"""
