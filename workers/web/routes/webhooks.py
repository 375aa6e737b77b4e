"""Webhooks over HTTP: add, list, pause, resume, rotate, remove. `webhook_delivery` tests and replays."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from core.outputs.io.webhook_setup import add_webhook
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import ID_PATTERN, Webhook
from core.outputs.webhook_filter import MOST_NAMES, MOST_QUERY_CHARS
from core.urls.secrets import redact
from workers.web.models import AnswerModel, Limit, Name, Offset, RequestModel
from workers.web.routing import Call, RouteTable

WebhookId = Annotated[str, Field(pattern=ID_PATTERN, examples=["wh_0a1b2c3d4e5f"])]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES)]


class WebhookRequest(RequestModel):
    """One webhook."""

    id: WebhookId


class WebhooksRequest(RequestModel):
    """Which webhooks."""

    limit: Limit = 1_000
    offset: Offset = 0


class AddWebhookRequest(RequestModel):
    """Where to send events, and which; an empty part lets everything pass."""

    url: str = Field(min_length=1, max_length=8_000, examples=["https://example.org/hook"])
    types: Names = Field(default=[], description="Types of events, or groups such as `item.*`.")
    categories: Names = Field(default=[], description="Categories of articles.")
    domains: Names = Field(default=[], description="Domains (knowledge bases) of items.")
    search: str = Field(default="", max_length=MOST_QUERY_CHARS, description="Words that must all be in the text.")


class WebhookAnswer(AnswerModel):
    """A webhook and how its deliveries are doing."""

    id: str
    url: str
    types: list[str]
    categories: list[str]
    domains: list[str]
    search: str
    secret: str = Field(description="Hidden, except in the answers that add a webhook or rotate its secret.")
    old_secret_until_ts: float | None = Field(description="Until when the secret before the rotation signs, too.")
    status: str = Field(description="active, paused (events are collected) or disabled (after a 410).")
    status_reason: str
    created_ts: float
    waiting: int = Field(description="Events that are still to be delivered.")
    dead: int = Field(description="Dead letters: events that were given up and can be replayed.")
    is_replaying: bool
    read_id: str = Field(description="Events up to this one have been looked at.")
    attempts: int = Field(description="Failed attempts at the event that is tried now.")
    next_attempt_ts: float | None
    last_attempt_ts: float | None
    last_http_status: int | None
    last_error: str
    delivered: int
    delivered_ts: float | None
    delivered_id: str
    given_up: int = Field(description="Events that were given up, ever.")
    gaps: int = Field(description="How often events were lost before they could be queued.")
    lost_events: int
    gap_ts: float | None
    gap_after: str


class WebhooksAnswer(AnswerModel):
    """All webhooks."""

    total: int
    webhooks: list[WebhookAnswer] = Field(description="The last changed first.")


class WebhookRemovedAnswer(AnswerModel):
    """A webhook that is gone."""

    id: str
    url: str


ROUTES = RouteTable("webhooks")


def webhook_store(call: Call) -> WebhookStore:
    return WebhookStore(call.client, call.keys)


async def _answer(call: Call, webhook: Webhook, secret: str = "") -> WebhookAnswer:
    [told] = await webhook_store(call).shown([webhook], await call.now())
    return WebhookAnswer.model_validate(told | ({"secret": secret} if secret else {}))


@ROUTES.add("GET", "/api/webhooks")
async def list_webhooks(call: Call, asked: WebhooksRequest) -> WebhooksAnswer:
    """Webhooks, the last changed first, with what waits and what failed."""
    store, now = webhook_store(call), await call.now()
    webhooks, total = await store.page(asked.offset, asked.limit)
    told = [WebhookAnswer.model_validate(one) for one in await store.shown(webhooks, now)]
    return WebhooksAnswer(total=total, webhooks=told)


@ROUTES.add("POST", "/api/webhooks", fields_in="body")
async def add(call: Call, asked: AddWebhookRequest) -> WebhookAnswer:
    """Send events to a URL from now on; the answer has the secret, only this once."""
    webhook = await add_webhook(
        call.settings,
        call.client,
        call.keys,
        asked.url,
        types=asked.types,
        categories=asked.categories,
        domains=asked.domains,
        search=asked.search,
    )
    return await _answer(call, webhook, webhook.secret)


@ROUTES.add("GET", "/api/webhooks/{id}")
async def show(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """One webhook, and why its last delivery failed."""
    return await _answer(call, await webhook_store(call).require(asked.id))


@ROUTES.add("DELETE", "/api/webhooks/{id}", is_destructive=True)
async def remove(call: Call, asked: WebhookRequest) -> WebhookRemovedAnswer:
    """Remove a webhook with everything that waits for it."""
    webhook = await webhook_store(call).remove(asked.id)
    return WebhookRemovedAnswer(id=webhook.id, url=redact(webhook.url))


@ROUTES.add("POST", "/api/webhooks/{id}/pause")
async def pause(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Send nothing more; events are collected."""
    return await _answer(call, await webhook_store(call).pause(asked.id))


@ROUTES.add("POST", "/api/webhooks/{id}/resume")
async def resume(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Send again, at once; also after a 410."""
    return await _answer(call, await webhook_store(call).resume(asked.id))


@ROUTES.add("POST", "/api/webhooks/{id}/rotate")
async def rotate(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Give it a new secret; the old one signs, too, for 24 hours."""
    webhook = await webhook_store(call).rotate(asked.id, await call.now())
    return await _answer(call, webhook, webhook.secret)
