"""Add webhooks as people ask for them, and try them out."""

from __future__ import annotations

from collections.abc import Sequence

from core.feeds.io.subscriptions import Subscriptions
from core.keys import Keys
from core.models import Deferred, Failed
from core.net.address_guard import Guard
from core.net.fetcher import Fetcher
from core.outputs.io.webhook_sender import send
from core.outputs.io.webhook_store import WebhookStore
from core.outputs.webhook import Webhook
from core.outputs.webhook_attempts import Attempt, DeliveryEnd
from core.outputs.webhook_filter import TEST, InvalidWebhook, checked_filter
from core.outputs.webhook_message import own_message
from core.settings import Settings
from core.sources.io.domain_store import DomainStore
from core.store import connect
from core.store.connect import Client


async def add_webhook(
    settings: Settings,
    client: Client,
    keys: Keys,
    url: str,
    *,
    types: Sequence[str] = (),
    categories: Sequence[str] = (),
    domains: Sequence[str] = (),
    search: str = "",
) -> Webhook:
    """Add a webhook; raise InvalidWebhook or NotFound where it could never be sent anything.

    The address is checked again whenever a connection is made.
    """
    target = Guard.of(settings).target(url)
    if isinstance(target, Failed):
        raise InvalidWebhook(f"Nothing can be sent there: {target.text}")
    known = [await Subscriptions(client, keys).require_category(name) for name in categories]
    for domain_id in domains:
        await DomainStore(client, keys).require(domain_id)
    wanted = checked_filter(types, known, domains, search)
    return await WebhookStore(client, keys).add(url, wanted, await connect.now(client))


async def send_test(client: Client, keys: Keys, fetcher: Fetcher, webhook_id: str) -> Attempt:
    """Send a test message at once, beside the queue, and return how that ended; nothing is recorded."""
    webhook, now = await WebhookStore(client, keys).require(webhook_id), await connect.now(client)
    message = own_message(TEST, {"message": "This is a test of the webhook.", "webhook_id": webhook.id}, now)
    attempt = await send(fetcher, webhook, message, now)
    return Attempt(DeliveryEnd.FAILED, reason=attempt.reason) if isinstance(attempt, Deferred) else attempt
