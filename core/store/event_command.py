"""Build the commands that add events to the event stream (docs/architecture.md#events); the types are in
`core/outputs/event_types.py`."""

from __future__ import annotations

from core.keys import Keys
from core.store.commands import Command

EVENTS_KEPT = 10_000


def event(keys: Keys, kind: str, **fields: str) -> Command:
    """Return the command that adds an event, for a commit."""
    words = [word for pair in fields.items() for word in pair]
    return ("XADD", keys.events, "MAXLEN", "~", EVENTS_KEPT, "*", "type", kind, *words)
