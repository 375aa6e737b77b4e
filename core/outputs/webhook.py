"""The record of a webhook: its URL, its filter, and how far its deliveries are; in its hash, and as people see it.

`webhook_filter` says which events it wants, `webhook_attempts` when a failed delivery is tried again,
`webhook_message` what is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from enum import StrEnum
from typing import Any

from core.outputs.webhook_filter import EventFilter
from core.outputs.webhook_message import MASKED_SECRET
from core.registry import field_parsing
from core.urls.secrets import redact
from core.value_class import value_class

ID_PATTERN = r"^wh_[0-9a-f]{12}$"
OLD_SECRET_SECONDS = 86_400.0
"""How long the secret before a rotation still signs, beside the new one."""


class WebhookStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    """Events are collected and not sent."""
    DISABLED = "disabled"
    """The receiver answered 410: nothing is collected and nothing is sent."""


@value_class
class Webhook:
    """Everything that is known of one webhook; stored field by field in its hash."""

    id: str
    url: str = ""
    filter: EventFilter = field(default_factory=EventFilter)
    secret: str = field(default="", repr=False)
    old_secret: str = field(default="", repr=False)
    old_secret_until_ts: float = 0.0
    status: WebhookStatus = WebhookStatus.ACTIVE
    status_reason: str = ""
    created_ts: float = 0.0
    read_id: str = "0-0"
    """Events up to this one have been looked at; those it wants are in the queue."""
    read_count: int = 0
    """How many events the stream had ever got up to that one."""
    replay_after: str = ""
    """Events after this one are being queued again; empty: no replay is under way."""
    replay_before: str = ""
    attempts: int = 0
    """Failed attempts at the event that is tried now."""
    attempts_of: str = ""
    """That event."""
    first_attempt_ts: float = 0.0
    next_attempt_ts: float = 0.0
    last_attempt_ts: float = 0.0
    last_http_status: int = 0
    last_error: str = ""
    """Why the last attempt failed; empty after a success."""
    delivered: int = 0
    delivered_ts: float = 0.0
    delivered_id: str = ""
    """The event that was delivered last."""
    dead: int = 0
    """How many events were given up, ever."""
    gaps: int = 0
    """How often events were lost before they could be queued."""
    lost_events: int = 0
    """How many, of all types."""
    gap_ts: float = 0.0
    gap_after: str = ""

    @property
    def is_active(self) -> bool:
        return self.status is WebhookStatus.ACTIVE

    @property
    def collects(self) -> bool:
        return self.status is not WebhookStatus.DISABLED

    def secrets_at(self, now: float) -> tuple[str, ...]:
        """Return the secrets that sign now, the newest first."""
        return (self.secret, self.old_secret) if self.old_secret and now < self.old_secret_until_ts else (self.secret,)


@value_class
class QueueSizes:
    pending: int = 0
    replay: int = 0
    dead: int = 0

    @property
    def waiting(self) -> int:
        return self.pending + self.replay


# ── the hash, field by field ──

_EVENT_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_SEPARATE = {"id", "filter", "status"}
_PLAIN = {f.name: str(f.type) for f in fields(Webhook) if f.name not in _SEPARATE}
INTEGER_FIELDS = tuple(name for name, kind in _PLAIN.items() if kind == "int")
TIME_FIELDS = tuple(name for name, kind in _PLAIN.items() if kind == "float")
_PARSERS: dict[str, Callable[[str], Any]] = {
    "int": field_parsing.integer,
    "float": field_parsing.timestamp,
    "str": field_parsing.text,
}


def to_hash(webhook: Webhook) -> dict[str, str]:
    return {
        **{name: to_text(getattr(webhook, name)) for name in _PLAIN},
        **webhook.filter.to_hash(),
        "status": str(webhook.status),
    }


def from_hash(webhook_id: str, stored: Mapping[str, str]) -> Webhook:
    """Return the webhook in a hash; what is missing or unreadable takes its default."""
    plain = {name: _PARSERS[kind](stored[name]) for name, kind in _PLAIN.items() if stored.get(name)}
    if not all(map(_is_id, (plain.get("replay_after", ""), plain.get("replay_before", "")))):
        plain |= {"replay_after": "", "replay_before": ""}
    status = stored.get("status", "")
    if status not in set(WebhookStatus) or not _is_id(plain.get("read_id", "")):
        status = WebhookStatus.DISABLED
        plain["status_reason"] = "Its record is damaged. Remove it and add it again."
    return Webhook(id=webhook_id, filter=EventFilter.from_hash(stored), status=WebhookStatus(status), **plain)


def _is_id(text: str) -> bool:
    return bool(_EVENT_ID.fullmatch(text))


def to_text(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def words(values: Mapping[str, Any]) -> list[str]:
    """Return `field value field value …`, as they are stored."""
    return [word for name, value in values.items() for word in (name, to_text(value))]


# ── as people see it ──


def webhook_json(webhook: Webhook, sizes: QueueSizes, now: float) -> dict[str, object]:
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
