"""What RQ runs on the queue `embed`: short jobs in one process, so that the model is loaded once.

An embedder that is away is remembered in Redis as long as it asks for; until then nobody sends it work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter

from core.errors import FreshetError, SettingsError
from core.keys import Keys
from core.runtime import logs, progress, signals
from core.search.io.chunk_store import ChunkStore
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embed_run import EmbedRun
from core.search.io.embedders import open_embedder
from core.search.io.local_embedder import LocalEmbedder
from core.search.protocols import Embedder, EmbedderUnavailable
from core.settings import Settings, load
from core.store import connect, redis_health
from core.store.clock import ServerClock
from core.store.commit import Leases
from workers import embed_dispatch as embed_waiting

log = logging.getLogger("embed")

BUDGET_SECONDS = 30.0
"""Half of what RQ gives: a job sends no sign of life while it runs."""
REFUSED_SECONDS = 60.0
"""Settings that do not fit the store: short, since other workers may have others."""
_kept: list[LocalEmbedder] = []


def embed(item_ids: list[str]) -> None:
    """Embed what is new in these items."""
    settings = load()
    logs.configure(settings)
    asyncio.run(embed_items(settings, item_ids, time.monotonic() + BUDGET_SECONDS))


async def embed_items(settings: Settings, item_ids: list[str], ends_at: float) -> Counter[str]:
    """The same on a loop that runs; what became of them."""
    keys, client, raw = Keys.of(settings), connect.open_store(settings), connect.open_raw(settings)
    embedder = _open(settings)
    try:
        await redis_health.wait_for_server(client, settings, give_up_seconds=redis_health.ONCE_WAIT_SECONDS)
        clock, leases = await ServerClock.ask(client), Leases(client, keys)
        store = ChunkStore(client, raw, keys)
        with progress.bar(len(item_ids), "Embedding") as bar:
            embedding = EmbedRun(client, keys, leases, store, embedder, clock, bar.update)
            async with leases.keep_alive():
                try:
                    await embedding.embed_many(
                        item_ids, lambda: signals.is_stop_requested() or time.monotonic() > ends_at
                    )
                except EmbedderUnavailable as away:
                    await _pause(client, keys, away, away.retry_after_seconds)
                except SettingsError as refused:
                    await _pause(client, keys, refused, REFUSED_SECONDS)
                else:
                    await _go_on(settings, client, keys)
        _tell(embedding.counts)
        return embedding.counts
    finally:
        await _close(embedder)
        await raw.aclose()
        await client.aclose()


def _tell(counts: Counter[str]) -> None:
    """One line for all pages of the job; nothing if there was nothing to do."""
    if not (counts["indexed"] or counts["superseded"]):
        return
    changed = f"; {counts['superseded']} changed meanwhile" if counts["superseded"] else ""
    told = "🧭 Indexed %d pages: %d chunks embedded, %d as they were%s"
    log.info(told, counts["indexed"], counts["embedded"], counts["reused"], changed)


async def _pause(client: connect.Client, keys: Keys, why: FreshetError, seconds: float) -> None:
    """Nobody sends work until then; nothing is counted against any item."""
    whole = max(int(seconds), 1)
    await EmbedQueue(client, keys).pause(str(why), whole)
    log.warning("⏸️ %s Again in %d s; search goes on by words.", why, whole)


async def _go_on(settings: Settings, client: connect.Client, keys: Keys) -> None:
    """What waits next need not wait for the timer."""
    if not signals.is_stop_requested():
        await embed_waiting.send(settings, client, keys)


def _open(settings: Settings) -> Embedder:
    """The model stays loaded from job to job; a connection belongs to the loop it was made in."""
    if settings.embedder == "local" and _kept:
        return _kept[0]
    embedder = open_embedder(settings)
    if isinstance(embedder, LocalEmbedder):
        _kept.append(embedder)
    return embedder


async def _close(embedder: Embedder) -> None:
    if embedder not in _kept:
        await embedder.close()
