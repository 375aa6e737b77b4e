"""The types of events: what the stream has, what webhooks are sent and what the dashboard offers.

A commit writes one with `event(…)` of `core/store/event_command.py`.
"""

from __future__ import annotations

EVENT_TYPES = (
    "article.stored",
    "item.changed",
    "item.gone",
    "item.moved",
    "item.listed",
    "item.forgotten",
    "item.indexed",
    "run.finished",
    "healed",
)
REMOVALS = frozenset({"item.gone", "item.forgotten"})
"""Those after which an item is no longer there."""
