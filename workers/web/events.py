"""Fan the event stream out to clients: one reader of Redis per process, a bounded queue per client.

A client that does not keep up is disconnected instead of buffered for: it comes back with the id of the last event it
got, and misses nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from core.store.cancellation import cancel_and_wait
from core.store.event_stream import BATCH_EVENTS, FIRST_ID, EventStream, StoredEvent, order

log = logging.getLogger("web")

MOST_WAITING_EVENTS = 2_000
WAIT_MS = 2_000
"""Shorter than REDIS_TIMEOUT_SECONDS may sensibly be."""
GATHER_SECONDS = 0.05
GATHER_SECONDS_PER_CLIENT = 0.002
"""Events that come within this time are sent in one piece: with 200 clients that is a quarter of the CPU."""
MOST_GATHER_SECONDS = 1.0
RETRY_SECONDS = 1.0
GAP = "gap"
"""The type of the event that tells a client that others are missing."""


def gap_event(after_id: str, event_id: str = "") -> StoredEvent:
    """Return the event that says that others are no longer in the stream.

    Without an id of its own a client that leaves now still asks for everything after the last event it got.
    """
    why = f"Events after {after_id} may be missing: the stream keeps only the last ones."
    return StoredEvent(event_id, GAP, {"message": why, "after": after_id})


def encoded(events: list[StoredEvent], types: frozenset[str]) -> bytes:
    """Return events in the format of server-sent events; without `types`, all of them."""
    return "".join(_text(one) for one in events if not types or one.type in types or one.type == GAP).encode()


def _text(one: StoredEvent) -> str:
    name = "".join(one.type.split()) or "message"
    mark = f"id: {one.id}\n" if one.id else ""
    return f"{mark}event: {name}\ndata: {json.dumps({'type': one.type, **one.fields})}\n\n"


class Subscription:
    """What one client still has to be sent."""

    def __init__(self, after_id: str, types: frozenset[str], abort: Callable[[], None]) -> None:
        self.after_id = after_id
        """Everything later comes through the queue."""
        self.types = types
        self._abort = abort
        self._queue: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self._waiting = 0
        self.is_closed = False

    def offer(self, count: int, text: bytes) -> None:
        """Queue a piece of the stream; disconnect a client for which too much waits already."""
        if self.is_closed:
            return
        self._waiting += count
        if self._waiting > MOST_WAITING_EVENTS:
            log.info("🐌 A client of the event stream does not keep up and is disconnected")
            self.close()
            self._abort()
        else:
            self._queue.put_nowait((count, text))

    async def next_piece(self) -> bytes | None:
        """Return what to send next; None at the end."""
        piece = await self._queue.get()
        if piece is None:
            return None
        self._waiting -= piece[0]
        return piece[1]

    def close(self) -> None:
        """Let the client's handler come to its end."""
        self.is_closed = True
        self._queue.put_nowait(None)


class EventFeed:
    """Reads the stream once for all subscriptions, and only while there are some."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self._subscriptions: set[Subscription] = set()
        self._position = FIRST_ID
        self._has_clients = asyncio.Event()
        self._opening = asyncio.Lock()
        self.is_closed = False

    @property
    def count_clients(self) -> int:
        return len(self._subscriptions)

    @property
    def position(self) -> str:
        """Return the id of the last event that was read."""
        return self._position

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read until the end of the block; then let all clients go."""
        task = asyncio.create_task(self._read_forever())
        try:
            yield
        finally:
            self.close()
            await cancel_and_wait(task)

    def close(self) -> None:
        self.is_closed = True
        for one in self._subscriptions:
            one.close()

    @asynccontextmanager
    async def subscribed(self, types: frozenset[str], abort: Callable[[], None]) -> AsyncIterator[Subscription]:
        """Yield a subscription to everything after its `after_id`."""
        async with self._opening:
            if not self._subscriptions:
                self._position = (await self.stream.ends()).last_id
            subscription = Subscription(self._position, types, abort)
            self._subscriptions.add(subscription)
        self._has_clients.set()
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions:
                self._has_clients.clear()

    async def _read_forever(self) -> None:
        has_failed = False
        while True:
            await self._has_clients.wait()
            try:
                await self._read_once(check_gap=has_failed)
                has_failed = False
            except (RedisError, OSError) as error:
                if not has_failed:
                    log.warning("⚠️ The event stream cannot be read (%s); trying again", type(error).__name__)
                has_failed = True
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_once(self, *, check_gap: bool) -> None:
        position = self._position
        events = await self.stream.wait_after(position, WAIT_MS)
        if position != self._position or not events:
            return  # the last client left and another came meanwhile
        if check_gap and order((ends := await self.stream.ends()).first_id) > order(position) and ends.is_trimmed:
            events = [gap_event(position), *events]
        self._publish(events)
        if len(events) < BATCH_EVENTS:
            pause = GATHER_SECONDS + GATHER_SECONDS_PER_CLIENT * len(self._subscriptions)
            await asyncio.sleep(min(pause, MOST_GATHER_SECONDS))

    def _publish(self, events: list[StoredEvent]) -> None:
        self._position = events[-1].id
        texts = {types: encoded(events, types) for types in {one.types for one in self._subscriptions}}
        for one in list(self._subscriptions):
            if texts[one.types]:
                one.offer(len(events), texts[one.types])
