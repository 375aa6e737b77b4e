"""Register what sources list: each item once, however often it is listed.

Registering is the crawl queue: a new item is due at once; a known one keeps its time, unless its source says that its
content has changed. One script per batch, and a resend changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from core import ids
from core.ids import domain_of_source
from core.keys import Keys
from core.models import Ref, RejectedUrl
from core.registry.blank_record import blank_fields, own_fields
from core.registry.record import URLS_SOURCE, Status, iso
from core.store.commands import flat
from core.store.connect import Client
from core.store.event_command import EVENTS_KEPT
from core.store.leases import new_token
from core.store.packing import packed_json
from core.urls import file_paths, secrets
from core.urls.normalise import normalise_url, public_url
from core.urls.tracking_parameters import Trackers, tracker_matcher
from core.value_class import value_class

MOST_PAGES = 10_000_000
_KNOWN = "s"
_QUERY = re.compile(r"\?|%3F", re.IGNORECASE)

# KEYS[1] refs, KEYS[2] due, KEYS[3] seen, KEYS[4] items by status Pending, KEYS[5] by status Gone
# ARGV[1] JSON: source, now, iso, most, revives, believes, force, token, must_exist, events, events_kept, kb (empty: the
# source belongs to none), state (its key), documents (how their keys begin), template (a key that is there for a
# moment, while this runs), blank (the fields that all new records share), entries
# (id, record key, partition key, depth, version, own fields, address, display).
# Of several spellings of one address the least is fetched, and the shortest way counts as depth: so whatever order
# items are listed in, the registry is the same. A visited item keeps its address, to which its validators belong.
# Returns for each: n = new to the source, m = known and its content has changed, s = known, f = the source is full.
_REGISTER = """
local call = redis.call
local request = cjson.decode(ARGV[1])
local answers = {}
-- A new record is a copy of one with the fields that they all have, and its own fields: the server copies every word
-- of a command for its log, and fifty blank fields for each item took most of its time.
local blank
local function make_record(key, own)
  if not blank then
    call('HSET', request.template, 'addedTs', request.now, unpack(request.blank))
    blank = call('DUMP', request.template)
    call('DEL', request.template)
  end
  call('RESTORE', key, 0, blank)
  call('HSET', key, unpack(own))
