"""Texts about webhooks on pages: where they send, which events, in which state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from core.outputs.webhook import WebhookStatus
from workers.web.routes.webhooks import WebhookAnswer

_PLAIN_PART = re.compile(r"[A-Za-z][A-Za-z._-]{0,23}|v?\d{1,3}|")
"""A word, or the number of a version. Receivers often have their secret in the path: /services/T0A1/B2C3/x7Kq…"""


def receiver_of(url: str) -> str:
    """Return where a webhook sends; of a URL that may hold a secret only the host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "?"
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    is_plain = not parts.query and not parts.fragment and all(map(_PLAIN_PART.fullmatch, parts.path.split("/")))
    return f"{place}{parts.path if is_plain else '/…'}"


def state_of(webhook: WebhookAnswer) -> tuple[str, str]:
    """Return the kind and the word of its badge."""
    if webhook.status == WebhookStatus.DISABLED:
        return "bad", "disabled"
    if webhook.status == WebhookStatus.PAUSED:
        return "quiet", "paused"
    if webhook.last_error:
        return "warn", "failing"
    return ("busy", "replaying") if webhook.is_replaying else ("good", "active")


def filters_of(webhook: WebhookAnswer) -> Iterator[tuple[str, str]]:
    """Yield what it lets pass, part by part; nothing: every event."""
    for name, values in (("", webhook.types), ("category", webhook.categories), ("domain", webhook.domains)):
        for value in values:
            yield name, value
    if webhook.search:
        yield "search", webhook.search


def answer_of(webhook: WebhookAnswer) -> str:
    """Return what the receiver answered last."""
    status = f"HTTP {webhook.last_http_status}" if webhook.last_http_status else ""
    return webhook.last_error or status


def verdict_of(webhook: WebhookAnswer) -> str:
    """Return in a sentence how its deliveries are doing."""
    if webhook.status == WebhookStatus.DISABLED:
        return f"{webhook.status_reason or 'It is disabled.'} Nothing is sent or collected."
    if webhook.status == WebhookStatus.PAUSED:
        return "Nothing is sent; events are collected."
    if webhook.last_error:
        return f"The last delivery failed: {webhook.last_error}"
    if webhook.waiting or webhook.is_replaying:
        return "Events are being delivered."
    return "Everything is delivered." if webhook.delivered else "Nothing has happened yet that it wants."
