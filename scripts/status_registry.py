"""The registry's part of the status: items, what is due, sources, runs, queues."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.exceptions import RedisError

from core.keys import Keys
from core.registry import field_parsing
from core.registry.io.overview import Overview
from core.registry.io.runs import RunStore
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.runtime.job_queues import JobQueues
from core.runtime.queue_names import QueueName
from core.search.io.embed_queue import EmbedQueue
from core.search.io.vector_space import VectorSpaceStore
from core.settings import Settings
from core.sources.io.source_store import SourceStore
from core.store import connect
from core.store.connect import Client
from core.urls import redis_url
from scripts.domain_report import RUN_HEAD, how_it_ended, run_row
from scripts.tables import ago, table

MOST_SOURCES = 10
MOST_RUNS = 5


async def collect(settings: Settings, keys: Keys, client: Client, now: float) -> dict[str, Any]:
    """Everything as plain values."""
    overview, queue = Overview(client, keys), EmbedQueue(client, keys)
    sources = await _sources(overview, SourceStore(client, keys))
    return {
        "items": await overview.items(),
        "due": await _due(overview, [ARTICLES_SOURCE, URLS_SOURCE, *sources], now),
        "sources": sources,
        "runs": await RunStore(client, keys).newest(MOST_RUNS, now),
        "queues": await asyncio.to_thread(_queues, settings),
        "refreshed": await overview.refreshed(),
        "search": {
            "waiting": await queue.count(),
            "space": await VectorSpaceStore(client, keys).current(),
            "away": await queue.away(),
        },
    }


async def _sources(overview: Overview, store: SourceStore) -> dict[str, dict[str, Any]]:
    seen = {}
    for sid in await store.ids():
        details = await store.details(sid)
        seen[sid] = {
            "kind": details.get("kind", ""),
            "items": await overview.items_of(sid),
            "last_listed_ts": field_parsing.timestamp(details.get("last_listed_ts")),
            "last_listing": details.get("last_listing", ""),
            "held": details.get("held", ""),
            "full": details.get("full", ""),
        }
    return seen


async def _due(overview: Overview, sources: list[str], now: float) -> dict[str, int]:
    """Due now, of the sources that have most of it."""
    counted = sorted(((count, sid) for sid, count in (await overview.due(sources, now)).items()), reverse=True)
    return {sid: count for count, sid in counted[:MOST_SOURCES] if count}


def _queues(settings: Settings) -> dict[str, int] | str:
    """Waiting jobs of each queue; or a sentence, where the queue's own server is away."""
    try:
        queues = JobQueues(settings)
        try:
            return {str(name): queues.count_waiting(name) for name in QueueName}
        finally:
            queues.close()
    except (RedisError, OSError) as error:
        secret = settings.queue_redis_url
        where = redis_url.masked(secret.get_secret_value() if secret else connect.url_of(settings))
        return f"The queue's server at {where} does not answer ({type(error).__name__}). Check QUEUE_REDIS_URL."


# ── for people ──


def lines(seen: dict[str, Any], now: float) -> list[str]:
    """The same for people."""
    items = ", ".join(f"{count} {status}" for status, count in seen["items"].items() if count) or "none yet"
    due = ", ".join(f"{sid} {count}" for sid, count in seen["due"].items()) or "nothing"
    said = [f"Registry  {items}", f"Due now   {due}", f"Queues    {_waiting(seen['queues'])}"]
    search = seen["search"]
    away = f"; {search['away']}" if search["away"] else ""
    said.append(f"Search    {search['waiting']} texts wait for their vectors ({search['space'] or 'none yet'}){away}")
    if seen["refreshed"]:
        said.append("Refreshed " + ", ".join(f"{count} {name}" for name, count in sorted(seen["refreshed"].items())))
    if seen["sources"]:
        head = ("SOURCE", "KIND", "ITEMS", "LAST LISTED", "HOW IT ENDED")
        said += ["", table(head, [_source_row(sid, one, now) for sid, one in seen["sources"].items()])]
    if seen["runs"]:
        said += ["", table(RUN_HEAD, [run_row(run, now) for run in seen["runs"]])]
    return said


def _waiting(queues: dict[str, int] | str) -> str:
    if isinstance(queues, str):
        return queues
    return ", ".join(f"{count} jobs wait in {name}" for name, count in queues.items())


def _source_row(sid: str, one: dict[str, Any], now: float) -> tuple[object, ...]:
    return (sid, one["kind"], one["items"], ago(one["last_listed_ts"], now), how_it_ended(one))
