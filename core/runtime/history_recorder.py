"""Record metrics of the deployment once a minute, for the charts of the overview."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from redis.exceptions import RedisError

from core.keys import Keys
from core.registry.io.metric_history_store import HistoryStore
from core.registry.metric_history import MINUTE_SECONDS
from core.runtime.store_monitor import MetricValues, StoreMonitor
from core.search.io.chunk_count import ChunkCount
from core.store import cancellation
from core.store.connect import Client

log = logging.getLogger("timer")

EARLY_SECONDS = 1.0


def history_values(metrics: MetricValues) -> dict[str, float]:
    ages, waiting, backlog = metrics.freshness.age_seconds, metrics.queues.waiting, metrics.backlog
    return {
        **({"p50": ages[0.5], "p95": ages[0.95]} if ages else {}),
        "due_items": backlog.due_items,
        "due_feeds": backlog.feeds_due,
        "embed_waiting": backlog.embed_waiting,
        **{f"queue_{name}": count for name, count in waiting.items()},
        "articles": metrics.articles,
        "items": sum(metrics.items.values()),
        "chunks": metrics.chunks,
        **metrics.ingested,
        "stored": metrics.links["stored"],
        "links_failed": metrics.links["failed"],
        **metrics.fetches,
        "indexed_pages": metrics.indexed["pages"],
        "written_chunks": metrics.indexed["written"],
    }


class HistoryRecorder:
    """Writes `freshet:history`."""

    def __init__(self, monitor: StoreMonitor, client: Client, keys: Keys) -> None:
        self._monitor = monitor
        self._history = HistoryStore(client, keys)
        self._chunks = ChunkCount(client, keys)

    async def record(self) -> bool:
        """Write the entry of this minute; False: another process has."""
        metrics = await self._monitor.metrics()
        if await self._chunks.start(metrics.now_ts):
            metrics = await self._monitor.metrics()
        return await self._history.add(metrics.now_ts, history_values(metrics))

    @contextlib.asynccontextmanager
    async def running(self, *, once: bool = False) -> AsyncIterator[None]:
        """Record every minute; `once`: before the rest, and no more."""
        if once:
            await self.record()
            yield
            return
        recording = asyncio.create_task(self._record_for_ever())
        try:
            yield
        finally:
            await cancellation.cancel_and_wait(recording)

    async def _record_for_ever(self) -> None:
        while True:
            try:
                await self.record()
            except (RedisError, OSError) as error:
                log.debug("⚠️ Nothing recorded: %s", type(error).__name__)
            # Early in each minute: whoever records a little later each time would leave out one.
            await asyncio.sleep(MINUTE_SECONDS - time.time() % MINUTE_SECONDS + EARLY_SECONDS)
