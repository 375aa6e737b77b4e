"""Store sources in Redis: configuration, next listing, notes. What they have lost is in `source_losses`."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from core.keys import Keys
from core.models import ListingEnd, RejectedUrl
from core.net import pace_store
from core.registry import field_parsing
from core.sources.io.source_losses import SourceLosses
from core.sources.lastmod_trust import LastmodTrust
from core.sources.source_record import DomainFileError, SourceRecord, SourceState
from core.store.commands import Command
from core.store.connect import Client, HashFields, texts
from core.store.leases import DONE_MILLISECONDS, new_token
from core.store.pipeline import read_many
from core.store.quarantine import Quarantine
from core.urls import secrets
from core.value_class import value_class

log = logging.getLogger("store")

REFUSED_KEPT = 1_000
UNTRUSTED_KEPT = 1_000
STATE = (
    *("config", "memory", "links_dirty", "lastmod_right", "lastmod_wrong", "root_id", "loss_allowed_until"),
    *("last_listed_ts", "notes"),
)

# KEYS[1] sources by next listing, KEYS[2] reply · ARGV: now, new stamp, TTL of the reply, then paused scopes.
# Returns the ids that are due and not paused, moved ahead in the same step; a command sent twice gets the same reply.
_CLAIM_DUE = """
local before = redis.call('GET', KEYS[2])
if before then return cjson.decode(before) end
local paused, due = {}, {}
for i = 4, #ARGV do paused[ARGV[i]] = true end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])) do
  local domain = string.match(id, '^[^.]*')
  if not (paused['crawl'] or paused['source:' .. id] or paused['domain:' .. domain]) then
    redis.call('ZADD', KEYS[1], 'XX', ARGV[2], id)
    due[#due + 1] = id
  end
end
if #due > 0 then redis.call('SET', KEYS[2], cjson.encode(due), 'PX', ARGV[3]) end
return due
"""

# KEYS[1] source. Its links are clean, unless they have changed since the check began.
_END_LINK_CHECK = """
if redis.call('HGET', KEYS[1], 'links_dirty') == 'looking' then redis.call('HSET', KEYS[1], 'links_dirty', '0') end
return 1
"""


@value_class
class SourceNotice:
    """What a source tells people: it was stopped by the loss guard, or has no room for more pages."""

    sid: str
    text: str
    is_held: bool

    @property
    def domain(self) -> str:
        return self.sid.partition(".")[0]


class SourceStore:
    """Reads and writes `source:<sid>`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._quarantine = Quarantine(client, keys)
        self.losses = SourceLosses(client, keys)

    # ── what there is ──

    async def ids(self) -> list[str]:
        return sorted(texts(await self._client.smembers(self._keys.sources)))

    async def readable(self) -> list[str]:
        """Return the sources whose record is there, or can be restored from their domain."""
        sids = await self.ids()
        has_record = await read_many(self._client, [("HEXISTS", self._keys.source(sid), "config") for sid in sids])
        pairs = zip(sids, has_record, strict=True)
        return [sid for sid, has in pairs if has or await self.record_from_domain(sid)]

    async def has(self, sid: str) -> bool:
        return bool(await self._client.sismember(self._keys.sources, sid))

    async def add(self, record: SourceRecord, root_id: str, now: float) -> None:
        """Add a source, or give a known one another configuration; either is due to be listed at once."""
        # Another scope may want other links.
        fields = _identity(record) | {"root_id": root_id, "links_dirty": "1", "memory": "{}"}
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.source(record.sid), mapping=fields)
            pipe.hsetnx(self._keys.source(record.sid), "added_ts", f"{now:.3f}")
            pipe.delete(self._keys.listed(record.sid))  # sitemaps are read again, by the scope it has now
            pipe.sadd(self._keys.sources, record.sid)
            pipe.zadd(self._keys.sources_due, {record.sid: now})
            for words in pace_store.source_commands(self._keys, record.sid, record.hosts, record.gap_seconds):
                pipe.execute_command(*words)
            await pipe.execute()

    async def remove(self, sid: str) -> None:
        """Remove a source itself; its items are the caller's to remove."""
        names = ("source", "refs", "due", "seen", "listed", "refused", "lost")
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(*(getattr(self._keys, name)(sid) for name in names))
            pipe.srem(self._keys.sources, sid)
            pipe.zrem(self._keys.sources_due, sid)
            for words in pace_store.source_commands(self._keys, sid):
                pipe.execute_command(*words)
            await pipe.execute()

    async def read(self, sid: str) -> SourceState | None:
        """Return a source, or None. A record that cannot be read is quarantined, and DomainFileError raised."""
        values = await self._client.hmget(self._keys.source(sid), STATE)
        if values[0] is None and not await self._client.sismember(self._keys.sources, sid):
            return None
        config, memory, dirty, right, wrong, root_id, allowed, listed, notes = values
        return SourceState(
            record=await self._record(sid, str(config or "")),
            memory=field_parsing.mapping(memory),
            is_dirty=dirty != "0",
            lastmod_trust=LastmodTrust(field_parsing.integer(right), field_parsing.integer(wrong)),
            root_id=cast(str, root_id or ""),
            loss_allowed_until=field_parsing.timestamp(allowed),
            listed_ts=field_parsing.timestamp(listed),
            notes=field_parsing.mapping(notes),
        )

    async def _record(self, sid: str, text: str) -> SourceRecord:
        """Return the record of a source; from the domain that it belongs to, where its own is damaged."""
        try:
            return SourceRecord.from_json(text)
        except DomainFileError:
            record = await self.record_from_domain(sid)
            if record is None:
                # Not listed again before its domain is added; its items stay.
                if await self._client.exists(self._keys.source(sid)):
                    await self._quarantine.whole(self._keys.source(sid))
                await self._client.zrem(self._keys.sources_due, sid)
                raise
            fields: HashFields = _identity(record)
            await self._client.hset(self._keys.source(sid), mapping=fields)
            log.warning("⚠️ The record of a source was damaged; what it is was read from its domain → %s", sid)
            return record

    async def stored_record(self, sid: str) -> SourceRecord | None:
        """Return what a source is, by its own record, or else as its domain describes it; changes nothing."""
        try:
            return SourceRecord.from_json(str(await self._client.hget(self._keys.source(sid), "config") or ""))
        except DomainFileError:
            return await self.record_from_domain(sid)

    async def record_from_domain(self, sid: str) -> SourceRecord | None:
        """Return a source as its domain describes it; None if there is no such domain, or it cannot be read either."""
        text = await self._client.hget(self._keys.domain(sid.partition(".")[0]), "config")
        try:
            from core.sources.io import domain_file  # here: it imports the files of all sources

            records = domain_file.parse_domain(str(text or ""), "/").sources()
        except DomainFileError:
            return None
        return next((record for record in records if record.sid == sid), None)

    async def details(self, sid: str) -> dict[str, str]:
        return cast(dict[str, str], await self._client.hgetall(self._keys.source(sid)))

    # ── listing ──

    async def claim_due(self, now: float, hold_seconds: float, paused: Collection[str] = ()) -> list[str]:
        """Return the sources that are due to be listed, each held for `hold_seconds` against other processes.

        `paused`: scopes whose sources stay due.
        """
        words = (str(now), str(now + hold_seconds), str(DONE_MILLISECONDS), *paused)
        keys = (self._keys.sources_due, self._keys.done(new_token()))
        return texts(await self._client.eval(_CLAIM_DUE, len(keys), *keys, *words))

    async def keep_listing(self, sid: str, run_id: str, end: ListingEnd, now: float) -> None:
        """Remember how the listing of a run ended, until the run does: continued, it needs no second one."""
        kept = {"run": run_id, "ts": now, "is_complete": end.is_complete, "reason": end.reason, "memory": end.memory}
        await self._client.hset(self._keys.source(sid), "run_listing", json.dumps(kept))

    async def kept_listing(self, sid: str, run_id: str, since: float) -> ListingEnd | None:
        """Return how the listing of this run ended, if that was after this time."""
        kept = field_parsing.mapping(await self._client.hget(self._keys.source(sid), "run_listing"))
        if kept.get("run") != run_id or field_parsing.timestamp(kept.get("ts")) < since:
            return None
        memory = kept.get("memory")
        if not isinstance(memory, dict):
            return None
        return ListingEnd(bool(kept.get("is_complete")), str(kept.get("reason")), memory)

    async def finish_listing(
        self, sid: str, memory: Mapping[str, str] | None, how: str, now: float, next_at: float
    ) -> None:
        """Store how a listing ended and when the next is due; `memory` None keeps what the source remembers."""
        fields: HashFields = {"last_listed_ts": f"{now:.3f}", "last_listing": how, "next_listing_ts": f"{next_at:.3f}"}
        if memory is not None:
            fields["memory"] = json.dumps(dict(memory))
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.source(sid), mapping=fields)
            pipe.hdel(self._keys.source(sid), "run_listing")
            pipe.zadd(self._keys.sources_due, {sid: next_at}, xx=True)
            await pipe.execute()

    async def mark_success(self, sid: str, now: float) -> None:
        """Note that a pass came to its end without trouble of the source itself."""
        await self._client.hset(self._keys.source(sid), "last_success_ts", f"{now:.3f}")

    async def postpone_listing(self, sid: str, next_at: float) -> None:
        """List a source not before this time: someone cancelled its crawl."""
        await self._client.zadd(self._keys.sources_due, {sid: next_at}, xx=True, gt=True)

    async def add_refused(self, sid: str, refused: Sequence[RejectedUrl]) -> None:
        """Keep why these are not taken, the first thousand of a listing."""
        key = self._keys.refused(sid)
        if refused and await self._client.hlen(key) < REFUSED_KEPT:
            links = ((secrets.without_credentials(one.url), one.reason) for one in refused[:REFUSED_KEPT])
            reasons: HashFields = {link.encode("utf-8", "replace").decode()[:500]: reason for link, reason in links}
            await self._client.hset(key, mapping=reasons)

    async def refused(self, sid: str, most: int) -> tuple[int, list[tuple[str, str]]]:
        """Return how many were not taken, and some of them with the reason."""
        key = self._keys.refused(sid)
        some: list[tuple[str, str]] = []
        async for link, reason in self._client.hscan_iter(key, count=most):
            some.append((str(link), str(reason)))
            if len(some) == most:
                break
        return int(await self._client.hlen(key)), some

    async def clear_refused(self, sid: str) -> None:
        await self._client.delete(self._keys.refused(sid))

    # ── links ──

    def links_changed(self, sid: str) -> Command:
        return ("HSET", self._keys.source(sid), "links_dirty", "1")

    async def begin_link_check(self, sid: str) -> None:
        """Note that someone checks which pages are linked; the source stays dirty until that has come to its end."""
        await self._client.hset(self._keys.source(sid), "links_dirty", "looking")

    async def end_link_check(self, sid: str) -> None:
        """Note that the check is done; what changed meanwhile is left to the next one."""
        await self._client.eval(_END_LINK_CHECK, 1, self._keys.source(sid))

    async def keep_notes(self, sid: str, notes: Mapping[str, str]) -> None:
        """Store what a source has learnt about itself; its links are checked again."""
        kept: HashFields = {"notes": json.dumps(dict(notes)), "links_dirty": "1"}
        await self._client.hset(self._keys.source(sid), mapping=kept)

    def count_lastmod(self, sid: str, was_right: bool) -> Command:
        """Return the command that counts whether a moved `lastmod` came with a changed text."""
        return ("HINCRBY", self._keys.source(sid), "lastmod_right" if was_right else "lastmod_wrong", 1)

    def distrust(self, host: str, until: float) -> list[Command]:
        """Return commands that note that a host's 304 is not believed until then."""
        key, index = self._keys.trust(host), self._keys.untrusted
        return [
            ("HINCRBY", key, "false_304", 1),
            ("HSET", key, "untrusted_until", f"{until:.3f}"),
            ("ZADD", index, "GT", until, host),
            ("ZREMRANGEBYRANK", index, 0, -UNTRUSTED_KEPT - 1),
        ]

    # ── notices ──

    async def notices(self, sids: Sequence[str]) -> list[SourceNotice]:
        """Return what these sources tell people, those first that the loss guard has stopped."""
        rows = await read_many(self._client, [("HMGET", self._keys.source(sid), "held", "full") for sid in sids])
        held = [SourceNotice(sid, str(row[0]), is_held=True) for sid, row in zip(sids, rows, strict=True) if row[0]]
        full = [SourceNotice(sid, str(row[1]), is_held=False) for sid, row in zip(sids, rows, strict=True) if row[1]]
        return [*held, *full]

    async def clear_notices(self, sid: str) -> None:
        await self._client.hdel(self._keys.source(sid), "held", "full")

    async def mark_full(self, sid: str, most: int) -> str:
        """Note that there is no room for more pages; return the sentence that tells people.

        Links are checked again next time: there may be room then.
        """
        message = f"max_pages ({most:,}) is reached, and further pages are left out; a larger max_pages takes them in"
        await self._client.hset(self._keys.source(sid), mapping={"full": message, "links_dirty": "1"})
        return message


def _identity(record: SourceRecord) -> HashFields:
    return {"sid": record.sid, "kind": record.kind, "domain": record.domain, "config": record.to_json()}
