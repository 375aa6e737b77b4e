"""A store in full work, as the overview shows it: written as the processes would, without waiting for them."""

from __future__ import annotations

import math

from core import ids
from core.feeds.feed_state import FeedState, FeedStatus, to_hash
from core.feeds.io import broken_feeds
from core.keys import Keys
from core.registry.io.metric_history_store import HistoryStore
from core.runs.io.run_store import RunStore
from core.runs.run import RunKind
from core.store.connect import Client

HOSTILE = "<script>alert(1)</script>"
DAY_MINUTES = 1_440


async def broken_feed(client: Client, keys: Keys, url: str, now: float, title: str = "", text: str = "410") -> str:
    """A feed that broke then; return its id."""
    fid = ids.feed_id(url)
    state = FeedState(url, status=FeedStatus.ERROR, title=title, error_text=text, error_class="hard", last_poll_ts=now)
    await client.sadd(keys.categories, "world")
    await client.sadd(keys.feeds("world"), url)
    await client.zadd(keys.feeds_due, {fid: now + 600})
    await client.hset(keys.feed(fid), mapping=to_hash(state, ["world"]))
    await client.execute_command(*broken_feeds.listed(keys, fid, state))
    return fid


async def history(client: Client, keys: Keys, now: float, minutes: int = DAY_MINUTES) -> None:
    """A day in which everything rises and falls."""
    store = HistoryStore(client, keys)
    for ago in range(minutes, -1, -1):
        wave = 1 + math.sin(ago / 200)
        values = {"p50": 3_000 + 2_000 * wave, "p95": 20_000 + 9_000 * wave, "queue_refresh": 3.0 * wave}
        passed = minutes - ago
        values |= {"polled": 10.0 * passed, "links_new": 4.0 * passed, "stored": 3.0 * passed}
        values |= {"written_chunks": 198_000.0 + passed, "indexed_pages": 8_000.0 + passed / 2, "links_failed": 12.0}
        values |= {"unchanged": 90.0 * passed + 300 * math.sin(ago / 90), "changed": 5.0 * passed, "failed": passed}
        await store.add(now - 60 * ago, values)


async def held_source(client: Client, keys: Keys, sid: str = "docs.site") -> None:
    """A source that the loss guard has stopped."""
    await client.sadd(keys.sources, sid)
    why = "40 of 50 items would be gone within a day (the limit is 20)"
    text = f"{sid}: {why}. Nothing more is removed. If that is right: python -m scripts.domain crawl docs --yes"
    await client.hset(keys.source(sid), "held", text)


async def running(client: Client, keys: Keys, now: float, kind: RunKind, progress: int, message: str, **of: str) -> str:
    """A run that is on its way; return its id."""
    store = RunStore(client, keys)
    run, _ = await store.open(kind, now, started_by="test", **of)
    beat = f"{now:.3f}"
    fields = {"status": "running", "progress": str(progress), "message": message, "started_ts": beat}
    await store.update(run.id, {**fields, "heartbeat_ts": beat})
    return run.id
