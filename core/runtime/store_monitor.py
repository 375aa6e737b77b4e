"""Read the health and the metrics of a running deployment: counters, never a whole key space."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from redis.exceptions import RedisError

from core.keys import Keys
from core.outputs.io.webhook_totals import WebhookTotals, read_totals
from core.registry import field_parsing
from core.registry.freshness import Freshness
from core.registry.io.backlog import Backlog, BacklogReader
from core.registry.io.freshness_sampler import FreshnessSampler
from core.registry.record import ARTICLES_SOURCE, Status
from core.runtime import health_report
from core.runtime.health_report import HealthReport, Needs
from core.runtime.process_beats import last_beats
from core.runtime.queue_monitor import QueueMonitor, QueueState
from core.settings import Settings
from core.store import connect, redis_health
from core.store.clock import ServerClock
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

CLOCK_SECONDS = 60.0
QUEUE_SECONDS = 1.0
HEALTH_SECONDS = 3.0
"""A server that takes longer counts as one that does not answer."""
FETCH_OUTCOMES = ("changed", "unchanged", "gone", "failed", "excluded")
LINK_OUTCOMES = ("stored", "failed", "retry", "alias", "duplicate", "rejected")
POLL_OUTCOMES = ("changed", "unchanged", "errors", "gone", "deferred")
INGESTED = ("polled", "links_new")
INDEXED = ("chunks", "pages", "written")


@value_class
class MetricValues:
    """What a scrape reads from the store."""

    now_ts: float
    items: Mapping[str, int]
    articles: int
    feeds: int
    broken_feeds: int
    """Feeds whose last poll failed, or that were retired."""
    chunks: int
    events: int
    last_event_ts: float
    fetches: Mapping[str, int]
    links: Mapping[str, int]
    polls: Mapping[str, int]
    ingested: Mapping[str, int]
    """`polled` feeds and `links_new`, since the beginning."""
    indexed: Mapping[str, int]
    """`pages` and chunks (`written`) that search was given since the beginning."""
    open_runs: int
    source_success_ts: Mapping[str, float]
    backlog: Backlog
    freshness: Freshness
    webhooks: WebhookTotals
    queues: QueueState
    process_beats: Mapping[str, float]


class StoreMonitor:
    def __init__(self, settings: Settings, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._own_client = connect.open_queue_reader(settings) if settings.queue_redis_url else None
        """On the queues' server, where that is another one."""
        self._queues = QueueMonitor(settings, self._own_client or client)
        self._backlog = BacklogReader(client, keys)
        self._sampler = FreshnessSampler(client, keys)
        self._clock: ServerClock | None = None

    async def aclose(self) -> None:
        """Close the client of the queues' own server, if it has one."""
        if self._own_client:
            await self._own_client.aclose()

    # ── health ──

    async def health(self) -> HealthReport:
        """Return how the deployment is; a server that does not answer is a report too."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                return await self._health()
        except (RedisError, OSError) as error:
            return health_report.unreachable(redis_health.explain(error, ""))

    async def _health(self) -> HealthReport:
        await self._client.ping()  # refused by a server that cannot write
        now = await self._now()
        counts = [("ZCARD", self._keys.feeds_due), ("ZCARD", self._keys.webhooks)]
        beats, feeds, webhooks = await read_many(self._client, [self._beats, *counts])
        backlog, queues = await self._backlog.read(now), await self._queue_state(now)
        return health_report.judge(backlog, queues, last_beats(beats), Needs(feeds > 0, webhooks > 0), now)

    async def _queue_state(self, now: float) -> QueueState:
        """Return the state of the queues; where their own server does not answer, that of no queues."""
        if self._own_client is None:
            return await self._queues.read(now)
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                return await self._queues.read(now)
        except (RedisError, OSError):
            return QueueState(is_reachable=False)

    # ── metrics ──

    async def metrics(self) -> MetricValues:
        now, keys = await self._now(), self._keys
        backlog = await self._backlog.read(now)
        newest = ("XREVRANGE", keys.events, "+", "-", "COUNT", 1)
        replies = await read_many(
            self._client,
            [
                self._beats,
                ("ZCARD", keys.article_index),
                ("ZCARD", keys.feeds_due),
                ("XLEN", keys.events),
                newest,
                ("HLEN", keys.runs_open),
                ("HMGET", keys.refresh_stats, *FETCH_OUTCOMES),
                ("HMGET", keys.canonical_stats, *LINK_OUTCOMES),
                ("HMGET", keys.ingest_stats, *POLL_OUTCOMES),
                ("HMGET", keys.ingest_stats, *INGESTED),
                ("HMGET", keys.embed_stats, *INDEXED),
                ("ZCARD", keys.feeds_broken),
                ("HGET", keys.ingest_last_run, "ts"),
                *(("SCARD", keys.status(str(status))) for status in Status),
            ],
        )
        beats, articles, feeds, events, newest_event, open_runs, fetches, links, *replies = replies
        polls, ingested, indexed, broken, cycle_ts, *items = replies
        index = _counted(INDEXED, indexed)
        return MetricValues(
            now_ts=now,
            items=dict(zip(map(str, Status), items, strict=True)),
            articles=articles,
            feeds=feeds,
            broken_feeds=broken,
            chunks=max(index.pop("chunks"), 0),
            events=events,
            last_event_ts=int(newest_event[0][0].partition("-")[0]) / 1_000 if newest_event else 0.0,
            fetches=_counted(FETCH_OUTCOMES, fetches),
            links=_counted(LINK_OUTCOMES, links),
            polls=_counted(POLL_OUTCOMES, polls),
            ingested=_counted(INGESTED, ingested),
            indexed=index,
            open_runs=open_runs,
            source_success_ts=_with_feeds(backlog.success_ts, cycle_ts),
            backlog=backlog,
            freshness=await self._sampler.read(now),
            webhooks=await read_totals(self._client, keys),
            queues=await self._queue_state(now),
            process_beats=last_beats(beats),
        )

    async def _now(self) -> float:
        """Return the server's time, asked once a minute."""
        if self._clock is None or time.monotonic() - self._clock.asked_at > CLOCK_SECONDS:
            self._clock = await ServerClock.ask(self._client)
        return self._clock.now()

    @property
    def _beats(self) -> tuple[Any, ...]:
        return ("ZRANGE", self._keys.processes, 0, -1, "WITHSCORES")


def _counted(names: tuple[str, ...], values: list[str | None]) -> dict[str, int]:
    return {name: field_parsing.integer(value) for name, value in zip(names, values, strict=True)}


def _with_feeds(success_ts: Mapping[str, float], cycle_ts: object) -> dict[str, float]:
    """Return when a pass over each source last succeeded, with the last cycle of the ingestor."""
    cycle = field_parsing.timestamp(cycle_ts)
    return {**success_ts, **({ARTICLES_SOURCE: cycle} if cycle else {})}
