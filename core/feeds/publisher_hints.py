"""Read how often a feed wants to be polled: ttl, skipHours, skipDays and the syndication module."""

from __future__ import annotations

from lxml import etree

from core.feeds.elements import ElementNames, plain_text
from core.models import PublisherHints

_PERIOD_SECONDS = {"hourly": 3600, "daily": 86400, "weekly": 604800, "monthly": 2592000, "yearly": 31536000}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_HINT_SECONDS = 366 * 86400.0


def publisher_hints(channel: etree._Element, names: ElementNames) -> PublisherHints:
    """Read the hints among a channel's children; those that make no sense are left out."""
    children = names.children(channel)
    ttl_minutes = _number(children.get("ttl"))
    hours = [_number(child) for child in children.get("skiphours", ())]
    days = [plain_text(child).lower() for child in children.get("skipdays", ())]
    # `daily` is the syndication module's default for a frequency alone.
    default = "daily" if "sy:updateperiod" not in children and "sy:updatefrequency" in children else ""
    period = _PERIOD_SECONDS.get(plain_text(children.get("sy:updateperiod")).lower() or default)
    return PublisherHints(
        ttl_seconds=min(ttl_minutes * 60, _LONGEST_HINT_SECONDS) if ttl_minutes else None,
        update_period_seconds=period / max(_number(children.get("sy:updatefrequency")) or 1, 1) if period else None,
        # RSS 0.91 counted 1 to 24, RSS 2.0 counts 0 to 23: 24 is midnight.
        skip_hours=tuple(sorted({int(hour) % 24 for hour in hours if hour is not None and hour <= 24})),
        skip_days=tuple(sorted({_WEEKDAYS.index(day) for day in days if day in _WEEKDAYS})),
    )


def _number(element: etree._Element | None) -> float | None:
    text = plain_text(element)
    return float(text) if text.isdecimal() and len(text) < 10 else None
