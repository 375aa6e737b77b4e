"""What waits to be embedded, for a worker whose queue is empty: a lost wake-up costs nothing, and nobody needs a timer.

Sends jobs as the timer does, and none while the embedder is away. What it sent in vain it does not send again at once:
another worker has those pages, or had them until it died.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from core.keys import Keys
from core.queues.send import Sender
from core.settings import Settings
from core.stores import connect
from workers.timer import EMBED_BATCH, MOST_EMBED_JOBS, Timer

log = logging.getLogger("embed")

AGAIN_SECONDS = 15.0


class Waiting:
    """Looks at `embed:due`."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._keys = Keys.of(settings)
        self._client = connect.open_bytes(settings, connect.url_of(settings))
        self._sent: Sequence[object] = []
        self._again_at = 0.0

    def send(self) -> bool:
        """Jobs for what waits; False if there is nothing to send."""
        newest = list(self._client.zrange(self._keys.embed_due, 0, MOST_EMBED_JOBS * EMBED_BATCH - 1, desc=True))
        is_in_vain = newest == self._sent and self._clock() < self._again_at
        if not newest or is_in_vain or self._client.exists(self._keys.embed_away):
            return False
        self._sent, self._again_at = newest, self._clock() + AGAIN_SECONDS
        return asyncio.run(self._send()) > 0

    async def _send(self) -> int:
        client = connect.open_store(self._settings)
        try:
            return await send(self._settings, client, self._keys)
        finally:
            await client.aclose()

    def tell(self) -> None:
        """A sentence if something is left."""
        left, away = self._client.zcard(self._keys.embed_due), self._client.get(self._keys.embed_away)
        if left:
            others = "Another worker has them, or their job failed."
            why = away.decode(errors="replace") if isinstance(away, bytes) else others
            log.warning("⏳ Still to be embedded: %d items. %s", left, why)


async def send(settings: Settings, client: connect.Client, keys: Keys) -> int:
    """Jobs for what waits, as far as there is room; how many were sent."""
    sender = Sender(settings)
    try:
        return await Timer(settings, client, keys, sender).send_embeds()
    finally:
        sender.close()
