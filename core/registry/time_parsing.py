"""Parse a point in time as people type it: `30m`, `2h`, `3d`, a date, or a date and time.

Every `--since`, `since=` and the like is read here. Reads no clock: `now` is an argument.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from core.errors import FreshetError

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_BEFORE_NOW = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s?([smhdw])")
_DATE_CHARS = len("2026-01-31")


class InvalidDuration(FreshetError):
    """A text is not a length of time."""


def parse_duration(text: str) -> float:
    """Return seconds: of `90`, `15m`, `1.5h`."""
    text = text.strip().lower()
    if found := _BEFORE_NOW.fullmatch(text if text[-1:].isalpha() else f"{text}s"):
        return float(found[1]) * UNIT_SECONDS[found[2]]
    raise InvalidDuration(f"{text or 'An empty text'} is not a length of time; write 90, 15m, 2h or 1d.")


class InvalidMoment(FreshetError):
    """A text is not a point in time."""


def parse_moment(text: str, now: float, *, is_end: bool = False) -> float:
    """Return epoch seconds; without a zone it is UTC, and a bare date is its beginning, or with `is_end` its end."""
    text = text.strip()
    if ago := _BEFORE_NOW.fullmatch(text.lower()):
        return now - float(ago[1]) * UNIT_SECONDS[ago[2]]
    try:
        date = datetime.fromisoformat(text)
        if is_end and len(text) <= _DATE_CHARS:
            date += timedelta(days=1, microseconds=-1)
    except (ValueError, OverflowError):
        raise InvalidMoment(
            f"{text or 'An empty text'} is not a date; write 2026-01-31 or 2026-01-31T12:00:00Z. "
            "A length of time before now works too: 30m, 2h, 3d."
        ) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
