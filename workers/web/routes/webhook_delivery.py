"""Deliveries of a webhook: test it, skip an event, list and replay dead letters."""

from __future__ import annotations

from dataclasses import asdict

from core.outputs.io.webhook_setup import send_test
from core.outputs.webhook_attempts import DeliveryEnd
from core.store import connect
from core.urls.secrets import redact
from workers.web.routes.webhooks import (
    DeadLetterAnswer,
    DeadLettersAnswer,
    DeadLettersRequest,
    ReplayAnswer,
    ReplayRequest,
    SkipAnswer,
    WebhookRequest,
    WebhookTestAnswer,
    webhook_store,
)
from workers.web.routing import Call, RouteTable

ROUTES = RouteTable("webhooks")


@ROUTES.add("POST", "/api/webhooks/{id}/test", "Send a test message now.")
async def test(call: Call, asked: WebhookRequest) -> WebhookTestAnswer:
    """Send a test message now, beside the queue."""
    services = call.services
    attempt = await send_test(services.client, services.keys, services.context.fetcher, asked.id)
    is_taken = attempt.end is DeliveryEnd.DELIVERED
    return WebhookTestAnswer(is_taken=is_taken, http_status=attempt.http_status or None, reason=attempt.reason)


@ROUTES.add(
    "POST",
    "/api/webhooks/{id}/skip",
    "Give up the first event that waits, and go on with the next.",
    is_destructive=True,
)
async def skip(call: Call, asked: WebhookRequest) -> SkipAnswer:
    """Give up the first event that waits."""
    return SkipAnswer(event_id=await webhook_store(call).skip(asked.id, await connect.now(call.services.client)))


@ROUTES.add("GET", "/api/webhooks/{id}/dead", "Events that were given up, newest first.")
async def list_dead(call: Call, asked: DeadLettersRequest) -> DeadLettersAnswer:
    """List what was given up."""
    letters = await webhook_store(call).dead_letters(asked.id, asked.limit)
    told = [asdict(one) | {"reason": redact(one.reason)} for one in letters]
    return DeadLettersAnswer(dead_letters=[DeadLetterAnswer.model_validate(one) for one in told])


@ROUTES.add(
    "POST",
    "/api/webhooks/{id}/replay",
    "Deliver the dead letters, or all events from one on, once more.",
    fields_in="body",
)
async def replay(call: Call, asked: ReplayRequest) -> ReplayAnswer:
    """Deliver once more."""
    store = webhook_store(call)
    if asked.from_id is None:
        return ReplayAnswer(from_id=None, dead_letters=await store.replay_dead(asked.id))
    return ReplayAnswer(from_id=await store.replay_from(asked.id, asked.from_id), dead_letters=0)
