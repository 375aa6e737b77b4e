"""Send jobs for items that wait to be embedded, from a worker whose queue is empty; so it needs no timer.

Sends as the timer does, and nothing while embedding is paused. What it sent without effect it does not send again at
once: another worker has those pages, or had them until it died.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from core.keys import Keys
from core.runtime.job_queues import JobQueues
from core.search.io.embed_queue import EmbedQueue
from core.settings import Settings
from core.store import connect
from workers.due_jobs import EMBED_BATCH, MOST_EMBED_JOBS, DueJobs

log = logging.getLogger("embed")

RESEND_SECONDS = 15.0


class EmbedDispatcher:
    """Sends jobs for `embed:due`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys = Keys.of(settings)
        self._sent: Sequence[str] = []
        self._resend_at = 0.0

    def send(self) -> bool:
        """Send jobs for what waits; return False if there is nothing to send."""
        return asyncio.run(self._send())

    def warn_if_waiting(self) -> None:
        """Log a warning if something still waits."""
        asyncio.run(self._warn_if_waiting())

    async def _send(self) -> bool:
        async with self._client() as client:
            queue = EmbedQueue(client, self._keys)
            waiting = await queue.next(MOST_EMBED_JOBS * EMBED_BATCH)
            was_just_sent = waiting == self._sent and time.monotonic() < self._resend_at
            if not waiting or was_just_sent or await queue.pause_reason():
                return False
            self._sent, self._resend_at = waiting, time.monotonic() + RESEND_SECONDS
            return await send(self._settings, client, self._keys) > 0

    async def _warn_if_waiting(self) -> None:
        async with self._client() as client:
            queue = EmbedQueue(client, self._keys)
            if left := await queue.count():
                reason = await queue.pause_reason() or "Another worker has them, or their job failed."
                log.warning("⏳ Still to be embedded: %d items. %s", left, reason)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[connect.Client]:
        """Open a client for the loop of one call."""
        client = connect.open_store(self._settings)
        try:
            yield client
        finally:
            await client.aclose()


async def send(settings: Settings, client: connect.Client, keys: Keys) -> int:
    """Send jobs for what waits, as far as there is room; return how many."""
    queues = JobQueues(settings)
    try:
        return await DueJobs(settings, client, keys, queues).send_embeds()
    finally:
        queues.close()
