"""What a feed says about how often to come: ttl, skipHours, skipDays and the syndication module."""

from __future__ import annotations

from lxml import etree

from core.feeds.elements import ElementNames
from core.feeds.text import plain
from core.models import PublisherHints

_PERIOD_SECONDS = {"hourly": 3600, "daily": 86400, "weekly": 604800, "monthly": 2592000, "yearly": 31536000}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST_HINT_SECONDS = 366 * 86400.0


def read(channel: etree._Element, names: ElementNames) -> PublisherHints:
    """The hints among a channel's children; what makes no sense is left out."""
    found = {names(child): child for child in channel.iterchildren("*")}
    ttl_minutes = _number(found.get("ttl"))
    return PublisherHints(
        ttl_seconds=min(ttl_minutes * 60, _LONGEST_HINT_SECONDS) if ttl_minutes else None,
        update_period_seconds=_period(found.get("sy:updateperiod"), found.get("sy:updatefrequency")),
        skip_hours=_hours(found.get("skiphours")),
        skip_days=_days(found.get("skipdays")),
    )


def _number(element: etree._Element | None) -> float | None:
    text = plain(element) if element is not None else ""
    return float(text) if text.isdecimal() and len(text) < 10 else None


def _period(period: etree._Element | None, frequency: etree._Element | None) -> float | None:
    """The period divided by how often per period; `daily` is the module's default for a frequency alone."""
    if period is None and frequency is None:
        return None
    seconds = _PERIOD_SECONDS.get(plain(period).lower() if period is not None else "daily")
    return seconds / max(_number(frequency) or 1, 1) if seconds else None


def _hours(element: etree._Element | None) -> tuple[int, ...]:
    """RSS 0.91 counted 1 to 24, RSS 2.0 counts 0 to 23: 24 is midnight."""
    numbers = (_number(child) for child in element.iterchildren("*")) if element is not None else ()
    return tuple(sorted({int(hour) % 24 for hour in numbers if hour is not None and hour <= 24}))


def _days(element: etree._Element | None) -> tuple[int, ...]:
    words = (plain(child).lower() for child in element.iterchildren("*")) if element is not None else ()
    return tuple(sorted({_WEEKDAYS.index(word) for word in words if word in _WEEKDAYS}))
