"""Format durations and times for people: `3h 20m`, `2d 4h ago`, `in 5m`."""

from __future__ import annotations

NEVER = float("inf")


def span(seconds: float) -> str:
    """Return a length of time in its two largest units: `3h 20m`."""
    if seconds == NEVER:
        return "never"
    left = int(abs(seconds))
    words: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not words):
            words.append(f"{count}{unit}")
    return " ".join(words[:2])


def ago(stamp: float, now: float) -> str:
    """Return how long ago, or a dash for never."""
    return f"{span(now - stamp)} ago" if stamp else "–"


def ahead(stamp: float, now: float) -> str:
    """Return how far ahead."""
    if stamp == NEVER:
        return "never"
    return f"in {span(stamp - now)}" if stamp > now else "now"
