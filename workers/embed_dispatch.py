"""What waits to be embedded, for a worker whose queue is empty: a lost wake-up costs nothing, and nobody needs a timer.

Sends jobs as the timer does, and none while the embedder is away. What it sent in vain it does not send again at once:
another worker has those pages, or had them until it died.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from core.keys import Keys
from core.runtime.job_queues import JobQueues
from core.search.io.embed_queue import EmbedQueue
from core.settings import Settings
from core.store import connect
from workers.timer import EMBED_BATCH, MOST_EMBED_JOBS, Timer

log = logging.getLogger("embed")

AGAIN_SECONDS = 15.0


class EmbedDispatcher:
    """Looks at `embed:due`."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._keys = Keys.of(settings)
        self._sent: Sequence[str] = []
        self._again_at = 0.0

    def send(self) -> bool:
        """Jobs for what waits; False if there is nothing to send."""
        return asyncio.run(self._send())

    def tell(self) -> None:
        """A sentence if something is left."""
        asyncio.run(self._tell())

    async def _send(self) -> bool:
        async with self._client() as client:
            queue = EmbedQueue(client, self._keys)
            newest = await queue.newest(MOST_EMBED_JOBS * EMBED_BATCH)
            is_in_vain = newest == self._sent and self._clock() < self._again_at
            if not newest or is_in_vain or await queue.away():
                return False
            self._sent, self._again_at = newest, self._clock() + AGAIN_SECONDS
            return await send(self._settings, client, self._keys) > 0

    async def _tell(self) -> None:
        async with self._client() as client:
            queue = EmbedQueue(client, self._keys)
            if left := await queue.count():
                why = await queue.away() or "Another worker has them, or their job failed."
                log.warning("⏳ Still to be embedded: %d items. %s", left, why)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[connect.Client]:
        """Belongs to the loop of one call."""
        client = connect.open_store(self._settings)
        try:
            yield client
        finally:
            await client.aclose()


async def send(settings: Settings, client: connect.Client, keys: Keys) -> int:
    """Jobs for what waits, as far as there is room; how many were sent."""
    queues = JobQueues(settings)
    try:
        return await Timer(settings, client, keys, queues).send_embeds()
    finally:
        queues.close()
