"""Format values for pages: numbers, ages, dates, links. Pure: the time comes in as an argument."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

MINUTE, HOUR, DAY = 60, 3_600, 86_400
UNKNOWN = "–"


def number(value: float | int | None) -> str:
    """Return a number with thousands separators; a dash for none."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if isinstance(value, float) and not value.is_integer() else f"{int(value):,}"


def duration(seconds: float | None) -> str:
    """Return a length of time in its largest unit: `45 s`, `12 min`, `3 h`, `5 d`."""
    if seconds is None:
        return UNKNOWN
    size = abs(seconds)
    if size < 90:
        return f"{size:.0f} s"
    if size < 90 * MINUTE:
        return f"{size / MINUTE:.0f} min"
    if size < 48 * HOUR:
        return f"{size / HOUR:.0f} h"
    return f"{size / DAY:.0f} d"


def relative(ts: float | None, now: float) -> str:
    """Return a point in time as seen from now: `3 min ago`, `in 2 h`."""
    if not ts:
        return "never"
    if abs(now - ts) < 2:
        return "now"
    return f"{duration(now - ts)} ago" if ts < now else f"in {duration(ts - now)}"


def iso(ts: float | None) -> str:
    """Return a point in time as ISO 8601, in UTC; empty for none."""
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ts else ""


def day(ts: float | None) -> str:
    """Return date and time for people, in UTC."""
    return datetime.fromtimestamp(ts, UTC).strftime("%d %b %Y, %H:%M") if ts else UNKNOWN


def percent(share: float | None) -> str:
    """Return a share of one as a percentage."""
    return UNKNOWN if share is None else f"{share * 100:.0f} %"


def bars(series: Sequence[tuple[str, int]], with_values: bool = True) -> str:
    """Return bars, 5 wide, 2 apart and at most 24 high, as the path of an SVG; without values only where they stand.

    One path: as elements of their own, the bars of fifty feeds would take longer than the rest of the page.
    """
    most = max((count for _, count in series), default=0) or 1
    heights = [3 + 21 * count / most if count else 0 for _, count in series] if with_values else [1.5] * len(series)
    return "".join(f"M{place * 7} 24v-{height:.1f}h5v{height:.1f}z" for place, height in enumerate(heights) if height)


def safe_url(url: str | None) -> str:
    """Return a URL that may stand in a link; empty for everything but http and https (`javascript:`, `data:`)."""
    try:
        parts = urlsplit((url or "").strip())
    except ValueError:
        return ""
    return (url or "").strip() if parts.scheme.lower() in ("http", "https") and parts.netloc else ""


def host(url: str | None) -> str:
    """Return the host of a URL, without www."""
    try:
        return (urlsplit(url or "").hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def why_path(url: str | None) -> str:
    """Return the page that says what became of a URL."""
    return f"/why?{urlencode({'url': url or ''}, errors='replace')}"


def part(text: str | None) -> str:
    """Return a text as one part of a path."""
    return quote(text or "", safe="", errors="replace")
