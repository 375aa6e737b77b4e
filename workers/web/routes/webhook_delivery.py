"""Deliveries of a webhook: test it, skip an event, list and replay dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from core.outputs.io.webhook_setup import send_test
from core.outputs.io.webhook_store import DeadLetter
from core.outputs.webhook_attempts import DeliveryEnd
from core.urls.secrets import redact
from workers.web.models import AnswerModel, Limit
from workers.web.routes.webhooks import WebhookRequest, webhook_store
from workers.web.routing import Call, RouteTable

EventId = Annotated[str, Field(pattern=r"^(?:0|[0-9]{1,19}-[0-9]{1,19})$", examples=["1763337600000-0"])]


class DeadLettersRequest(WebhookRequest):
    """Dead letters of a webhook."""

    limit: Limit = 100


class ReplayRequest(WebhookRequest):
    """What to deliver once more: the dead letters, or everything from an event on."""

    from_id: EventId | None = Field(
        default=None, description="An event in the stream; 0: all events; null: the dead letters."
    )


class WebhookTestAnswer(AnswerModel):
    """How a test message was taken."""

    is_taken: bool
    http_status: int | None
    reason: str


class DeadLettersAnswer(AnswerModel):
    """Dead letters, newest first."""

    dead_letters: list[DeadLetter]


class ReplayAnswer(AnswerModel):
    """What will be delivered once more."""

    from_id: str | None = Field(description="The first event that is still in the stream; null: dead letters.")
    dead_letters: int


class SkipAnswer(AnswerModel):
    """What was given up."""

    event_id: str = Field(description="Empty: nothing waits.")


ROUTES = RouteTable("webhooks")


@ROUTES.add("POST", "/api/webhooks/{id}/test")
async def test(call: Call, asked: WebhookRequest) -> WebhookTestAnswer:
    """Send a test message now."""
    attempt = await send_test(call.client, call.keys, call.context.fetcher, asked.id)
    is_taken = attempt.end is DeliveryEnd.DELIVERED
    return WebhookTestAnswer(is_taken=is_taken, http_status=attempt.http_status or None, reason=attempt.reason)


@ROUTES.add("POST", "/api/webhooks/{id}/skip", is_destructive=True)
async def skip(call: Call, asked: WebhookRequest) -> SkipAnswer:
    """Give up the first event that waits, and go on with the next."""
    return SkipAnswer(event_id=await webhook_store(call).skip(asked.id, await call.now()))


@ROUTES.add("GET", "/api/webhooks/{id}/dead")
async def list_dead(call: Call, asked: DeadLettersRequest) -> DeadLettersAnswer:
    """Events that were given up, newest first."""
    letters = await webhook_store(call).dead_letters(asked.id, asked.limit)
    return DeadLettersAnswer(dead_letters=[replace(one, reason=redact(one.reason)) for one in letters])


@ROUTES.add("POST", "/api/webhooks/{id}/replay", fields_in="body")
async def replay(call: Call, asked: ReplayRequest) -> ReplayAnswer:
    """Deliver the dead letters, or all events from one on, once more."""
    store = webhook_store(call)
    if asked.from_id is None:
        return ReplayAnswer(from_id=None, dead_letters=await store.replay_dead(asked.id))
    return ReplayAnswer(from_id=await store.replay_from(asked.id, asked.from_id), dead_letters=0)
