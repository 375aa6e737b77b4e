"""Read the dates that feeds really carry: epoch seconds, or None when no reading makes sense.

The forms and their order are those of feedparser, so that both agree on every date it can read. Unlike feedparser we
look at no clock: a date that does not name its year is no date. Nothing in here raises on what a publisher wrote.
"""

from __future__ import annotations

import re
from calendar import timegm

from core.feeds import dates_local

_LONGEST_DATE_CHARS = 100
# Years 1 to 9999: what Python's datetime, and so every reader of the store, can show.
_EARLIEST_TS, _LATEST_TS = -62_135_596_800, 253_402_300_799

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_DAYS = frozenset(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
# RFC 822 §5.1, and the short forms seen in feeds. Any other name counts as UTC: wrong by hours at most.
_ZONE_HOURS = {
    "adt": -3,
    "ast": -4,
    "at": -4,
    "edt": -4,
    "est": -5,
    "et": -5,
    "cdt": -5,
    "cst": -6,
    "ct": -6,
    "mdt": -6,
    "mst": -7,
    "mt": -7,
    "pdt": -7,
    "pst": -8,
    "pt": -8,
    "a": -1,
    "n": 1,
    "m": -12,
    "y": 12,
    "met": 1,
    "mest": 2,
}

_W3C = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?)?"
    r"(?:[tT\s]\s*(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,]\d*)?)?)?"
    r"\s*(?P<zone>[A-Za-z]{1,4}|[+-]\d{1,2}(?::?\d{2})?)?)?"
)
_COMPACT = re.compile(
    r"(?P<year>\d{4})(?:(?P<month>[01]\d)(?P<day>[0-3]\d)|-?(?P<ordinal>[0-3]\d\d))"
    r"(?:T?(?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2}))?(?:\.\d+)?(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?"
)
_SHORT_YEAR = re.compile(
    r"(?P<year>\d\d)-?(?:(?P<month>[01]\d)-?(?P<day>[0-3]\d)|(?P<ordinal>[0-3]\d\d))"
    r"(?:T?(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?P<zone>Z|[+-]\d{2}(?::\d{2})?)?)?"
)
_RFC_822 = re.compile(
    r"(?:[A-Za-z]{3,9}\.?,?\s+)?(\d{1,2})\s+([A-Za-z]{3})[a-z]*\.?\s+(\d{4})\s+(\d{1,2}):(\d{2})(?::(\d{2}))?"
    r"\s+([+-]\d{4}|[A-Za-z]{1,4})"
)


def parse_date(text: str) -> float | None:
    """The moment a feed's date names, in seconds since 1970 UTC; None when it names none."""
    text = text.strip()
    if not text or len(text) > _LONGEST_DATE_CHARS:
        return None
    for read in (_w3c, _rfc_822, _compact, _asctime, _local):
        try:
            seconds = read(text)
        except (ValueError, OverflowError, IndexError):
            seconds = None
        if seconds is not None:
            return seconds if _EARLIEST_TS <= seconds <= _LATEST_TS else None
    return None


def _w3c(text: str) -> float | None:
    found = _W3C.fullmatch(text)
    return _from_parts(found.groupdict()) if found else None


def _compact(text: str) -> float | None:
    found = _COMPACT.fullmatch(text) or _SHORT_YEAR.fullmatch(text)
    return _from_parts(found.groupdict()) if found else None


def _from_parts(parts: dict[str, str | None]) -> float | None:
    def number(name: str, default: int = 0) -> int:
        return int(parts.get(name) or default)

    year = number("year")
    if len(parts["year"] or "") == 2:
        year += 2000
    day = number("ordinal") or number("day", 1)
    month = 1 if parts.get("ordinal") else number("month", 1)
    clock = number("hour"), number("minute"), number("second")
    return _seconds(year, month, day, *clock) - _zone_seconds((parts["zone"] or "").lower())


def _rfc_822(text: str) -> float | None:
    """The usual form by one expression; the sloppy ones word by word."""
    found = _RFC_822.fullmatch(text)
    if not found:
        return _rfc_822_words(text.lower().split())
    day, month, year, hour, minute, second, zone = found.groups()
    words = [day, month.lower(), year, f"{hour}:{minute}:{second or 0}", zone.lower()]
    return _rfc_822_words(words)


def _rfc_822_words(words: list[str]) -> float | None:
    """`day month year time zone` in that order, or `month day …`; time and zone may be missing."""
    if len(words) < 5:
        words = [*words, "00:00:00", "0000"]
    if words[0][:3] in _DAYS:
        words = words[1:]
    if len(words) < 5:
        return None
    day, month, year, time, zone = words[:5]
    if day[:3] in _MONTHS:
        day, month = month, day
    number = _MONTHS.get(month[:3])
    if not number:
        return None
    hour, minute, second = ([int(part) for part in time.split(":")] + [0, 0])[:3]
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60 and 0 < int(day) <= 31):
        return None
    return _seconds(_full_year(year), number, int(day), hour, minute, second) - _zone_seconds(_bare_zone(zone))


def _full_year(year: str) -> int:
    """Two digits from 90 on belong to the last century, as in feedparser."""
    number = int(year)
    if number < 0:
        raise ValueError(f"no such year: {year}")
    return number + (2000 if number < 90 else 1900) if len(year) <= 2 else number


def _bare_zone(zone: str) -> str:
    zone = zone.removeprefix("etc/")
    return zone[3:] if zone.startswith("gmt") else zone


def _asctime(text: str) -> float | None:
    """`Thu Jan 01 10:23:41 2004`, also with a zone before the year."""
    words = text.lower().split()
    if len(words) == 5:
        words.insert(4, "+0000")
    if len(words) != 6:
        return None
    return _rfc_822_words([words[0], words[2], words[1], words[5], words[3], words[4]])


def _local(text: str) -> float | None:
    """A date in a language or house style of its own, rewritten as one of the above."""
    plain = dates_local.rewrite(text)
    return (_w3c(plain) or _rfc_822(plain)) if plain else None


def _zone_seconds(zone: str) -> int:
    if not zone or zone[0] not in "+-":
        return _ZONE_HOURS.get(zone, 0) * 3600
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60
    return -seconds if zone[0] == "-" else seconds


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    """Seconds since 1970; a 13th month or a 24th hour runs over into the next year or day, as in C's mktime."""
    if day < 1 or month < 1:
        raise ValueError("a date with zeros is a database's way of saying none")
    years, month = divmod(month - 1, 12)
    return float(timegm((year + years, month + 1, day, hour, minute, second)))
