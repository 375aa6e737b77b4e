"""Count over all webhooks, in one round trip: how many there are, what waits, what failed, what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

from core.keys import Keys
from core.outputs.io import webhook_scripts as scripts
from core.outputs.webhook import WebhookStatus
from core.registry import field_parsing
from core.store.connect import Client
from core.value_class import value_class


@value_class
class WebhookTotals:
    by_status: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, WebhookStatus), 0))
    failing: int = 0
    """Webhooks whose last attempt failed."""
    waiting: int = 0
    """Events that are still to be delivered."""
    dead: int = 0
    """Events that were given up and can be replayed."""
    lost_events: int = 0
    """Events that were gone before they could be queued."""

    @property
    def webhooks(self) -> int:
        return sum(self.by_status.values())


async def read_totals(client: Client, keys: Keys) -> WebhookTotals:
    """Return the counts; a webhook whose record is damaged counts as disabled, as it is."""
    names = cast(list[str], await client.zrange(keys.webhooks, 0, -1))
    if not names:
        return WebhookTotals()
    parts = (keys.webhook, keys.webhook_pending, keys.webhook_replay, keys.webhook_dead)
    wanted = [part(name) for name in names for part in parts]
    reply = cast(list[Any], await client.eval(scripts.TOTALS, len(wanted), *wanted, *WebhookStatus))
    *statuses, failing, waiting, dead, lost = (field_parsing.integer(value) for value in reply)
    by_status = dict(zip(map(str, WebhookStatus), statuses, strict=True))
    return WebhookTotals(by_status, failing, waiting, dead, lost)
