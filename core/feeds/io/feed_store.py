"""Feeds in Redis: a hash per feed with its state, the schedule of polls, and the counters of the ingestor.

The schedule decides which feed is polled next; a lease keeps two ingestors from polling the same feed at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core import ids
from core.feeds.feed_health import summary_of
from core.feeds.feed_state import FeedState, FeedStatus, from_hash, to_hash
from core.feeds.io import broken_feeds
from core.feeds.io.feed_removal import removal_commands
from core.feeds.io.link_store import LinkStore, Ttls
from core.feeds.poll_decision import PollDecision
from core.keys import Keys
from core.registry.io.article_store import ArticleStore
from core.store.commands import Command, batched, flat
from core.store.connect import Client, texts
from core.store.leases import Lease, Leases
from core.store.pipeline import read_many
from core.store.quarantine import Quarantine
from core.value_class import value_class

CHUNK = 2_000


@value_class
class LeasedFeed:
    """A feed that is ours to poll, with its stored state."""

    state: FeedState
    fid: str
    lease: Lease
    taken: int = 1
    """How many times it was leased since its last commit, this one included."""
    categories: tuple[str, ...] = ()
    """The categories that list it, read under the lease."""
    is_poll_due: bool = True
    """False: only the last-seen times of its links are to be renewed before its next poll."""


@value_class
class LeasedElsewhere:
    """Another ingestor holds the lease of this feed, or held it when it died; the lease expires by itself."""


class FeedStore:
    def __init__(self, client: Client, keys: Keys, ttls: Ttls, leases: Leases | None = None) -> None:
        self._client = client
        self._keys = keys
        self._ttls = ttls
        self._links = LinkStore(client, keys, ttls)
        self._articles = ArticleStore(client, keys, ttls)
        self._leases = leases or Leases(client, keys)
        self._quarantine = Quarantine(client, keys)

    # ── the schedule ──

    async def add_to_schedule(self, urls: Iterable[str]) -> None:
        """Add feeds that the schedule lacks; they are due at once."""
        fids = [ids.feed_id(url) for url in urls]
        for start in range(0, len(fids), CHUNK):
            await self._client.zadd(self._keys.feeds_due, dict.fromkeys(fids[start : start + CHUNK], 0.0), nx=True)

    async def make_due(self, urls: Sequence[str], *, force: bool = False) -> None:
        """Make feeds due at once; with `force` their next poll sends no validators and reads the same body again."""
        for start in range(0, len(urls), CHUNK):
            fids = [ids.feed_id(url) for url in urls[start : start + CHUNK]]
            polled = [fid for fid in fids if force and await self._client.exists(self._keys.feed(fid))]
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.zadd(self._keys.feeds_due, dict.fromkeys(fids, 0.0))
                for fid in polled:
                    # Validators are sent only together with the hash of the body they belong to.
                    pipe.hset(self._keys.feed(fid), "body_hash", "")
                await pipe.execute()

    async def reschedule(self, url: str, at: float, reason: str) -> None:
        """Move the next poll of a known feed; a poll that is under way decides anew."""
        fid = ids.feed_id(url)
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.hset(self._keys.feed(fid), mapping={"next_poll_ts": f"{at:.3f}", "next_poll_reason": reason})
            pipe.zadd(self._keys.feeds_due, {fid: at}, xx=True, lt=True)
            await pipe.execute()

    async def count_requested(self) -> int:
        """Return how many feeds someone wants polled now, whatever their schedule says."""
        return int(await self._client.zcount(self._keys.feeds_due, 0, 0))

    async def due(self, now: float) -> list[str]:
        """Return the ids of the feeds that are due, longest waiting first."""
        return texts(await self._client.zrange(self._keys.feeds_due, "-inf", str(now), byscore=True))

    async def next_due(self) -> float | None:
        """Return when the next feed is due; None when there is none."""
        first = await self._client.zrange(self._keys.feeds_due, 0, 0, withscores=True)
        return float(first[0][1]) if first else None

    async def remove(self, fids: Sequence[str]) -> None:
        """Remove feeds without a subscription, with their state."""
        for start in range(0, len(fids), CHUNK):
            part = fids[start : start + CHUNK]
            async with self._client.pipeline(transaction=True) as pipe:
                for command in removal_commands(self._keys, part):
                    pipe.execute_command(*command)
                await pipe.execute()

    async def all_ids(self) -> list[str]:
        return texts(await self._client.zrange(self._keys.feeds_due, 0, -1))

    # ── one feed ──

    async def lease(self, url: str, categories: Sequence[str], now: float) -> LeasedFeed | LeasedElsewhere | None:
        """Lease the feed if it is free; None when it is no longer due, or in none of the categories any more."""
        fid = ids.feed_id(url)
        acquired = await self._leases.acquire(f"feed_{fid}")
        if acquired is None:
            return LeasedElsewhere()
        # Read after the lease: its previous holder may just have rescheduled the feed.
        asked: list[Command] = [("ZSCORE", self._keys.feeds_due, fid), ("HGETALL", self._keys.feed(fid))]
        # A category may have been renamed or dropped since.
        asked += [("SISMEMBER", self._keys.feeds(category), url) for category in categories]
        score, stored, *listed = await read_many(self._client, asked)
        categories = tuple(category for category, is_in in zip(categories, listed, strict=True) if is_in)
        damaged = await self._quarantine.mend_fields(self._keys.feed(fid), "feed", stored)
        stored = {name: value for name, value in stored.items() if name not in damaged}
        state = from_hash(url, stored)
        if stored.get("categories", "") != ",".join(categories):
            state = replace(state, renewed_ts=0.0)  # a 304 must still bring its links into the new category
        # Someone who sets the score to 0 wants a poll now, whatever the state says.
        is_poll_due = score == 0 or state.next_poll_ts <= now
        leased = LeasedFeed(state, fid, *acquired, categories=categories, is_poll_due=is_poll_due)
        if score is None or score > now or not categories:
            await self.release(leased)
            return None
        return leased

    async def release(self, leased: LeasedFeed) -> None:
        await self._leases.release(leased.lease)

    async def links(self, fid: str) -> list[str]:
        """Return the links of the feed's last body, sorted."""
        return sorted(texts(await self._client.smembers(self._keys.feed_links(fid))))

    async def save(
        self,
        leased: LeasedFeed,
        decision: PollDecision,
        categories: Sequence[str],
        now: float,
        counts: Mapping[str, int] | None = None,
    ) -> bool:
        """Commit a poll in one step: state, schedule, links, counters. False: the lease was lost, nothing written."""
        fid, state = leased.fid, decision.state
        due_ts = state.next_poll_ts
        if state.status is FeedStatus.OK:
            # A feed that waits long (skipDays over a weekend) comes up in between, so that its links do not age out.
            due_ts = min(due_ts, now + self._ttls.link / 2)
        commands: list[Command] = [
            ("HSET", self._keys.feed(fid), *flat(to_hash(state, categories))),
            ("HSET", self._keys.feed_summaries, fid, summary_of(state)),
            ("ZADD", self._keys.feeds_due, due_ts, fid),
            broken_feeds.listed(self._keys, fid, state),
        ]
        commands += [("HINCRBY", self._keys.ingest_stats, name, n) for name, n in (counts or {}).items() if n]
        if decision.links is not None:
            key = self._keys.feed_links(fid)
            commands += [] if decision.keeps_old_links else [("DEL", key)]
            commands += batched(("SADD", key), decision.links)
        if decision.links is not None or decision.renew:
            seen = decision.links if decision.links is not None else await self.links(fid)
            commands += self._links.mark_seen(categories, seen, now)
            commands += self._links.store_entries(leased.state.url, decision.new_entries)
            commands += await self._articles.renewal(categories, seen, now)
        return await self._leases.commit(leased.lease, commands)

    async def states(self, urls: Sequence[str]) -> list[FeedState]:
        states: list[FeedState] = []
        for start in range(0, len(urls), CHUNK):
            part = urls[start : start + CHUNK]
            hashes = await read_many(self._client, [("HGETALL", self._keys.feed(ids.feed_id(url))) for url in part])
            states += map(from_hash, part, hashes)
        return states

    async def record_cycle(self, counts: Mapping[str, int], now: float, seconds: float) -> None:
        fields: dict[Any, Any] = {**counts, "ts": int(now), "seconds": f"{seconds:.1f}"}
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(self._keys.ingest_last_run)
            pipe.hset(self._keys.ingest_last_run, mapping=fields)
            if counts.get("left"):  # no commit has counted these
                pipe.hincrby(self._keys.ingest_stats, "left", counts["left"])
            await pipe.execute()
