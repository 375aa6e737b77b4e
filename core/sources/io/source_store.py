"""Sources in Redis: what they are, when they are listed next, what they remember, and how much they may lose."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import cast

from core.keys import Keys
from core.models import RejectedUrl
from core.registry import field_parsing
from core.sources.domain import DomainFileError, SourceRecord
from core.sources.io import domain_file
from core.sources.lastmod import LastmodTrust
from core.sources.source_state import LossLimit, SourceState
from core.store.commit import DONE_MILLISECONDS, Command, new_token
from core.store.connect import Client, HashFields, texts
from core.store.quarantine import Quarantine
from core.urls import secrets

log = logging.getLogger("store")

REFUSED_KEPT = 1_000
DAY_SECONDS = 86_400.0
STATE = (
    *("config", "memory", "links_dirty", "lastmod_right", "lastmod_wrong", "root_id", "loss_allowed_until"),
    *("last_listed_ts", "notes"),
)

# KEYS[1] sources by next listing, KEYS[2] answer · ARGV: now, new stamp, life of the answer.
# Ids of those that are due, moved ahead in the same step; a resend gets the same.
_CLAIM = """
local before = redis.call('GET', KEYS[2])
if before then return cjson.decode(before) end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
for _, id in ipairs(due) do redis.call('ZADD', KEYS[1], 'XX', ARGV[2], id) end
if #due > 0 then redis.call('SET', KEYS[2], cjson.encode(due), 'PX', ARGV[3]) end
return due
"""

# KEYS[1] source. Clean, unless links have changed since the look began.
_LOOKED = """
if redis.call('HGET', KEYS[1], 'links_dirty') == 'looking' then redis.call('HSET', KEYS[1], 'links_dirty', '0') end
return 1
"""


class SourceStore:
    """Reads and writes `source:<sid>`."""

    def __init__(self, client: Client, keys: Keys, limit: LossLimit | None = None) -> None:
        self._client = client
        self._keys = keys
        self._quarantine = Quarantine(client, keys)
        self.limit = limit or LossLimit()

    # ── what there is ──

    async def ids(self) -> list[str]:
        """All sources of all domains."""
        return sorted(texts(await self._client.smembers(self._keys.sources)))

    async def readable(self) -> list[str]:
        """Those of them whose record is there, or can be had from their domain."""
        sids = await self.ids()
        pipe = self._client.pipeline(transaction=False)
        for sid in sids:
            pipe.hexists(self._keys.source(sid), "config")
        known = zip(sids, await pipe.execute() if sids else [], strict=True)
        return [sid for sid, is_there in known if is_there or await self.record_from_domain(sid)]

    async def has(self, sid: str) -> bool:
        """Return whether there is such a source."""
        return bool(await self._client.sismember(self._keys.sources, sid))

    async def add(self, record: SourceRecord, root_id: str, now: float) -> None:
        """A new source, or a new configuration of a known one; listed at once."""
        fields: HashFields = {
            "sid": record.sid,
            "kind": str(record.kind),
            "domain": record.domain,
            "config": record.to_json(),
            "root_id": root_id,
            "links_dirty": "1",  # another scope may want other links
            "memory": "{}",
        }
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.source(record.sid), mapping=fields)
            pipe.hsetnx(self._keys.source(record.sid), "added_ts", f"{now:.3f}")
            pipe.delete(self._keys.listed(record.sid))  # sitemaps are read anew, by the scope it has now
            pipe.sadd(self._keys.sources, record.sid)
            pipe.zadd(self._keys.sources_due, {record.sid: now})
            await pipe.execute()

    async def remove(self, sid: str) -> None:
        """Forget a source itself; its items are another matter."""
        names = ("source", "refs", "due", "seen", "listed", "refused", "lost")
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(*(getattr(self._keys, name)(sid) for name in names))
            pipe.srem(self._keys.sources, sid)
            pipe.zrem(self._keys.sources_due, sid)
            await pipe.execute()

    async def read(self, sid: str) -> SourceState | None:
        """A source, or None. `DomainFileError` if nobody can tell what it is; its record is then put aside."""
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
        """What a source is; from the domain that it belongs to, where its own record is damaged."""
        try:
            return SourceRecord.from_json(text)
        except DomainFileError:
            found = await self.record_from_domain(sid)
            if found is None:
                await self._put_aside(sid)
                raise
            fields: HashFields = {"sid": sid, "kind": found.kind, "domain": found.domain, "config": found.to_json()}
            await self._client.hset(self._keys.source(sid), mapping=fields)
            log.warning("⚠️ The record of a source was damaged; what it is was read from its domain → %s", sid)
            return found

    async def _put_aside(self, sid: str) -> None:
        """Nobody knows what this source is: it is not listed again before its domain is added; its items stay."""
        if await self._client.exists(self._keys.source(sid)):
            await self._quarantine.whole(self._keys.source(sid))
        await self._client.zrem(self._keys.sources_due, sid)

    async def record_from_domain(self, sid: str) -> SourceRecord | None:
        """A source as its domain describes it; None if there is no such domain, or it cannot be read either."""
        text = await self._client.hget(self._keys.domain(sid.partition(".")[0]), "config")
        try:
            records = domain_file.parse_domain(str(text or ""), "/").sources()
        except DomainFileError:
            return None
        return next((record for record in records if record.sid == sid), None)

    async def details(self, sid: str) -> dict[str, str]:
        """Everything stored about a source, for people."""
        return cast(dict[str, str], await self._client.hgetall(self._keys.source(sid)))

    # ── listing ──

    async def claim_due(self, now: float, hold_seconds: float) -> list[str]:
        """Sources whose next listing has come; they are ours for so long."""
        words = (str(now), str(now + hold_seconds), str(DONE_MILLISECONDS))
        keys = (self._keys.sources_due, self._keys.done(new_token()))
        return texts(await self._client.eval(_CLAIM, len(keys), *keys, *words))

    async def listed(self, sid: str, memory: Mapping[str, str] | None, how: str, now: float, next_at: float) -> None:
        """A listing came to its end; `memory` None keeps what the source remembers."""
        fields: HashFields = {"last_listed_ts": f"{now:.3f}", "last_listing": how, "next_listing_ts": f"{next_at:.3f}"}
        if memory is not None:
            fields["memory"] = json.dumps(dict(memory))
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.source(sid), mapping=fields)
            pipe.zadd(self._keys.sources_due, {sid: next_at}, xx=True)
            await pipe.execute()

    async def refuse(self, sid: str, refused: Sequence[RejectedUrl]) -> None:
        """Keep why these are not taken, as far as there is room."""
        key = self._keys.refused(sid)
        if refused and await self._client.hlen(key) < REFUSED_KEPT:
            some = refused[:REFUSED_KEPT]
            named = ((secrets.without_credentials(one.link), one.reason) for one in some)
            told: HashFields = {link.encode("utf-8", "replace").decode()[:500]: reason for link, reason in named}
            await self._client.hset(key, mapping=told)

    async def refused(self, sid: str, most: int) -> tuple[int, list[tuple[str, str]]]:
        """How many were not taken, and some of them with the reason."""
        key = self._keys.refused(sid)
        some: list[tuple[str, str]] = []
        async for link, reason in self._client.hscan_iter(key, count=most):
            some.append((str(link), str(reason)))
            if len(some) == most:
                break
        return int(await self._client.hlen(key)), some

    async def clear_refused(self, sid: str) -> None:
        """A new listing tells anew."""
        await self._client.delete(self._keys.refused(sid))

    # ── links ──

    def dirty(self, sid: str) -> Command:
        """The command that notes that links have changed."""
        return ("HSET", self._keys.source(sid), "links_dirty", "1")

    async def begin_link_check(self, sid: str) -> None:
        """About to look which pages are linked; it stays dirty until the look has come to its end."""
        await self._client.hset(self._keys.source(sid), "links_dirty", "looking")

    async def end_link_check(self, sid: str) -> None:
        """The look has come to its end; what changed meanwhile is for the next time."""
        await self._client.eval(_LOOKED, 1, self._keys.source(sid))

    async def keep_notes(self, sid: str, notes: Mapping[str, str]) -> None:
        """What a source has learnt about itself; links are looked at anew by it."""
        kept: HashFields = {"notes": json.dumps(dict(notes)), "links_dirty": "1"}
        await self._client.hset(self._keys.source(sid), mapping=kept)

    def graded(self, sid: str, was_right: bool) -> Command:
        """The command that counts whether a sitemap's word was true."""
        return ("HINCRBY", self._keys.source(sid), "lastmod_right" if was_right else "lastmod_wrong", 1)

    def distrust(self, host: str, until: float) -> list[Command]:
        """Commands that note that a host's 304 is not believed until then."""
        key = self._keys.trust(host)
        return [("HINCRBY", key, "false_304", 1), ("HSET", key, "untrusted_until", f"{until:.3f}")]

    # ── losses ──

    async def losses(self, sid: str, now: float) -> tuple[int, int]:
        """How many items the source has lost within a day, and how many it has left."""
        lost = texts(await self._client.zrange(self._keys.lost(sid), str(now - DAY_SECONDS), "+inf", byscore=True))
        listed = int(await self._client.zcard(self._keys.refs(sid)))
        # What 404 has hidden is still listed, what was unlisted is not: neither is counted twice.
        scores = await self._client.zmscore(self._keys.refs(sid), lost) if lost else []
        return len(lost), listed - sum(score is not None for score in scores)

    async def not_lost(self, sid: str, item_ids: Sequence[str], now: float) -> list[str]:
        """Those of these that the source has not lost within a day."""
        scores = await self._client.zmscore(self._keys.lost(sid), list(item_ids)) if item_ids else []
        pairs = zip(item_ids, scores, strict=True)
        return [item_id for item_id, lost_ts in pairs if lost_ts is None or lost_ts < now - DAY_SECONDS]

    async def hold(self, state: SourceState, why: str) -> str:
        """Nothing is removed before a person says so; the sentence that tells them."""
        command = f"python -m scripts.domain crawl {state.record.domain} --yes"
        told = f"{state.sid}: {why}. Nothing more is removed. If that is right: {command}"
        await self._client.hset(self._keys.source(state.sid), "held", told)
        return told

    async def clear_notices(self, sid: str) -> None:
        """A new pass judges anew."""
        await self._client.hdel(self._keys.source(sid), "held", "full")

    async def mark_full(self, sid: str, most: int) -> str:
        """There is no place for more pages; the sentence that tells people. Links are looked at again: for a place."""
        told = f"max_pages ({most:,}) is reached, and further pages are left out; a larger max_pages takes them in"
        await self._client.hset(self._keys.source(sid), mapping={"full": told, "links_dirty": "1"})
        return told

    def lost(self, sid: str, item_id: str, now: float) -> list[Command]:
        """Commands that remember a loss for a day."""
        key = self._keys.lost(sid)
        return [
            ("ZADD", key, now, item_id),
            ("ZREMRANGEBYSCORE", key, "-inf", now - DAY_SECONDS),
            ("EXPIRE", key, int(DAY_SECONDS)),
        ]

    def found_again(self, sid: str, item_id: str) -> Command:
        """The command that takes back a loss."""
        return ("ZREM", self._keys.lost(sid), item_id)

    async def allow_loss(self, sid: str, until: float) -> None:
        """A person has said yes."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.source(sid), "loss_allowed_until", f"{until:.3f}")
            pipe.hdel(self._keys.source(sid), "held")
            await pipe.execute()