end
-- What new items need beside their records is written for many at once, for the same reason.
local refs, due, seen, pending, partitions, held = {}, {}, {}, {}, {}, 0
-- Items of this batch that were listed by it, with their depth.
local new = {}
local function write_held()
  local depths = {}
  for _, id in ipairs(refs) do
    depths[#depths + 1] = new[id]
    depths[#depths + 1] = id
  end
  if #depths > 0 then call('ZADD', KEYS[1], unpack(depths)) end
  if #due > 0 then call('ZADD', KEYS[2], unpack(due)) end
  if #seen > 0 then call('ZADD', KEYS[3], 'GT', unpack(seen)) end
  if #pending > 0 then call('SADD', KEYS[4], unpack(pending)) end
  for partition, members in pairs(partitions) do call('SADD', partition, unpack(members)) end
  refs, due, seen, pending, partitions, held = {}, {}, {}, {}, {}, 0
end
local function hold(list, ...)
  for _, word in ipairs({...}) do list[#list + 1] = word end
end
-- Due now, and the record says so.
local function make_due(key, id, ...)
  if new[id] then return end
  local words = {...}
  for _, word in ipairs({'CH', request.now, id}) do words[#words + 1] = word end
  if call('ZADD', KEYS[2], unpack(words)) > 0 then call('HSET', key, 'nextCrawlAt', request.iso) end
end
local room
-- How many more the source may have; counted when it first matters. What is gone takes no place.
local function has_room()
  if not room then
    room = request.most - call('ZCARD', KEYS[1])
    if room <= 0 then room = room + call('ZINTERCARD', 2, KEYS[1], KEYS[5]) end
  end
  return room > 0
end
-- A page that another knowledge base has stored is a document of this one too.
local function count_known(key, id, sources)
  if request.kb == '' or string.find(',' .. sources, ',' .. request.kb .. '.', 1, true) then return end
  if call('HEXISTS', request.documents .. id, 'content_hash') == 0 then return end
  local function raise(name, by) call('HINCRBY', request.state, name, by) end
  raise('crawl.last_doc_id', 1)
  raise('processing.documents_saved', 1)
  local indexed, chunks = unpack(call('HMGET', key, 'indexedHash', 'chunkCount'))
  if (indexed or '') == '' then return end
  raise('processing.last_chunked_id', 1)
  raise('processing.last_indexed_id', 1)
  raise('processing.chunks_total', tonumber(chunks or 0) or 0)
end
local is_removed = request.must_exist ~= '' and call('HEXISTS', request.must_exist, 'config') == 0
for _, entry in ipairs(request.entries) do
  local id, key, partition, depth, version, own, address, display = unpack(entry)
  local is_listed = new[id] or call('ZSCORE', KEYS[1], id)
  local answer = 's'
  if is_removed or (not is_listed and not has_room()) then
    answer = 'f'
  else
    local is_fresh = call('EXISTS', key) == 0
    if is_fresh then
      make_record(key, own)
      if is_listed then -- its record was lost
        call('HSET', key, 'sources', '')
        call('HDEL', key, 'addedTs')
      end
      partitions[partition] = partitions[partition] or {}
      hold(partitions[partition], id)
      hold(pending, id)
    elseif call('HGET', key, 'crawlAttempts') == '0' and address < call('HGET', key, 'fetchUrl') then
      call('HSET', key, 'fetchUrl', address, 'displaySource', display)
    end
    if not is_listed then
      answer = 'n'
      room = room - 1
      if is_fresh then
        hold(due, request.now, id)
      else
        make_due(key, id)
        call('HSET', key, 'addedTs', request.now)
      end
      new[id] = depth
      hold(refs, id)
    end
    if answer == 'n' and not is_fresh then
      local sources = call('HGET', key, 'sources') or ''
      if not string.find(',' .. sources .. ',', ',' .. request.source .. ',', 1, true) then
        call('HSET', key, 'sources', sources == '' and request.source or sources .. ',' .. request.source)
        if sources ~= '' then
          call('XADD', request.events, 'MAXLEN', '~', request.events_kept, '*', 'type', 'item.listed', 'id', id)
          count_known(key, id, sources)
        end
      end
    elseif is_listed and tonumber(is_listed) > depth then
      new[id] = new[id] and depth
      call('ZADD', KEYS[1], depth, id)
    end
    if is_listed and request.revives and call('HGET', key, 'status') == 'Gone' then
      answer = 'm'
      make_due(key, id)
    end
    if version ~= '' then
      local listed, visited, failures, missing =
        unpack(call('HMGET', key, 'listedVersion', 'visitedVersion', 'consecutiveFailures', 'missingChecks'))
      if listed ~= version then call('HSET', key, 'listedVersion', version) end
      if request.believes and visited ~= version then
        if listed ~= version then
          make_due(key, id, 'LT')
          if answer == 's' then answer = 'm' end
        elseif (failures or '0') == '0' and (missing or '0') == '0' then
          -- Picked by a pass that was interrupted, and held back for it.
          make_due(key, id, 'XX', 'LT')
        end
      elseif request.believes and listed == version then
        call('HSET', key, 'verifiedTs', request.now, 'verifiedBy', 'listing')
      end
    end
    hold(seen, request.now, id)
    if request.force and call('HGET', key, 'forcedBy') ~= request.token then
      call('HINCRBY', key, 'reindexGeneration', 1)
      call('HSET', key, 'reindexRequested', 'true', 'forcedBy', request.token)
      make_due(key, id, 'LT')
    end
  end
  answers[#answers + 1] = answer
  held = held + 1
  if held == 1000 then write_held() end
end
write_held()
return table.concat(answers)
"""


@value_class
class Registered:
    """What became of a batch of refs, each by item id."""

    new: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """The source was full."""


@value_class
class Listing:
    """How a source's refs are registered."""

    source: str
    most: int = MOST_PAGES
    revives: bool = False
    """Whether being listed means that it is there: true of a file in a folder, not of a link to a page."""
    believes_versions: bool = True
    must_exist: bool = False
    """A source that was removed while its pages were visited takes nothing more."""
    force: bool = False
    token: str = ""
    """Names one force, so that a resend does not force twice."""


class Registrar:
    """Turns refs into items."""

    def __init__(
        self,
        client: Client,
        keys: Keys,
        partition_strategy: str,
        tracking_params: tuple[str, ...] = (),
        sign_file: Callable[[str], str] | None = None,
    ) -> None:
        """`sign_file`: makes the signature without which a single file is not read (`read_permission`)."""
        self._client = client
        self._trackers = tracker_matcher(tracking_params)
        self._keys = keys
        self._strategy = partition_strategy
        self._sign_file = sign_file

    async def register(self, refs: Sequence[Ref], listing: Listing, now: float) -> Registered:
        """Make all of these items of the source."""
        entries: list[list[object]] = []
        for ref in dict.fromkeys(refs):
            normalised, address, display = _identity(ref)
            own = own_fields(normalised, address, item_type=ref.type, strategy=self._strategy, display=display)
            item_id, partition = own["id"], self._keys.partition(own["PartitionKey"])
            shown = (own["fetchUrl"], own["displaySource"])
            entries.append([item_id, self._keys.item(item_id), partition, ref.depth, ref.version, flat(own), *shown])
        if not entries:
            return Registered()
        source = listing.source
        request = {
            "source": source,
            "now": now,
            "iso": iso(now),
            "most": listing.most,
            "revives": listing.revives,
            "believes": listing.believes_versions,
            "force": listing.force,
            "token": listing.token,
            "must_exist": self._keys.source(source) if listing.must_exist else "",
            "events": self._keys.events,
            "events_kept": EVENTS_KEPT,
            "kb": domain_of_source(source),
            "state": self._keys.kb_state(domain_of_source(source)),
            "documents": self._keys.document(""),
            "template": self._keys.item("template"),
            "blank": flat(blank_fields(now) | {"sources": source}),
            "entries": entries,
        }
        pending, gone = (self._keys.status(str(status)) for status in (Status.PENDING, Status.GONE))
        keys = (self._keys.refs(source), self._keys.due(source), self._keys.seen(source), pending, gone)
        letters = cast(str, await self._client.eval(_REGISTER, len(keys), *keys, packed_json(request)))
        results: dict[str, str] = {}
        for (name, *_), letter in zip(entries, letters, strict=True):
            if results.get(str(name), _KNOWN) == _KNOWN:  # two spellings of one item: new once
                results[str(name)] = letter
        return Registered(*(tuple(name for name, result in results.items() if result == one) for one in "nmsf"))

    async def add(self, source: str, item_type: str, now: float, *, force: bool = False) -> str | RejectedUrl:
        """Register one URL or file that no source lists; return its id, or why not."""
        ref = ref_of(source, item_type, self._trackers)
        if isinstance(ref, RejectedUrl):
            return ref
        item_id = item_id_of(ref)
        await self.register([ref], Listing(URLS_SOURCE, force=force, token=new_token()), now)
        if ref.type == "file" and self._sign_file:
            await self._client.hset(self._keys.item(item_id), "fileSignature", self._sign_file(ref.address))
        return item_id


def item_id_of(ref: Ref) -> str:
    """Return the item id of a ref, registered or not."""
    return ids.item_id(ref.type, _identity(ref)[0])


def _identity(ref: Ref) -> tuple[str, str, str]:
    """Return the normalised source, the address to fetch and what people see."""
    if ref.type == "url":
        return normalise_url(ref.address), secrets.without_credentials(ref.address), ""
    file = file_paths.file_identity(ref.address)
    return file.normalised, file.address, file.display


def ref_of(source: str, item_type: str, trackers: Trackers | None = None) -> Ref | RejectedUrl:
    """Return a ref of what a person wrote, cleaned and without secrets; or why it cannot be one."""
    if item_type == "file":
        try:
            return Ref(file_paths.file_identity(source).address, "file")
        except ValueError as error:
            return RejectedUrl(secrets.redact(_QUERY.split(source, maxsplit=1)[0]), str(error))
    cleaned = public_url(source, trackers)
    return RejectedUrl(secrets.redact(source), cleaned.reason) if isinstance(cleaned, RejectedUrl) else Ref(cleaned)
