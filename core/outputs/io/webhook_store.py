"""Store webhooks: add, list, change and remove them, and ask for replays."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from core.errors import NotFound
from core.keys import Keys
from core.outputs import webhook as stored_form
from core.outputs import webhook_message
from core.outputs.io import webhook_scripts as scripts
from core.outputs.webhook import OLD_SECRET_SECONDS, QueueSizes, Webhook, WebhookStatus, webhook_json
from core.outputs.webhook_filter import EventFilter, InvalidWebhook
from core.registry import field_parsing
from core.store.connect import Client
from core.store.event_stream import FIRST_ID, EventStream, id_before, order
from core.store.pipeline import read_many
from core.value_class import value_class

MOST_WEBHOOKS = 1_000
"""Each has a task, and its own request under way."""
DEAD_KEPT = 1_000
"""Dead letters of a webhook; older ones are dropped."""


@value_class
class DeadLetter:
    """A message that was given up."""

    id: str
    event_id: str
    type: str
    body: str
    reason: str
    http_status: int
    attempts: int
    given_up_ts: float


class WebhookStore:
    """Reads and writes `webhook:<id>` and the list of all webhooks."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def add(self, url: str, wanted: EventFilter, now: float) -> Webhook:
        """Add a webhook that gets every event from now on; return it with its secret, which is shown only now."""
        end = await EventStream(self._client, self._keys).window(FIRST_ID, 1)
        webhook = Webhook(
            id=f"wh_{secrets.token_hex(6)}",
            url=url,
            filter=wanted,
            secret=_new_secret(),
            created_ts=round(now, 3),
            read_id=end.last_id,
            read_count=end.added,
        )
        words = stored_form.words(stored_form.to_hash(webhook))
        keys = (self._keys.webhook(webhook.id), self._keys.webhooks)
        if not await self._client.eval(scripts.ADD, 2, *keys, webhook.id, str(MOST_WEBHOOKS), *words):
            raise InvalidWebhook(f"There are {MOST_WEBHOOKS:,} webhooks already. Remove one first.")
        return webhook

    # ── look ──

    async def changes(self) -> dict[str, float]:
        rows = await self._client.zrange(self._keys.webhooks, 0, -1, withscores=True)
        return {webhook_id: float(score) for webhook_id, score in cast(list[tuple[str, float]], rows)}

    async def read_all(self, webhook_ids: Sequence[str] | None = None) -> list[Webhook]:
        """Return these webhooks, or all; oldest first. One that was removed meanwhile is left out."""
        names = list(await self.changes()) if webhook_ids is None else list(webhook_ids)
        rows = await read_many(self._client, [("HGETALL", self._keys.webhook(name)) for name in names])
        found = [stored_form.from_hash(name, row) for name, row in zip(names, rows, strict=True) if row]
        return sorted(found, key=lambda one: (one.created_ts, one.id))

    async def page(self, offset: int, limit: int) -> tuple[list[Webhook], int]:
        """Return some webhooks, the last changed first, and how many there are."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.zrange(self._keys.webhooks, offset, offset + limit - 1, desc=True)
            pipe.zcard(self._keys.webhooks)
            names, total = await pipe.execute()
        found = {one.id: one for one in await self.read_all(names)}
        return [found[name] for name in names if name in found], int(total)

    async def require(self, webhook_id: str) -> Webhook:
        found = await self.read_all([webhook_id])
        if not found:
            raise _unknown(webhook_id)
        return found[0]

    async def shown(self, webhooks: Sequence[Webhook], now: float) -> list[dict[str, object]]:
        """Return webhooks as scripts print them and the API sends them."""
        sizes = await self.sizes([one.id for one in webhooks])
        return [webhook_json(one, size, now) for one, size in zip(webhooks, sizes, strict=True)]

    async def sizes(self, webhook_ids: Sequence[str]) -> list[QueueSizes]:
        queues = (self._keys.webhook_pending, self._keys.webhook_replay, self._keys.webhook_dead)
        commands = [("XLEN", queue(name)) for name in webhook_ids for queue in queues]
        counts = await read_many(self._client, commands)
        return [QueueSizes(*counts[start : start + len(queues)]) for start in range(0, len(counts), len(queues))]

    async def dead_letters(self, webhook_id: str, limit: int) -> list[DeadLetter]:
        """Return the messages that were given up last, newest first."""
        await self.require(webhook_id)
        rows = await self._client.xrevrange(self._keys.webhook_dead(webhook_id), count=limit)
        return [_dead_letter(*row) for row in cast(list[Any], rows)]

    # ── change ──

    async def pause(self, webhook_id: str) -> Webhook:
        """Send nothing more; events are collected."""
        return await self._change(webhook_id, status=str(WebhookStatus.PAUSED), status_reason="")

    async def resume(self, webhook_id: str) -> Webhook:
        """Send again, at once: also what waits for its next attempt."""
        active = str(WebhookStatus.ACTIVE)
        return await self._change(webhook_id, status=active, status_reason="", next_attempt_ts="0")

    async def rotate(self, webhook_id: str, now: float) -> Webhook:
        """Give it a new secret, which is shown only now; the old one signs beside it for a day."""
        before = await self.require(webhook_id)
        return await self._change(
            webhook_id,
            secret=_new_secret(),
            old_secret=before.secret,
            old_secret_until_ts=f"{now + OLD_SECRET_SECONDS:.3f}",
        )

    async def rename_category(self, old: str, new: str) -> None:
        """Let the filters of all webhooks follow a category that has another name now."""
        for webhook in await self.read_all():
            categories = webhook.filter.categories
            if old in categories:
                renamed = replace(webhook.filter, categories=tuple(new if name == old else name for name in categories))
                await self._change(webhook.id, **renamed.to_hash())

    async def _change(self, webhook_id: str, **values: str) -> Webhook:
        await self._run(scripts.CHANGE, webhook_id, (), *stored_form.words(values))
        return await self.require(webhook_id)

    async def _run(self, script: str, webhook_id: str, queues: Sequence[str], *words: str) -> Any:
        """Run a script about a webhook and these queues; raise NotFound if it is gone."""
        keys = (self._keys.webhook(webhook_id), *queues, self._keys.webhooks)
        reply = await self._client.eval(script, len(keys), *keys, webhook_id, *words)
        if reply is None:
            raise _unknown(webhook_id)
        return reply

    async def remove(self, webhook_id: str) -> Webhook:
        """Remove a webhook with everything that waits for it."""
        webhook, keys = await self.require(webhook_id), self._keys
        queues = (keys.webhook_pending(webhook_id), keys.webhook_replay(webhook_id), keys.webhook_dead(webhook_id))
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.zrem(keys.webhooks, webhook_id)
            pipe.delete(keys.webhook(webhook_id), *queues)
            await pipe.execute()
        return webhook

    # ── replay ──

    async def replay_from(self, webhook_id: str, event_id: str) -> str:
        """Deliver the events from this one on once more, before what waits; return the first id that is still there.

        `0` is before all events.
        """
        event_id = FIRST_ID if event_id == "0" else event_id
        try:
            after = id_before(event_id)
        except ValueError as error:
            raise InvalidWebhook(f"{error}; it is two numbers, as in 1763337600000-0.") from None
        ends = await EventStream(self._client, self._keys).ends()
        await self._run(scripts.REPLAY, webhook_id, [self._keys.webhook_pending(webhook_id)], after)
        return max(event_id, ends.first_id, key=order)

    async def replay_dead(self, webhook_id: str) -> int:
        """Deliver the dead letters once more, oldest first; return how many there are."""
        queues = (self._keys.webhook_replay(webhook_id), self._keys.webhook_dead(webhook_id))
        return int(await self._run(scripts.REPLAY_DEAD, webhook_id, queues))

    async def skip(self, webhook_id: str, now: float) -> str:
        """Give up the first message that waits, and go on with the next; return its event, empty if nothing waits."""
        keys = self._keys
        queues = [queue(webhook_id) for queue in (keys.webhook_replay, keys.webhook_pending, keys.webhook_dead)]
        words = ("reason", "Skipped by hand.", "http_status", "0", "attempts", "0", "given_up_ts", f"{now:.3f}")
        return str(await self._run(scripts.SKIP, webhook_id, queues, str(DEAD_KEPT), *words))


def _new_secret() -> str:
    return webhook_message.secret_text(secrets.token_bytes(webhook_message.SECRET_BYTES))


def _unknown(webhook_id: str) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id[:60]}. `freshet webhooks list` shows them.")


def _dead_letter(entry_id: str, fields: dict[str, str]) -> DeadLetter:
    return DeadLetter(
        id=entry_id,
        event_id=fields.get("event", ""),
        type=fields.get("type", ""),
        body=fields.get("body", ""),
        reason=fields.get("reason", ""),
        http_status=field_parsing.integer(fields.get("http_status")),
        attempts=field_parsing.integer(fields.get("attempts")),
        given_up_ts=field_parsing.timestamp(fields.get("given_up_ts")),
    )
