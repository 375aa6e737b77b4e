"""Deliver the events of all webhooks: one task fills the queues, and one per webhook sends what is in its own.

A receiver that is slow or down keeps only its own task waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from core.keys import Keys
from core.net.fetcher import Fetcher
from core.outputs.io.webhook_filler import FillResult, WebhookFiller
from core.outputs.io.webhook_sender import WebhookSender
from core.outputs.io.webhook_store import MOST_WEBHOOKS, WebhookStore
from core.settings import Settings
from core.store import cancellation
from core.store.clock import ServerClock
from core.store.connect import Client
from core.store.event_stream import EventStream
from core.store.leases import Leases

log = logging.getLogger("webhooks")

IDLE_SECONDS = 2.0
"""How often a deployment without webhooks looks whether there is one."""
WAIT_MS = 1_000
"""How long to wait for an event before looking whether a webhook was changed."""
GATHER_SECONDS = 0.05
"""Events that come within this time are queued together."""
LOOK_SECONDS = 30.0
"""A sender checks its queue after this long even without a wake-up."""


@dataclass(eq=False, slots=True)
class SenderTask:
    """A sender and what wakes it up."""

    sender: WebhookSender
    changed_at: float
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class WebhookService:
    def __init__(self, settings: Settings, client: Client, keys: Keys, fetcher: Fetcher, leases: Leases) -> None:
        self._client = client
        self._keys = keys
        self._fetcher = fetcher
        self._leases = leases
        self._store = WebhookStore(client, keys)
        self._filler = WebhookFiller(client, keys, settings.webhook_pending_events)
        self._stream = EventStream(client, keys)
        self._senders: dict[str, SenderTask] = {}
        self._clock: ServerClock | None = None

    # ── for ever ──

    async def run_forever(self) -> None:
        """Deliver until cancelled; raise what Redis refuses, and begin again when called again."""
        await self._leases.renew()  # gives back what could not be released while the server was away
        try:
            while True:
                # Asked again and again: a machine that slept would sign with the time at which it fell asleep.
                self._clock = await ServerClock.ask(self._client)
                changes = await self._store.changes()
                await self._match_senders(changes)
                result = await self._fill(changes)
                if not result.has_more:
                    await self._wait(result)
        finally:
            await self._end(list(self._senders))

    async def _match_senders(self, changes: Mapping[str, float]) -> None:
        """Start senders for new webhooks, wake those that were changed, end those that are gone."""
        await self._end([name for name in self._senders if name not in changes])
        for name, changed_at in changes.items():
            known = self._senders.get(name)
            if known is None:
                self._start(name, changed_at)
            elif known.changed_at != changed_at:
                known.changed_at = changed_at
                known.sender.read_again()
                known.wake.set()
        for one in self._senders.values():
            if one.task and one.task.done():
                one.task.result()  # raises what ended it

    async def _fill(self, changes: Mapping[str, float]) -> FillResult:
        result = await self._filler.fill(changes, self._now())
        for name in result.filled & self._senders.keys():
            self._senders[name].wake.set()
        return result

    async def _wait(self, result: FillResult) -> None:
        """Wait for the next event, but not long: a webhook may be added, changed or removed meanwhile."""
        if not result.last_id:
            await asyncio.sleep(WAIT_MS / 1000 if self._senders else IDLE_SECONDS)
        elif await self._stream.wait_after(result.last_id, WAIT_MS, count=1):
            await asyncio.sleep(GATHER_SECONDS)

    def _start(self, name: str, changed_at: float) -> None:
        sender = WebhookSender(self._client, self._keys, self._fetcher, self._leases, name)
        started = self._senders[name] = SenderTask(sender, changed_at)
        started.task = asyncio.create_task(self._send_forever(started))

    async def _send_forever(self, mine: SenderTask) -> None:
        try:
            while True:
                mine.wake.clear()
                wait = await mine.sender.step(self._now())
                if wait != 0.0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SECONDS if wait is None else wait):
                            await mine.wake.wait()
        finally:
            await mine.sender.release()

    async def _end(self, names: list[str]) -> None:
        tasks = [one.task for name in names if (one := self._senders.pop(name)).task]
        await cancellation.cancel_and_wait(*tasks)

    def _now(self) -> float:
        assert self._clock is not None
        return self._clock.now()

    # ── once ──

    async def run_once(self) -> int:
        """Deliver what can be delivered now; return how many attempts were made."""
        self._clock = await ServerClock.ask(self._client)
        changes = await self._store.changes()
        senders = {name: WebhookSender(self._client, self._keys, self._fetcher, self._leases, name) for name in changes}
        attempts = 0
        try:
            while senders:
                result = await self._filler.fill(await self._store.changes(), self._now())
                counts = await asyncio.gather(*(self._drain(sender) for sender in senders.values()))
                attempts += sum(counts)
                if not result.has_more and not any(counts):
                    break
        finally:
            for sender in senders.values():
                await sender.release()
        return attempts

    async def _drain(self, sender: WebhookSender) -> int:
        sender.read_again()
        count = 0
        while await sender.step(self._now()) == 0.0:
            count += 1
        return count


@contextlib.asynccontextmanager
async def open_service(settings: Settings, client: Client, keys: Keys) -> AsyncIterator[WebhookService]:
    """Yield a service with a fetcher of its own, in which every webhook can have a request under way."""
    leases = Leases(client, keys)
    own = settings.model_copy(update={"fetch_concurrency": MOST_WEBHOOKS})
    async with Fetcher(own, client, keys, token_prefix=leases.prefix) as fetcher, leases.keep_alive():
        yield WebhookService(settings, client, keys, fetcher, leases)
