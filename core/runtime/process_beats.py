"""Heartbeats of the processes that RQ does not know: the ingestor, the timer, the HTTP API, the webhook sender."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterable

from redis.exceptions import RedisError

from core.keys import Keys
from core.store import cancellation, connect
from core.store.connect import Client

log = logging.getLogger("store")

INGESTOR, TIMER, WEB, WEBHOOKS = "ingestor", "timer", "web", "webhooks"
PROCESSES = frozenset({INGESTOR, TIMER, WEB, WEBHOOKS})
BEAT_SECONDS = 10.0
ALIVE_SECONDS = 60.0
"""A process without a heartbeat for so long is dead, or hangs."""
KEPT_SECONDS = 86_400.0


class ProcessBeats:
    """Reads and writes `freshet:processes`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def beat(self, process: str) -> None:
        """Record that a process is alive, and forget those that have been silent for a day."""
        now = await connect.now(self._client)
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.zadd(self._keys.processes, {process: now})
            pipe.zremrangebyscore(self._keys.processes, "-inf", now - KEPT_SECONDS)
            await pipe.execute()

    async def end(self, process: str) -> None:
        """Forget a process that ends."""
        await self._client.zrem(self._keys.processes, process)

    @contextlib.asynccontextmanager
    async def running(self, name: str) -> AsyncIterator[None]:
        """Beat every few seconds as this process."""
        process = f"{name}@{socket.gethostname()}:{os.getpid()}"
        beating = asyncio.create_task(self._beat_for_ever(process))
        try:
            yield
        finally:
            await cancellation.cancel_and_wait(beating)
            with contextlib.suppress(RedisError, OSError):
                await self.end(process)

    async def _beat_for_ever(self, process: str) -> None:
        while True:
            try:
                await self.beat(process)
            except (RedisError, OSError) as error:
                log.debug("⚠️ No heartbeat: %s", type(error).__name__)
            await asyncio.sleep(BEAT_SECONDS)


def last_beats(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the last heartbeat by name, of members and scores: several processes may have one name."""
    beats: dict[str, float] = {}
    for process, beat in rows:
        name = process.partition("@")[0]
        if name in PROCESSES:  # anybody may have written others there
            beats[name] = max(beats.get(name, 0.0), float(beat))
    return beats
