"""The RQ jobs of the queue `embed`: short jobs in one process, so that the model is loaded once.

If the embedder is unavailable, Redis remembers that as long as it asks for; until then nobody sends it work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter

from core.errors import FreshetError, SettingsError
from core.keys import Keys
from core.runs.io.state_saver import StateSaver
from core.runtime import logs, progress, signals
from core.runtime.allowed_jobs import JobRefused
from core.search.io.chunk_store import ChunkStore
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embed_run import EmbedRun
from core.search.io.embedders import open_embedder
from core.search.io.local_embedder import LocalEmbedder
from core.search.protocols import EmbedderUnavailable
from core.settings import Settings, load
from core.store import connect, redis_health
from core.store.clock import ServerClock
from core.store.commit import Leases
from core.urls.secrets import redact
from workers import embed_dispatch

log = logging.getLogger("embed")

BUDGET_SECONDS = 30.0
"""Half of what RQ gives: a job sends no heartbeat while it runs."""
REFUSED_SECONDS = 60.0
"""Pause after settings that do not fit the store: short, since other workers may have others."""
_kept: list[LocalEmbedder] = []


def embed(item_ids: list[str] | str) -> None:
    """Embed what is new in these items."""
    settings = load()
    logs.configure(settings)
    names = [item_ids] if isinstance(item_ids, str) else item_ids
    counts = asyncio.run(embed_items(settings, names, time.monotonic() + BUDGET_SECONDS))
    if isinstance(item_ids, str) and not counts:  # a person wrote it: the dispatcher sends lists
        raise JobRefused(f"{redact(item_ids)} has no text to embed. `freshet why` says what became of it.")


async def embed_items(settings: Settings, item_ids: list[str], ends_at: float) -> Counter[str]:
    """Embed what is new in these items, on a loop that runs; return what became of them."""
    keys, client, raw = Keys.of(settings), connect.open_store(settings), connect.open_raw(settings)
    # The model stays loaded from job to job; a connection belongs to the loop it was made in.
    embedder = _kept[0] if settings.embedder == "local" and _kept else open_embedder(settings)
    if isinstance(embedder, LocalEmbedder) and not _kept:
        _kept.append(embedder)
    try:
        await redis_health.wait_for_server(client, settings, give_up_seconds=redis_health.ONCE_WAIT_SECONDS)
        clock, leases = await ServerClock.ask(client), Leases(client, keys)
        store = ChunkStore(client, raw, keys)
        with progress.bar(len(item_ids), "Embedding") as bar:
            run = EmbedRun(client, keys, leases, store, embedder, clock, bar.update)
            async with leases.keep_alive():
                try:
                    await run.embed_many(item_ids, lambda: signals.is_stop_requested() or time.monotonic() > ends_at)
                except EmbedderUnavailable as error:
                    await _pause(client, keys, error, error.retry_after_seconds)
                except SettingsError as error:
                    await _pause(client, keys, error, REFUSED_SECONDS)
                else:
                    if not signals.is_stop_requested():  # what waits next need not wait for the timer
                        await embed_dispatch.send(settings, client, keys)
        if run.counts["indexed"] or run.counts["superseded"]:
            _log_summary(run.counts)
        for kb_id in sorted(run.kb_ids):
            await StateSaver(settings, client, keys).save_index(kb_id, clock.now())
        return run.counts
    finally:
        if embedder not in _kept:
            await embedder.close()
        await raw.aclose()
        await client.aclose()


def _log_summary(counts: Counter[str]) -> None:
    changed = f"; {counts['superseded']} changed meanwhile" if counts["superseded"] else ""
    message = "🧭 Indexed %d pages: %d chunks embedded, %d as they were%s"
    log.info(message, counts["indexed"], counts["embedded"], counts["reused"], changed)


async def _pause(client: connect.Client, keys: Keys, reason: FreshetError, seconds: float) -> None:
    """Let nobody send work until then; nothing is counted against any item."""
    whole_seconds = max(int(seconds), 1)
    await EmbedQueue(client, keys).pause(str(reason), whole_seconds)
    log.warning("⏸️ %s Again in %d s; search goes on by words.", reason, whole_seconds)
