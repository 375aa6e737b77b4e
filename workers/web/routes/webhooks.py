"""Webhooks: add, list, pause, resume, rotate, remove."""

from __future__ import annotations

from core.outputs.io.webhook_setup import add_webhook
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook
from core.outputs.webhook_json import webhook_json
from core.store import connect
from core.urls.secrets import redact
from workers.web.routing import Call, RouteTable
from workers.web.webhook_models import (
    AddWebhookRequest,
    WebhookAnswer,
    WebhookRemovedAnswer,
    WebhookRequest,
    WebhooksAnswer,
    WebhooksRequest,
)

ROUTES = RouteTable("webhooks")


def webhook_store(call: Call) -> WebhookStore:
    """Return the store of webhooks."""
    return WebhookStore(call.services.client, call.services.keys)


async def _answer(call: Call, webhook: Webhook, secret: str = "") -> WebhookAnswer:
    now = await connect.now(call.services.client)
    told = webhook_json(webhook, (await webhook_store(call).sizes([webhook.id]))[0], now)
    return WebhookAnswer.model_validate(told | ({"secret": secret} if secret else {}))


@ROUTES.add("GET", "/api/webhooks", "Webhooks, the last changed first, with what waits and what failed.")
async def list_webhooks(call: Call, asked: WebhooksRequest) -> WebhooksAnswer:
    """List webhooks, the last changed first."""
    store, now = webhook_store(call), await connect.now(call.services.client)
    webhooks, total = await store.page(asked.offset, asked.limit)
    sizes = await store.sizes([one.id for one in webhooks])
    told = [webhook_json(one, size, now) for one, size in zip(webhooks, sizes, strict=True)]
    return WebhooksAnswer(total=total, webhooks=[WebhookAnswer.model_validate(one) for one in told])


@ROUTES.add(
    "POST",
    "/api/webhooks",
    "Send events to a URL from now on; the answer has the secret, only this once.",
    fields_in="body",
)
async def add(call: Call, asked: AddWebhookRequest) -> WebhookAnswer:
    """Add a webhook; the answer has its secret."""
    services = call.services
    webhook = await add_webhook(
        services.settings,
        services.client,
        services.keys,
        asked.url,
        types=asked.types,
        categories=asked.categories,
        domains=asked.domains,
        search=asked.search,
    )
    return await _answer(call, webhook, webhook.secret)


@ROUTES.add("GET", "/api/webhooks/{id}", "One webhook, and why its last delivery failed.")
async def show(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Return one webhook."""
    return await _answer(call, await webhook_store(call).require(asked.id))


@ROUTES.add("DELETE", "/api/webhooks/{id}", "Remove a webhook with everything that waits for it.", is_destructive=True)
async def remove(call: Call, asked: WebhookRequest) -> WebhookRemovedAnswer:
    """Remove a webhook with everything that waits for it."""
    webhook = await webhook_store(call).remove(asked.id)
    return WebhookRemovedAnswer(id=webhook.id, url=redact(webhook.url))


@ROUTES.add("POST", "/api/webhooks/{id}/pause", "Send nothing more; events are collected.")
async def pause(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Send nothing more; events are collected."""
    return await _answer(call, await webhook_store(call).pause(asked.id))


@ROUTES.add("POST", "/api/webhooks/{id}/resume", "Send again, at once; also after a 410.")
async def resume(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Send again, at once."""
    return await _answer(call, await webhook_store(call).resume(asked.id))


@ROUTES.add("POST", "/api/webhooks/{id}/rotate", "Give it a new secret; the old one signs, too, for 24 hours.")
async def rotate(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Give a webhook a new secret; the answer has it."""
    webhook = await webhook_store(call).rotate(asked.id, await connect.now(call.services.client))
    return await _answer(call, webhook, webhook.secret)
