"""Times as the map files have them: UTC with microseconds, and whole seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(ts: float) -> str:
    """Return `2024-01-15T10:30:00.000000Z`."""
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def timestamp_text(ts: float) -> str:
    """Return the whole seconds since 1970, rounded down."""
    return str(int(ts // 1))


def timestamp_of(text: str) -> float | None:
    """Return the time of a `…_utc` cell; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
