"""Measure the backlog: due items and feeds, how long the oldest has been overdue, and texts without vectors.

Reads counts and the first members of sorted sets, never a whole one. What is paused does not count as overdue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from core.keys import Keys
from core.registry import field_parsing
from core.registry.record import ARTICLES_SOURCE, URLS_SOURCE
from core.store.connect import Client, texts
from core.store.pipeline import read_many
from core.value_class import value_class

FIRST_TIME = 1_000_000_000
"""Earlier scores were set by hand and mean `now`, not a time since which something is overdue."""
INGEST_SCOPE = "ingest"


@value_class
class Backlog:
    """The backlog at one moment."""

    due: Mapping[str, int] = field(default_factory=dict)
    """Items that are due now, by source."""
    lag_seconds: float = 0.0
    """How long the oldest due item has been overdue."""
    feeds_due: int = 0
    feed_lag_seconds: float = 0.0
    embed_waiting: int = 0
    """Items whose text has no vectors yet."""
    embed_lag_seconds: float = 0.0
    embed_paused: str = ""
    """Why nothing is embedded now; empty: it is."""
    success_ts: Mapping[str, float] = field(default_factory=dict)
    """When a pass over each source last succeeded; without those of which none ever did."""
    paused: frozenset[str] = frozenset()
    """Scopes that someone paused: `source:<sid>`, `domain:<id>`, `ingest`."""

    @property
    def due_items(self) -> int:
        """How many items are due in all sources together."""
        return sum(self.due.values())


class BacklogReader:
    """Reads the backlog in two round trips."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def read(self, now: float) -> Backlog:
        """Return the backlog; `now` is the server's time."""
        keys = self._keys
        sids, paused, feeds_due, feed, waiting, text, away = await read_many(
            self._client,
            [
                ("SMEMBERS", keys.sources),
                ("HKEYS", keys.runs_paused),
                ("ZCOUNT", keys.feeds_due, "-inf", now),
                _first(keys.feeds_due, now),
                ("ZCARD", keys.embed_due),
                _first(keys.embed_due, now),
                ("GET", keys.embed_away),
            ],
        )
        scopes = frozenset(texts(paused))
        sources = [ARTICLES_SOURCE, URLS_SOURCE, *sorted(sids)]
        replies = await read_many(
            self._client,
            [
                *(("ZCOUNT", keys.due(sid), "-inf", now) for sid in sources),
                *(_first(keys.due(sid), now) for sid in sources),
                *(("HGET", keys.source(sid), "last_success_ts") for sid in sources),
            ],
        )
        count = len(sources)
        due, firsts, successes = replies[:count], replies[count : 2 * count], replies[2 * count :]
        success_ts = {sid: field_parsing.timestamp(at) for sid, at in zip(sources, successes, strict=True) if at}
        running = [_lag(first, now) for sid, first in zip(sources, firsts, strict=True) if not is_paused(sid, scopes)]
        return Backlog(
            due=dict(zip(sources, due, strict=True)),
            lag_seconds=max(running, default=0.0),
            feeds_due=feeds_due,
            feed_lag_seconds=0.0 if INGEST_SCOPE in scopes else _lag(feed, now),
            embed_waiting=waiting,
            embed_lag_seconds=_lag(text, now),
            embed_paused=str(away or ""),
            success_ts=success_ts,
            paused=scopes,
        )


def is_paused(sid: str, scopes: frozenset[str]) -> bool:
    """Return whether a source, or the domain it belongs to, is among the paused scopes."""
    domain = sid.partition(".")[0] if "." in sid else ""
    return f"source:{sid}" in scopes or bool(domain and f"domain:{domain}" in scopes)


def _first(key: str, now: float) -> tuple[Any, ...]:
    """The command that reads the member that has waited longest."""
    return ("ZRANGEBYSCORE", key, FIRST_TIME, now, "WITHSCORES", "LIMIT", 0, 1)


def _lag(first: Sequence[tuple[str, float]], now: float) -> float:
    """Return how long ago the first member of a reply was due."""
    return max(now - float(first[0][1]), 0.0) if first else 0.0
