"""One hash per feed: state, health and schedule, readable in redis-cli.

`due` is the truth of who is polled next; a lease keeps two ingestors from polling the same feed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from core import ids
from core.feeds.feed_state import FeedState, FeedStatus
from core.feeds.io import ingest_stats
from core.feeds.io.link_store import LinkStore, Ttls
from core.feeds.polling import PollDecision
from core.keys import Keys
from core.models import PublisherHints
from core.registry import field_parsing
from core.registry.io.articles import ArticleStore
from core.store.commit import Command, Lease, Leases, batched
from core.store.connect import Client, texts
from core.store.quarantine import Quarantine
from core.urls.secrets import redact, without_credentials

CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class LeasedFeed:
    """A feed that is ours to poll, as it stands."""

    state: FeedState
    fid: str
    lease: Lease
    taken: int = 1
    """How many workers took it since it was last committed, we included."""
    is_poll_due: bool = True
    """False: only its links' stamps want renewal before its next poll."""


@dataclass(frozen=True, slots=True)
class LeasedElsewhere:
    """Another ingestor has this feed, or had it when it died; its lease ends by itself."""


class FeedStore:
    """States, the due set, leases and the commit of a poll."""

    def __init__(self, client: Client, keys: Keys, ttls: Ttls, leases: Leases | None = None) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._links = LinkStore(client, keys, ttls)
        self._articles = ArticleStore(client, keys, ttls)
        self._leases = leases or Leases(client, keys)
        self._quarantine = Quarantine(client, keys)

    # ── the due set ──

    async def enrol(self, urls: Iterable[str]) -> None:
        """Every subscribed feed has a place in the due set; a new one is due at once."""
        fids = [ids.feed_id(url) for url in urls]
        for start in range(0, len(fids), CHUNK):
            await self._client.zadd(self._keys.feeds_due, dict.fromkeys(fids[start : start + CHUNK], 0.0), nx=True)

    async def due(self, now: float) -> list[str]:
        """Feed ids whose time has come, longest waiting first."""
        return texts(await self._client.zrange(self._keys.feeds_due, "-inf", str(now), byscore=True))

    async def next_due(self) -> float | None:
        """When the next feed is due; None when there is none."""
        first = await self._client.zrange(self._keys.feeds_due, 0, 0, withscores=True)
        return float(first[0][1]) if first else None

    async def strike_off(self, fids: Sequence[str]) -> None:
        """Feeds nobody subscribes to any more leave the due set and take their state along."""
        for start in range(0, len(fids), CHUNK):
            part = fids[start : start + CHUNK]
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.zrem(self._keys.feeds_due, *part)
                pipe.delete(*map(self._keys.feed, part), *map(self._keys.feed_links, part))
                await pipe.execute()

    async def all_ids(self) -> list[str]:
        """Every feed id in the due set."""
        return texts(await self._client.zrange(self._keys.feeds_due, 0, -1))

    # ── one feed ──

    async def lease(self, url: str, categories: Sequence[str], now: float) -> LeasedFeed | LeasedElsewhere | None:
        """Take the feed if nobody else has it; None when it is no longer due."""
        fid = ids.feed_id(url)
        acquired = await self._leases.acquire(f"feed_{fid}")
        if acquired is None:
            return LeasedElsewhere()
        # Read after the lease: whoever had it before us may just have moved the due stamp.
        pipe = self._client.pipeline(transaction=False)
        pipe.zscore(self._keys.feeds_due, fid)
        pipe.hgetall(self._keys.feed(fid))
        score, stored = await pipe.execute()
        damaged = await self._quarantine.mend_fields(self._keys.feed(fid), "feed", stored)
        stored = {name: value for name, value in stored.items() if name not in damaged}
        state = from_hash(url, stored)
        if stored.get("categories", "") != ",".join(categories):
            state = replace(state, renewed_ts=0.0)  # a 304 must still bring its links into the new category
        # Somebody who sets the score to 0 wants a poll now, whatever the state says.
        leased = LeasedFeed(state, fid, *acquired, is_poll_due=score == 0 or state.next_poll_ts <= now)
        if score is None or score > now:
            await self.release(leased)
            return None
        return leased

    async def release(self, leased: LeasedFeed) -> None:
        """Give the feed back as it was."""
        await self._leases.release(leased.lease)

    async def links(self, fid: str) -> list[str]:
        """The links of the feed's last body."""
        return sorted(texts(await self._client.smembers(self._keys.feed_links(fid))))

    async def save(
        self,
        leased: LeasedFeed,
        decision: PollDecision,
        categories: Sequence[str],
        now: float,
        counts: Mapping[str, int] | None = None,
    ) -> bool:
        """Commit a poll in one step: state, schedule, links, stamps, counters. False: late, nothing was written."""
        commands = self._state_commands(leased.fid, decision.state, categories, now)
        commands += ingest_stats.counted(self._keys, counts or {})
        if decision.links is not None:
            commands += self._body_commands(leased.fid, decision.links, decision.keeps_old_links)
        if decision.links is not None or decision.renew:
            seen = decision.links if decision.links is not None else await self.links(leased.fid)
            commands += self._links.sighting(categories, seen, now)
            commands += self._links.entries(leased.state.url, decision.fresh)
            commands += await self._articles.renewal(categories, seen, now)
        return await self._leases.commit(leased.lease, commands)

    async def states(self, urls: Sequence[str]) -> list[FeedState]:
        """The states of these feeds, in order."""
        found: list[FeedState] = []
        for start in range(0, len(urls), CHUNK):
            part = urls[start : start + CHUNK]
            pipe = self._client.pipeline(transaction=False)
            for url in part:
                pipe.hgetall(self._keys.feed(ids.feed_id(url)))
            found += [from_hash(url, stored) for url, stored in zip(part, await pipe.execute(), strict=True)]
        return found

    def _state_commands(self, fid: str, state: FeedState, categories: Sequence[str], now: float) -> list[Command]:
        # A feed that waits long (skipDays over a weekend) comes up in between, so that its links do not age out.
        is_listed = state.status is FeedStatus.OK
        due_ts = min(state.next_poll_ts, now + self._ttls.link / 2) if is_listed else state.next_poll_ts
        words = [word for pair in to_hash(state, categories).items() for word in pair]
        return [
            ("HSET", self._keys.feed(fid), *words),
            ("ZADD", self._keys.feeds_due, due_ts, fid),
        ]

    def _body_commands(self, fid: str, links: Sequence[str], keeps_old_links: bool) -> list[Command]:
        key = self._keys.feed_links(fid)
        fresh: list[Command] = [] if keeps_old_links else [("DEL", key)]
        return [*fresh, *batched(("SADD", key), links)]


