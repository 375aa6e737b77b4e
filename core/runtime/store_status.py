"""Collect everything that `scripts.status --json` and the HTTP API show as status, as plain values."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from redis.exceptions import RedisError

from core.feeds.io.feed_store import FeedStore
from core.feeds.io.link_store import Ttls
from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.outputs.io.webhook_totals import WebhookTotals, read_totals
from core.registry import field_parsing
from core.registry.io.store_counts import StoreCounts
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.runs.io.run_store import RunStore
from core.runs.run import run_json
from core.runtime.queue_names import QueueName, rq_queue_name
from core.search.io.embed_queue import EmbedQueue
from core.search.io.vector_space_store import VectorSpaceStore
from core.settings import Settings
from core.sources.io.source_store import SourceStore
from core.store import connect, redis_health
from core.store.rq_keys import QUEUE_HEAD
from core.urls import redis_url
from core.urls.normalise import host_of
from core.urls.secrets import redact

MAX_HOSTS = 10
MAX_DUE_SOURCES = 10
MAX_RUNS = 5


async def collect_status(settings: Settings, client: connect.Client, keys: Keys) -> dict[str, Any]:
    now = await connect.now(client)
    subscriptions = Subscriptions(client, keys)
    feeds = FeedStore(client, keys, Ttls.of(settings))
    by_category = await subscriptions.by_category()
    states = await feeds.states(sorted({url for urls in by_category.values() for url in urls}))
    counts = StoreCounts(client, keys)
    memory, key_count = await counts.size()
    next_due = await feeds.next_due()
    failure_count, newest = await counts.failures()
    codes = Counter("/".join(filter(None, (failure.code, failure.detail))) for failure in newest)
    hosts = Counter(host_of(failure.url) for failure in newest)
    return {
        "now_ts": now,
        "redis": {
            "url": redis_url.masked(connect.url_of(settings)),
            "used_memory_human": memory,
            "keys": key_count,
            "warnings": await redis_health.dangers(client),
        },
        "categories": {
            category: await _category(counts, category, len(by_category.get(category, [])))
            for category in await subscriptions.categories()
        },
        "feeds": {
            "total": len(states),
            "by_status": dict(Counter(str(state.status) for state in states)),
            "due": len(await feeds.due(now)),
            "next_due_ts": next_due if next_due != float("inf") else None,
        },
        "troubled_feeds": [
            {"url": redact(state.url), "error_class": state.error_class, "error_text": state.error_text}
            for state in states
            if state.error_class
        ],
        "articles": await counts.articles(now),
        "failures": {
            "total": failure_count,
            "by_code": dict(codes.most_common()),
            "by_host": dict(hosts.most_common(MAX_HOSTS)),
        },
        "registry": await _registry(settings, keys, client, now),
        "paused": await RunStore(client, keys).paused(),
        "webhooks": _webhooks(await read_totals(client, keys)),
        "last_cycle": await counts.counters(keys.ingest_last_run),
        "all_cycles": await counts.counters(keys.ingest_stats),
        "last_run": await counts.counters(keys.canonical_last_run),
        "all_runs": await counts.counters(keys.canonical_stats),
    }


async def _category(counts: StoreCounts, category: str, feeds: int) -> dict[str, int]:
    links, articles = await counts.category(category)
    return {"feeds": feeds, "links": links, "articles": articles}


def _webhooks(totals: WebhookTotals) -> dict[str, Any]:
    return {
        "total": totals.webhooks,
        "by_status": {status: count for status, count in totals.by_status.items() if count},
        "failing": totals.failing,
        "waiting": totals.waiting,
        "dead": totals.dead,
        "lost_events": totals.lost_events,
    }


async def _registry(settings: Settings, keys: Keys, client: connect.Client, now: float) -> dict[str, Any]:
    counts, queue = StoreCounts(client, keys), EmbedQueue(client, keys)
    sources = await _sources(counts, SourceStore(client, keys))
    due = Counter(await counts.due([ARTICLES_SOURCE, URLS_SOURCE, *sources], now))
    return {
        "items": await counts.items(),
        "due": {sid: count for sid, count in due.most_common(MAX_DUE_SOURCES) if count},
        "sources": sources,
        "runs": [run_json(run) for run in await RunStore(client, keys).newest(MAX_RUNS, now)],
        "queues": await asyncio.to_thread(_queues, settings),
        "refreshed": await counts.counters(keys.refresh_stats),
        "search": {
            "waiting": await queue.count(),
            "space": await VectorSpaceStore(client, keys).current(),
            "away": await queue.pause_reason(),
        },
    }


async def _sources(counts: StoreCounts, store: SourceStore) -> dict[str, dict[str, Any]]:
    sources = {}
    for sid in await store.ids():
        details = await store.details(sid)
        sources[sid] = {
            "kind": details.get("kind", ""),
            "items": await counts.items_of(sid),
            "last_listed_ts": field_parsing.timestamp(details.get("last_listed_ts")),
            "last_listing": details.get("last_listing", ""),
            "held": details.get("held", ""),
            "full": details.get("full", ""),
        }
    return sources


def _queues(settings: Settings) -> dict[str, int] | str:
    """Count the waiting jobs of each queue; a sentence where the queue's own server does not answer."""
    try:
        client = connect.open_queue(settings)
        try:
            return {str(name): client.llen(QUEUE_HEAD + rq_queue_name(settings, name)) for name in QueueName}
        finally:
            client.close()
    except (RedisError, OSError) as error:
        secret = settings.queue_redis_url
        where = redis_url.masked(secret.get_secret_value() if secret else connect.url_of(settings))
        return f"The queue's server at {where} does not answer ({type(error).__name__}). Check QUEUE_REDIS_URL."
