"""The message of a webhook and its signature, in the format of https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from core.outputs.webhook_filter import GAP, EventSubject
from core.value_class import value_class

PREFIX = "whsec_"
SECRET_BYTES = 32
MASKED_SECRET = f"{PREFIX}…"
_LATEST_MILLISECONDS = 253_402_300_799_999
"""The last moment of the year 9999; a stream that someone filled by hand may have any id."""


@value_class
class Message:
    """One message, the same at each attempt."""

    event_id: str
    """Id of the event in the stream."""
    type: str
    body: str


def secret_text(random_bytes: bytes) -> str:
    """Return a secret in the form in which people pass it on."""
    return PREFIX + base64.b64encode(random_bytes).decode()


def message_id(webhook_id: str, message: Message) -> str:
    """Return the id by which a receiver knows a message again: at every attempt and in every replay the same."""
    mark = "gap_" if message.type == GAP else ""
    return f"{webhook_id}_{mark}{message.event_id}"


def headers(webhook_id: str, message: Message, secrets: Sequence[str], now: float) -> dict[str, str]:
    name, seconds = message_id(webhook_id, message), int(now)
    return {
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signature(secret, name, seconds, message.body) for secret in secrets),
    }


def signature(secret: str, name: str, seconds: int, body: str) -> str:
    """Return `v1,` and the HMAC-SHA256 over id, time and body."""
    signed = f"{name}.{seconds}.{body}".encode()
    return f"v1,{base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()}"


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX))
    except (binascii.Error, ValueError):  # damaged in the store: the receiver refuses what it signs
        return secret.encode("utf-8", "replace")


# ── bodies ──


def event_message(event_id: str, event_type: str, fields: Mapping[str, str], subject: EventSubject) -> Message:
    """Return the message about an event: its own fields, and what the store knows of its subject."""
    data = {"event_id": event_id, **subject.facts, **fields}
    return Message(event_id, event_type, _body(event_type, float(event_id.partition("-")[0]), data))


def gap_message(after_id: str, before_id: str, lost_events: int, now: float) -> Message:
    """Return the message that says that events were lost before they could be queued."""
    text = "The event stream keeps only the last events; those between these two were trimmed before they were read."
    data = {"after_id": after_id, "before_id": before_id, "lost_events": lost_events, "message": text}
    return Message(after_id, GAP, _body(GAP, now * 1000, data))


def own_message(event_type: str, data: Mapping[str, object], now: float) -> Message:
    """Return a message that is about no event."""
    return Message(
        f"{int(now * 1000)}-{event_type.rpartition('.')[2]}", event_type, _body(event_type, now * 1000, data)
    )


def _body(event_type: str, milliseconds: float, data: Mapping[str, object]) -> str:
    text = json.dumps(
        {"type": event_type, "timestamp": _iso(milliseconds), "data": data}, ensure_ascii=False, separators=(",", ":")
    )
    return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be encoded


def _iso(milliseconds: float) -> str:
    moment = datetime.fromtimestamp(min(milliseconds, _LATEST_MILLISECONDS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
