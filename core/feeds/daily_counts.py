"""How many new entries a feed had on each of the last days, in UTC; days without any are left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

DAYS_KEPT = 14
DailyCounts = tuple[tuple[str, int], ...]
"""A day (`2026-11-18`) and its number, oldest first."""


def counted(counts: DailyCounts, now: float, number: int) -> DailyCounts:
    """Return the counts with `number` added to today's; days that are too old are dropped."""
    today, first = _day(now), _day(now, DAYS_KEPT - 1)
    known = {day: count for day, count in counts if day >= first}
    if number > 0:
        known[today] = known.get(today, 0) + number
    return tuple(sorted(known.items()))[-DAYS_KEPT:]


def series(counts: Sequence[tuple[str, int]], now: float) -> tuple[tuple[str, int], ...]:
    """Return every one of the last days with its number, today last."""
    known = dict(counts)
    return tuple((day, known.get(day, 0)) for day in (_day(now, back) for back in range(DAYS_KEPT - 1, -1, -1)))


def to_text(counts: DailyCounts) -> str:
    """Return the counts as they are stored: `2026-11-17=3 2026-11-18=12`."""
    return " ".join(f"{day}={count}" for day, count in counts)


def from_text(text: str) -> DailyCounts:
    """Return what was stored; what cannot be read is left out."""
    pairs = (word.partition("=") for word in text.split()[-DAYS_KEPT:])
    return tuple((day, int(count)) for day, _, count in pairs if _is_day(day) and count.isdecimal() and len(count) < 10)


def _day(now: float, back: int = 0) -> str:
    return (datetime.fromtimestamp(now, UTC) - timedelta(days=back)).date().isoformat()


def _is_day(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False
