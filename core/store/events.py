"""The stream of what happened, for whoever wants to follow."""

from __future__ import annotations

from core.keys import Keys
from core.store.commit import Command

EVENTS_KEPT = 10_000


def event(keys: Keys, kind: str, **fields: str) -> Command:
    """The command that tells of it, for a commit."""
    words = [word for pair in fields.items() for word in pair]
    return ("XADD", keys.events, "MAXLEN", "~", EVENTS_KEPT, "*", "type", kind, *words)
