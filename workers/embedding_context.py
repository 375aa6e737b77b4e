"""The context of an embed job: what it opens, and its end: send the next jobs, log a summary, save states.

If the embedder is unavailable, Redis remembers that as long as it asks for; until then no work is sent to it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.errors import FreshetError, SettingsError
from core.keys import Keys
from core.runs.io.state_saver import StateSaver
from core.runtime import progress, signals
from core.search.io import multilingual_embedder
from core.search.io.embed_queue import EmbedQueue
from core.search.io.item_embedder import ItemEmbedder
from core.search.io.item_embedder_setup import open_item_embedder
from core.search.protocols import EmbedderUnavailable
from core.settings import Settings
from core.store import connect, redis_health
from core.store.clock import ServerClock
from core.store.leases import Leases
from core.value_class import value_class
from workers import embed_dispatch

log = logging.getLogger("embed")

REFUSED_SECONDS = 60.0
"""Pause after settings that do not fit the store: short, since other workers may have others."""


@value_class
class OpenEmbedding:
    """Everything that an embed job uses."""

    client: connect.Client
    keys: Keys
    clock: ServerClock
    run: ItemEmbedder


@asynccontextmanager
async def open_embedding(settings: Settings, total: int) -> AsyncIterator[OpenEmbedding]:
    """Open what embedding needs. If the embedder is unavailable, the block ends and no work is sent for now."""
    keys, client = Keys.of(settings), connect.open_store(settings)
    try:
        await redis_health.wait_for_server(client, settings, give_up_seconds=redis_health.ONCE_WAIT_SECONDS)
        clock, leases = await ServerClock.ask(client), Leases(client, keys)
        with progress.bar(total, "Embedding") as bar:
            async with (
                open_item_embedder(settings, client, keys, leases, clock, bar.update) as run,
                leases.keep_alive(),
            ):
                try:
                    yield OpenEmbedding(client, keys, clock, run)
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
    finally:
        await client.aclose()


def _log_summary(counts: Counter[str]) -> None:
    changed = f"; {counts['superseded']} changed meanwhile" if counts["superseded"] else ""
    message = "🧭 Indexed %d pages: %d chunks embedded, %d as they were%s"
    if counts["without_model"]:
        log.warning("🌍 %d pages are found by words alone. %s", counts["without_model"], multilingual_embedder.MISSING)
    log.info(message, counts["indexed"], counts["embedded"], counts["reused"], changed)


async def _pause(client: connect.Client, keys: Keys, reason: FreshetError, seconds: float) -> None:
    """Pause embedding until then; nothing is counted against any item."""
    whole_seconds = max(int(seconds), 1)
    await EmbedQueue(client, keys).pause(str(reason), whole_seconds)
    log.warning("⏸️ %s Again in %d s; search goes on by words.", reason, whole_seconds)