# ── the hash, field by field ────────────────────────────────────────────────────────────────────

_BY_THEMSELVES = {"url", "status", "next_poll_ts", "hints", "events"}
_PLAIN = {f.name: str(f.type) for f in fields(FeedState) if f.name not in _BY_THEMSELVES}
_READERS: dict[str, Callable[[str], Any]] = {
    "int": field_parsing.integer,
    "float": field_parsing.number,
    "str": field_parsing.text,
}


def to_hash(state: FeedState, categories: Sequence[str]) -> dict[str, str]:
    """Every field as a word a person can read; none is left out, so that nothing stale survives (trap T12)."""
    plain = {name: _word(getattr(state, name)) for name in _PLAIN}
    hints = state.hints
    return plain | {
        "url": without_credentials(state.url),
        "next_poll_ts": _word(state.next_poll_ts),
        "error_text": redact(state.error_text),
        "rejected_example": redact(state.rejected_example),
        "categories": ",".join(categories),
        "status": str(state.status),
        "percent_304": str(state.percent_304),
        "percent_duplicate": str(state.percent_duplicate),
        "hint_ttl_seconds": _word(hints.ttl_seconds),
        "hint_update_period_seconds": _word(hints.update_period_seconds),
        "hint_skip_hours": ",".join(map(str, hints.skip_hours)),
        "hint_skip_days": ",".join(map(str, hints.skip_days)),
        "events": redact("\n".join(state.events)),
    }


def from_hash(url: str, stored: Mapping[str, str]) -> FeedState:
    """The state in a hash; what is missing or unreadable takes its default."""
    plain: dict[str, Any] = {name: _READERS[kind](stored[name]) for name, kind in _PLAIN.items() if stored.get(name)}
    hints = PublisherHints(
        ttl_seconds=field_parsing.number(stored.get("hint_ttl_seconds")) or None,
        update_period_seconds=field_parsing.number(stored.get("hint_update_period_seconds")) or None,
        skip_hours=_numbers(stored.get("hint_skip_hours", "")),
        skip_days=_numbers(stored.get("hint_skip_days", "")),
    )
    known = stored.get("status", "") in set(FeedStatus)
    return FeedState(
        url=url,
        status=FeedStatus(stored["status"]) if known else FeedStatus.NEW,
        next_poll_ts=field_parsing.timestamp_or_never(stored.get("next_poll_ts")),
        hints=hints,
        events=tuple(stored.get("events", "").splitlines()),
        **plain,
    )


def _word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return "" if value is None else str(value)


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(",") if word.isdecimal() and len(word) < 3)
