"""Time series of the overview: one entry a minute, and the totals of a range of entries.

Gauges are as they were in that minute. Counters count since the beginning, so that the difference of two entries says
what happened between them, however many are missing there. Reads no clock, opens no connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.registry import field_parsing
from core.value_class import value_class

MINUTE_SECONDS = 60
HOUR_SECONDS = 3_600.0
GAUGES = (
    *("p50", "p95", "due_items", "due_feeds", "embed_waiting"),
    *("queue_refresh", "queue_reindex", "queue_embed", "articles", "items", "chunks"),
)
"""`p50` and `p95` are seconds since texts were last proved to be current."""
VISITS = ("changed", "unchanged", "gone", "failed", "excluded")
COUNTERS = ("polled", "links_new", "stored", "links_failed", *VISITS, "indexed_pages", "written_chunks")


@value_class
class HistoryEntry:
    """One minute."""

    ts: float
    values: Mapping[str, float] = field(default_factory=dict)
    """By the names of gauges and counters; what was not known is not there."""


@dataclass(frozen=True, eq=False, slots=True)
class RecentHistory:
    """Entries, oldest first. Who reads again and finds nothing new gets the same object, so that what was made of it
    can be kept."""

    entries: tuple[HistoryEntry, ...] = ()


def minute_of(ts: float) -> int:
    """Return the start of the minute of a time."""
    return int(ts // MINUTE_SECONDS) * MINUTE_SECONDS


def to_fields(values: Mapping[str, float]) -> dict[str, str]:
    """Return values as they are stored: unknown ones left out, whole numbers without a point."""
    return {name: f"{values[name]:.3f}".rstrip("0").rstrip(".") for name in (*GAUGES, *COUNTERS) if name in values}


def parse_entry(ts: float, fields: Mapping[str, str]) -> HistoryEntry:
    """Return a stored entry; what is no number is left out."""
    damaged: set[str] = set()
    known = {
        name: field_parsing.number(fields[name], key=name, damaged=damaged)
        for name in (*GAUGES, *COUNTERS)
        if name in fields
    }
    return HistoryEntry(ts, {name: value for name, value in known.items() if name not in damaged})


@value_class
class Increase:
    """How much the counters grew, and within which time."""

    counts: Mapping[str, int]
    seconds: float | None
    """None: since the beginning, as nothing was recorded yet."""


def increase(entries: Sequence[HistoryEntry], now: HistoryEntry) -> Increase:
    """Return how much the counters grew within the last hour, or since the first entry in it."""
    recent = [entry for entry in entries if now.ts - HOUR_SECONDS <= entry.ts < now.ts]
    first = recent[0] if recent else None
    before = first.values if first else {}
    counts = {name: max(int(now.values.get(name, 0.0) - before.get(name, 0.0)), 0) for name in COUNTERS}
    return Increase(counts, now.ts - first.ts if first else None)


# ── series for charts ──

Points = tuple[float | None, ...]


def times(first: float, last: float, step: float) -> list[float]:
    """Return the ends of the steps between two times."""
    count = max(int((last - first) // step), 0)
    return [last - step * place for place in range(count, -1, -1)]


def gauge(entries: Sequence[HistoryEntry], at: Sequence[float], step: float, name: str) -> Points:
    """Return the mean of a gauge in each step that ends at these times; None where nothing is known."""
    return tuple(
        _mean([one.values[name] for one in group if name in one.values]) for group in _groups(entries, at, step)
    )


def rate(
    entries: Sequence[HistoryEntry], at: Sequence[float], step: float, names: Sequence[str], per_seconds: float
) -> Points:
    """Return how fast counters grew together up to each step, in `per_seconds`; None where nothing is known.

    After a gap in the records it is the mean of the gap.
    """
    points: list[float | None] = []
    before: HistoryEntry | None = None
    for group in _groups(entries, at, step):
        last = group[-1] if group else None
        points.append(_speed(before, last, names, per_seconds) if before and last else None)
        before = last or before
    return tuple(points)


def _speed(before: HistoryEntry, after: HistoryEntry, names: Sequence[str], per_seconds: float) -> float | None:
    """Return the growth in `per_seconds`; None: the counters were reset meanwhile."""
    grown = [after.values.get(name, 0.0) - before.values.get(name, 0.0) for name in names]
    return None if min(grown) < 0 else sum(grown) * per_seconds / (after.ts - before.ts)


def _groups(entries: Sequence[HistoryEntry], at: Sequence[float], step: float) -> list[list[HistoryEntry]]:
    """Return the entries of each step, oldest first."""
    groups: list[list[HistoryEntry]] = [[] for _ in at]
    for entry in entries if at else ():
        place = len(at) - 1 - int((at[-1] - entry.ts) // step)
        if 0 <= place < len(at) and entry.ts <= at[-1]:
            groups[place].append(entry)
    return groups


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
