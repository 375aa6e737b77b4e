"""One webhook: how its deliveries are doing, what was given up, and everything that can be done with it."""

from __future__ import annotations

from typing import Any

from core.outputs.webhook_attempts import MOST_ATTEMPTS
from workers.web.dashboard import webhook_texts
from workers.web.dashboard.pages import PageTable
from workers.web.routes import webhook_delivery, webhooks
from workers.web.routing import Call
from workers.web.webhook_models import DeadLettersRequest, WebhookRequest

ROUTES = PageTable()
MOST_DEAD = 50
MOST_BODY_CHARS = 2_000


@ROUTES.page("/webhooks/{id}", "Webhook", "webhook.html")
async def show_webhook(call: Call, asked: WebhookRequest) -> dict[str, Any]:
    """Show a webhook and its newest dead letters."""
    webhook = await webhooks.show(call, asked)
    dead = await webhook_delivery.list_dead(call, DeadLettersRequest(id=asked.id, limit=MOST_DEAD))
    receiver = webhook_texts.receiver_of(webhook.url)
    return {
        "title": receiver,
        "receiver": receiver,
        "webhook": webhook,
        "dead_letters": dead.dead_letters,
        "filters": list(webhook_texts.filters_of(webhook)),
        "state": webhook_texts.state_of(webhook),
        "answer": webhook_texts.answer_of(webhook),
        "verdict": webhook_texts.verdict_of(webhook),
        "most_attempts": MOST_ATTEMPTS,
        "most_chars": MOST_BODY_CHARS,
    }
