"""One webhook: how its deliveries are doing, what was given up, and everything that can be done with it."""

from __future__ import annotations

from typing import Any

from core.outputs.webhook_attempts import MOST_ATTEMPTS
from workers.web.dashboard import webhook_texts
from workers.web.dashboard.page_table import Done, PageTable
from workers.web.dashboard.webhook_texts import receiver_of
from workers.web.errors import ApiError
from workers.web.routes import webhook_delivery, webhooks
from workers.web.routes.webhook_delivery import DeadLettersRequest, EventId, ReplayRequest
from workers.web.routes.webhooks import WebhookRequest
from workers.web.routing import Call

ROUTES = PageTable()
MOST_DEAD = 50
MOST_BODY_CHARS = 2_000


@ROUTES.page("/webhooks/{id}", "Webhook", "webhook.html")
async def show_webhook(call: Call, asked: WebhookRequest) -> dict[str, Any]:
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


# ── the buttons ──


class ReplayForm(WebhookRequest):
    """From which event on everything is delivered once more."""

    from_id: EventId


@ROUTES.action("/webhooks/{id}/test")
async def test(call: Call, asked: WebhookRequest) -> Done:
    answer = await webhook_delivery.test(call, asked)
    if not answer.is_taken:
        message = f"The receiver did not take the test message: {answer.reason}"
        raise ApiError(409, "not_taken", message, "Only an answer of 2xx counts as taken.")
    return Done(f"The receiver took the test message (HTTP {answer.http_status}).")


@ROUTES.action("/webhooks/{id}/pause")
async def pause(call: Call, asked: WebhookRequest) -> Done:
    webhook = await webhooks.pause(call, asked)
    return Done(f"Nothing is sent to {receiver_of(webhook.url)} any more; events are collected.")


@ROUTES.action("/webhooks/{id}/resume")
async def resume(call: Call, asked: WebhookRequest) -> Done:
    return Done(f"Events are sent to {receiver_of((await webhooks.resume(call, asked)).url)} again.")


@ROUTES.action("/webhooks/{id}/skip")
async def skip(call: Call, asked: WebhookRequest) -> Done:
    event_id = (await webhook_delivery.skip(call, asked)).event_id
    return Done(f"The event {event_id} is given up; it is among the dead letters." if event_id else "Nothing waits.")


@ROUTES.action("/webhooks/{id}/replay")
async def replay(call: Call, asked: ReplayForm) -> Done:
    answer = await webhook_delivery.replay(call, ReplayRequest(id=asked.id, from_id=asked.from_id))
    return Done(f"The events from {answer.from_id} on are delivered once more, before what waits.")


@ROUTES.action("/webhooks/{id}/replay_dead")
async def replay_dead(call: Call, asked: WebhookRequest) -> Done:
    count = (await webhook_delivery.replay(call, ReplayRequest(id=asked.id))).dead_letters
    if count < 2:
        return Done("One dead letter is delivered once more." if count else "There are no dead letters.")
    return Done(f"{count:,} dead letters are delivered once more.")


@ROUTES.action("/webhooks/{id}/remove")
async def remove(call: Call, asked: WebhookRequest) -> Done:
    gone = await webhooks.remove(call, asked)
    return Done(f"Removed: {receiver_of(gone.url)}. Nothing is sent there any more.", "/webhooks")
