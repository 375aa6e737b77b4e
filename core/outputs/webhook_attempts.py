"""Decide what a delivery attempt means: when it is retried, when it is given up, what is recorded.

Times and random numbers come in as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from core import schedule
from core.models import Failed
from core.outputs.webhook import Webhook, WebhookStatus
from core.registry.http_headers import retry_after_seconds
from core.value_class import value_class

MOST_ATTEMPTS = len(schedule.WEBHOOK_RETRY_SECONDS) + 1
_GONE = 410


class DeliveryEnd(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    GONE = "gone"
    """The receiver wants no more events, ever."""


class MessageFate(StrEnum):
    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD = "dead"
    KEPT = "kept"
    """It stays, and the webhook is disabled."""


@value_class
class Attempt:
    end: DeliveryEnd
    http_status: int = 0
    reason: str = ""
    retry_after_seconds: float | None = None
    """How long the receiver asks us to wait."""


def judge_status(status: int, headers: Mapping[str, str], now: float) -> Attempt:
    """Return what an answer means: only 2xx is a success; a redirect is not followed."""
    if 200 <= status < 300:
        return Attempt(DeliveryEnd.DELIVERED, status)
    if status == _GONE:
        return Attempt(DeliveryEnd.GONE, status, "The receiver answered 410: it wants no more events.")
    is_redirect = 300 <= status < 400
    reason = f"The receiver answered {status}{', and redirects are not followed' if is_redirect else ''}."
    return Attempt(DeliveryEnd.FAILED, status, reason, retry_after_seconds(headers.get("retry-after", ""), now))


def judge_failure(failed: Failed) -> Attempt:
    return Attempt(DeliveryEnd.FAILED, failed.http_status, failed.text)


def next_attempt_at(failures: int, now: float, chance: float, retry_after: float | None = None) -> float | None:
    """Return when to try again after so many failed attempts; None: never.

    The wait is spread by up to 10 % either way, and never shorter than the receiver asks for.
    """
    if failures >= MOST_ATTEMPTS:
        return None
    wait = schedule.jittered_both(schedule.WEBHOOK_RETRY_SECONDS[max(failures, 1) - 1], chance)
    return schedule.retry_at(now, wait, retry_after)


@value_class
class Settlement:
    fate: MessageFate
    failures: int
    """Failed attempts at this message so far."""
    changes: Mapping[str, Any]
    """Fields of the webhook with their new values."""


def settle(webhook: Webhook, event_id: str, attempt: Attempt, now: float, chance: float) -> Settlement:
    changes: dict[str, Any] = {
        "last_attempt_ts": now,
        "last_http_status": attempt.http_status,
        "last_error": attempt.reason,
        "attempts": 0,
        "attempts_of": "",
        "first_attempt_ts": 0.0,
        "next_attempt_ts": 0.0,
    }
    if attempt.end is DeliveryEnd.DELIVERED:
        changes |= {"delivered": webhook.delivered + 1, "delivered_ts": now, "delivered_id": event_id}
        return Settlement(MessageFate.DELIVERED, 0, changes)
    if attempt.end is DeliveryEnd.GONE:
        changes |= {"status": WebhookStatus.DISABLED, "status_reason": attempt.reason}
        return Settlement(MessageFate.KEPT, 0, changes)
    failures = 1 + (webhook.attempts if webhook.attempts_of == event_id else 0)
    next_ts = next_attempt_at(failures, now, chance, attempt.retry_after_seconds)
    if next_ts is None:
        return Settlement(MessageFate.DEAD, failures, changes | {"dead": webhook.dead + 1})
    first_ts = webhook.first_attempt_ts if failures > 1 else now
    changes |= {"attempts": failures, "attempts_of": event_id, "first_attempt_ts": first_ts, "next_attempt_ts": next_ts}
    return Settlement(MessageFate.RETRY, failures, changes)
