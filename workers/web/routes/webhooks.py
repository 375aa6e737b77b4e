"""Webhooks: add, list, pause, resume, rotate, remove."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from core.outputs.io.webhook_setup import add_webhook
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook
from core.outputs.webhook_json import webhook_json
from core.store import connect
from core.urls.secrets import redact
from workers.web.routing import Call, Route
from workers.web.webhook_models import (
    AddWebhookRequest,
    WebhookAnswer,
    WebhookRemovedAnswer,
    WebhookRequest,
    WebhooksAnswer,
    WebhooksRequest,
)

TAG = "webhooks"


def webhook_store(call: Call) -> WebhookStore:
    """Return the store of webhooks."""
    return WebhookStore(call.services.client, call.services.keys)


async def _answer(call: Call, webhook: Webhook, secret: str = "") -> WebhookAnswer:
    now = await connect.now(call.services.client)
    told = webhook_json(webhook, (await webhook_store(call).sizes([webhook.id]))[0], now)
    return WebhookAnswer.model_validate(told | ({"secret": secret} if secret else {}))


async def list_webhooks(call: Call, asked: WebhooksRequest) -> WebhooksAnswer:
    """List webhooks, the last changed first."""
    store, now = webhook_store(call), await connect.now(call.services.client)
    webhooks, total = await store.page(asked.offset, asked.limit)
    sizes = await store.sizes([one.id for one in webhooks])
    told = [webhook_json(one, size, now) for one, size in zip(webhooks, sizes, strict=True)]
    return WebhooksAnswer(total=total, webhooks=[WebhookAnswer.model_validate(one) for one in told])


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


async def show(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Return one webhook."""
    return await _answer(call, await webhook_store(call).require(asked.id))


async def remove(call: Call, asked: WebhookRequest) -> WebhookRemovedAnswer:
    """Remove a webhook with everything that waits for it."""
    webhook = await webhook_store(call).remove(asked.id)
    return WebhookRemovedAnswer(id=webhook.id, url=redact(webhook.url))


async def pause(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Send nothing more; events are collected."""
    return await _answer(call, await webhook_store(call).pause(asked.id))


async def resume(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Send again, at once."""
    return await _answer(call, await webhook_store(call).resume(asked.id))


async def rotate(call: Call, asked: WebhookRequest) -> WebhookAnswer:
    """Give a webhook a new secret; the answer has it."""
    webhook = await webhook_store(call).rotate(asked.id, await connect.now(call.services.client))
    return await _answer(call, webhook, webhook.secret)


def _action(
    name: str, summary: str, handler: Callable[[Call, WebhookRequest], Awaitable[WebhookAnswer]]
) -> Route[WebhookRequest]:
    """Return a route that does something with one webhook and answers how it is then."""
    return Route(
        method="POST",
        path=f"/api/webhooks/{{id}}/{name}",
        summary=summary,
        tag=TAG,
        request=WebhookRequest,
        handler=handler,
        answer=WebhookAnswer,
    )


ROUTES = (
    Route(
        method="GET",
        path="/api/webhooks",
        summary="Webhooks, the last changed first, with what waits and what failed.",
        tag=TAG,
        request=WebhooksRequest,
        handler=list_webhooks,
        answer=WebhooksAnswer,
    ),
    Route(
        method="POST",
        path="/api/webhooks",
        summary="Send events to a URL from now on; the answer has the secret, only this once.",
        tag=TAG,
        request=AddWebhookRequest,
        handler=add,
        answer=WebhookAnswer,
        fields_in="body",
    ),
    Route(
        method="GET",
        path="/api/webhooks/{id}",
        summary="One webhook, and why its last delivery failed.",
        tag=TAG,
        request=WebhookRequest,
        handler=show,
        answer=WebhookAnswer,
    ),
    Route(
        method="DELETE",
        path="/api/webhooks/{id}",
        summary="Remove a webhook with everything that waits for it.",
        tag=TAG,
        request=WebhookRequest,
        handler=remove,
        answer=WebhookRemovedAnswer,
        is_destructive=True,
    ),
    _action("pause", "Send nothing more; events are collected.", pause),
    _action("resume", "Send again, at once; also after a 410.", resume),
    _action("rotate", "Give it a new secret; the old one signs, too, for 24 hours.", rotate),
)
