"""Decide which events a webhook gets: by type, category, domain and saved search. All that are stated must match."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from core.errors import FreshetError
from core.outputs.event_types import EVENT_TYPES, REMOVALS
from core.registry import field_parsing
from core.value_class import value_class

GAP, TEST = "webhook.gap", "webhook.test"
"""Messages of our own: events were lost; someone tries the webhook out."""
MOST_NAMES = 100
MOST_QUERY_CHARS = 500
_GROUP = re.compile(r"[a-z]+\.\*")


class InvalidWebhook(FreshetError):
    """A webhook cannot be added as it was asked for."""


@value_class
class EventSubject:
    """What an event is about, as far as the store still knows."""

    categories: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    is_known: bool = False
    """Whether its record is still there."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What a message says about it."""


@value_class
class EventFilter:
    """What is wanted; an empty part lets everything pass."""

    types: tuple[str, ...] = ()
    """Names, or groups such as `item.*`."""
    categories: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    search: str = ""
    """Words that must all be in the text."""

    def wants_type(self, event_type: str) -> bool:
        group = f"{event_type.partition('.')[0]}.*"
        return not self.types or event_type in self.types or group in self.types

    def wants_subject(self, event_type: str, subject: EventSubject) -> bool:
        """Return whether an event about this passes the categories and domains.

        What a removed item belonged to is no longer known. Receivers may have a copy of it, so its removal passes.
        """
        if event_type in REMOVALS and not subject.is_known:
            return True
        fits_category = not self.categories or not subject.categories.isdisjoint(self.categories)
        return fits_category and (not self.domains or not subject.domains.isdisjoint(self.domains))

    def needs_text(self, event_type: str) -> bool:
        """Return whether the text decides as well; not where it was removed: that passes."""
        return bool(self.search) and event_type not in REMOVALS

    def to_hash(self) -> dict[str, str]:
        return {
            "types": json.dumps(self.types),
            "categories": json.dumps(self.categories),
            "domains": json.dumps(self.domains),
            "search": self.search,
        }

    @classmethod
    def from_hash(cls, stored: Mapping[str, str]) -> EventFilter:
        types, categories, domains = (
            _names(field_parsing.sequence(stored.get(name))) for name in ("types", "categories", "domains")
        )
        return cls(types, categories, domains, field_parsing.text(stored.get("search", "")))


def checked_filter(
    types: Sequence[str] = (), categories: Sequence[str] = (), domains: Sequence[str] = (), search: str = ""
) -> EventFilter:
    """Return the filter that someone asks for; raise InvalidWebhook for what could never match."""
    unknown = [name for name in types if name not in EVENT_TYPES and not _is_group(name)]
    if unknown:
        raise InvalidWebhook(f"There are no events {unknown[0][:60]!r}. There are: {', '.join(EVENT_TYPES)}, item.*.")
    if max(map(len, (types, categories, domains))) > MOST_NAMES:
        raise InvalidWebhook(f"A webhook takes at most {MOST_NAMES} types, categories and domains each.")
    if len(search) > MOST_QUERY_CHARS:
        raise InvalidWebhook(f"A saved search has at most {MOST_QUERY_CHARS} characters.")
    return EventFilter(_names(types), _names(categories), _names(domains), search.strip())


def _is_group(name: str) -> bool:
    return bool(_GROUP.fullmatch(name)) and any(one.startswith(name[:-1]) for one in EVENT_TYPES)


def _names(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for value in values if (name := str(value).strip())))
