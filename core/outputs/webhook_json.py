"""A webhook as plain values, as `freshet webhooks --json` and the HTTP API print it. Its secret is never among them."""

from __future__ import annotations

from core.outputs.webhook import Webhook
from core.outputs.webhook_message import MASKED_SECRET
from core.urls.secrets import redact
from core.value_class import value_class


@value_class
class QueueSizes:
    """How many events wait."""

    pending: int = 0
    replay: int = 0
    dead: int = 0

    @property
    def waiting(self) -> int:
        """How many are still to be delivered."""
        return self.pending + self.replay


def webhook_json(webhook: Webhook, sizes: QueueSizes, now: float) -> dict[str, object]:
    """Return all that people may know of a webhook."""
    wanted = webhook.filter
    return {
        "id": webhook.id,
        "url": redact(webhook.url),
        "types": list(wanted.types),
        "categories": list(wanted.categories),
        "domains": list(wanted.domains),
        "search": wanted.search,
        "secret": MASKED_SECRET,
        "old_secret_until_ts": webhook.old_secret_until_ts if webhook.old_secret_until_ts > now else None,
        "status": str(webhook.status),
        "status_reason": webhook.status_reason,
        "created_ts": webhook.created_ts,
        "waiting": sizes.waiting,
        "dead": sizes.dead,
        "is_replaying": bool(webhook.replay_after or sizes.replay),
        "read_id": webhook.read_id,
        "attempts": webhook.attempts,
        "next_attempt_ts": webhook.next_attempt_ts or None,
        "last_attempt_ts": webhook.last_attempt_ts or None,
        "last_http_status": webhook.last_http_status or None,
        "last_error": redact(webhook.last_error),
        "delivered": webhook.delivered,
        "delivered_ts": webhook.delivered_ts or None,
        "delivered_id": webhook.delivered_id,
        "given_up": webhook.dead,
        "gaps": webhook.gaps,
        "lost_events": webhook.lost_events,
        "gap_ts": webhook.gap_ts or None,
        "gap_after": webhook.gap_after,
    }
