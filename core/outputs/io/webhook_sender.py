"""Deliver the queue of one webhook, in order: the first message is tried again before the next one is sent.

A lease keeps two senders apart. A message leaves the queue in the step that records its delivery, so a sender that dies
in between sends it once more, and never loses it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from core.keys import Keys
from core.models import Deferred, Failed
from core.net.fetcher import Fetcher
from core.outputs import webhook_message
from core.outputs.io import webhook_scripts as scripts
from core.outputs.io.webhook_store import DEAD_KEPT, WebhookStore
from core.outputs.webhook import Webhook, words
from core.outputs.webhook_attempts import (
    MOST_ATTEMPTS,
    Attempt,
    MessageFate,
    Settlement,
    judge_failure,
    judge_status,
    settle,
)
from core.outputs.webhook_message import Message
from core.registry.time_formatting import span
from core.store import cancellation
from core.store.connect import Client
from core.store.leases import Lease, Leases
from core.store.packing import packed_json
from core.urls.secrets import redact
from core.value_class import value_class

log = logging.getLogger("webhooks")

HEADS = 50
"""Messages read at once."""
LEASE_RETRY_SECONDS = 5.0
LOST = "0"


@value_class
class QueuedMessage:
    queue: str
    entry: str
    message: Message


async def send(fetcher: Fetcher, webhook: Webhook, message: Message, now: float) -> Attempt | Deferred:
    """Make one attempt; `Deferred` if our own proxy is at fault, which does not count as an attempt."""
    headers = webhook_message.headers(webhook.id, message, webhook.secrets_at(now), now)
    answer = await fetcher.post(webhook.url, message.body.encode(), headers)
    if isinstance(answer, Deferred):
        return answer
    return judge_failure(answer) if isinstance(answer, Failed) else judge_status(answer.status, answer.headers, now)


class WebhookSender:
    def __init__(
        self,
        client: Client,
        keys: Keys,
        fetcher: Fetcher,
        leases: Leases,
        webhook_id: str,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._keys = keys
        self._fetcher = fetcher
        self._leases = leases
        self._store = WebhookStore(client, keys)
        self._dice = dice
        self._lease: Lease | None = None
        self._webhook: Webhook | None = None
        self._changed_at = -1.0
        self._heads: deque[QueuedMessage] = deque()
        self._is_outdated = False
        self.id = webhook_id

    async def step(self, now: float) -> float | None:
        """Make one attempt if one is due; return in how many seconds to come again, None: when something is new."""
        if self._is_outdated:
            self._forget()
        if self._lease is None and not await self._acquire():
            return LEASE_RETRY_SECONDS
        webhook = self._webhook or await self._load()
        if webhook is None or not webhook.is_active:
            await self.release()
            return None
        if webhook.next_attempt_ts > now:
            return webhook.next_attempt_ts - now
        if not self._heads:
            await self._read_heads(webhook)
        return await self._attempt(webhook, self._heads[0], now) if self._heads else None

    def read_again(self) -> None:
        """Read everything again at the next step: the webhook was changed, or its queue is another."""
        self._is_outdated = True

    def _forget(self) -> None:
        self._is_outdated = False
        self._webhook = None
        self._heads.clear()

    async def release(self) -> None:
        lease, self._lease = self._lease, None
        self._forget()
        if lease:
            await self._leases.release(lease)

    # ── read ──

    async def _acquire(self) -> bool:
        name = f"webhook_{self.id}"
        acquired = await self._leases.acquire(name)
        if acquired is None:
            return False
        self._lease = acquired[0]
        await self._leases.clear_crashes(name)
        self._forget()
        return True

    async def _load(self) -> Webhook | None:
        self._changed_at = (await self._store.changes()).get(self.id, 0.0)
        found = await self._store.read_all([self.id])
        self._webhook = found[0] if found else None
        return self._webhook

    async def _read_heads(self, webhook: Webhook) -> None:
        """Read the first messages. While a replay is being queued, nothing that comes after it is sent."""
        pending, replay = self._keys.webhook_pending(self.id), self._keys.webhook_replay(self.id)
        for queue in (replay,) if webhook.replay_after else (replay, pending):
            rows = cast(list[Any], await self._client.xrange(queue, count=HEADS))
            if rows:
                self._heads.extend(QueuedMessage(queue, entry, _message(fields)) for entry, fields in rows)
                return

    # ── send ──

    async def _attempt(self, webhook: Webhook, head: QueuedMessage, now: float) -> float:
        attempt = await send(self._fetcher, webhook, head.message, now)
        if isinstance(attempt, Deferred):
            return attempt.wait_seconds
        settlement = settle(webhook, head.message.event_id, attempt, now, self._dice())
        # Whatever stops us now: the receiver has answered, and that is written down.
        changed_at = await cancellation.finish(self._write(head, settlement, attempt, now))
        _log_attempt(webhook, head.message, settlement, attempt)
        if changed_at == LOST:
            log.warning("🔒 It was removed, or another sender has taken over → %s", self.id)
            await self.release()
        elif float(changed_at) != self._changed_at:
            self._forget()
        else:
            self._webhook = replace(webhook, **settlement.changes)
            if settlement.fate in (MessageFate.DELIVERED, MessageFate.DEAD):
                self._heads.popleft()
        if cancellation.is_cancelled():
            raise asyncio.CancelledError
        return 0.0

    async def _write(self, head: QueuedMessage, settlement: Settlement, attempt: Attempt, now: float) -> str:
        assert self._lease is not None
        keys, lease = self._keys, self._lease
        dead = {
            "reason": redact(attempt.reason),
            "http_status": attempt.http_status,
            "attempts": settlement.failures,
            "given_up_ts": now,
        }
        reply = await self._client.eval(
            scripts.SETTLE,
            5,
            *(keys.webhook(self.id), head.queue, keys.webhook_dead(self.id), lease.keys[0], keys.webhooks),
            *(self.id, lease.token, head.entry, str(settlement.fate)),
            packed_json(words(settlement.changes)),
            str(DEAD_KEPT),
            *words(dead),
        )
        return str(reply)


def _message(fields: Mapping[str, str]) -> Message:
    return Message(fields.get("event", ""), fields.get("type", ""), fields.get("body", ""))


def _log_attempt(webhook: Webhook, message: Message, settlement: Settlement, attempt: Attempt) -> None:
    what, where = f"{message.type} {message.event_id}", f"{webhook.id} {redact(webhook.url)}"
    match settlement.fate:
        case MessageFate.DELIVERED:
            log.debug("📤 %s → %s", what, where)
        case MessageFate.KEPT:
            log.warning("🚫 %s Nothing more is sent; `freshet webhooks resume` sends again → %s", attempt.reason, where)
        case MessageFate.DEAD:
            log.error("💀 %s was given up after %d attempts: %s → %s", what, settlement.failures, attempt.reason, where)
        case MessageFate.RETRY:
            wait = span(settlement.changes["next_attempt_ts"] - settlement.changes["last_attempt_ts"])
            count = f"attempt {settlement.failures} of {MOST_ATTEMPTS}, next in {wait}"
            log.warning("⏳ %s failed (%s): %s → %s", what, count, attempt.reason, where)
