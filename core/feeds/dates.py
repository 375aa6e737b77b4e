"""Parse the dates that feeds and pages really carry: epoch seconds, or None when no reading makes sense.

The forms and their order are those of feedparser, so that both agree on every date it can read. Unlike feedparser this
reads no clock: a date that does not name its year is not a date. `parse_date` never raises on what a publisher wrote.
"""

from __future__ import annotations

import re
from calendar import timegm

_LONGEST_DATE_CHARS = 100
# Years 1 to 9999: what Python's datetime, and so every reader of the store, can show.
_EARLIEST_TS, _LATEST_TS = -62_135_596_800, 253_402_300_799


def _month_numbers(names: str) -> dict[str, int]:
    """Number the months of a list; commas separate months, blanks the spellings of one."""
    return {name: number for number, spellings in enumerate(names.split(","), 1) for name in spellings.split()}


_MONTHS = _month_numbers("jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec")
_DAYS = frozenset(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
# RFC 822 §5.1, and the short forms seen in feeds. Any other name counts as UTC: wrong by hours at most.
_ZONE_HOURS = {
    name: hours
    for hours, names in (
        *((-12, "m"), (-8, "pst pt"), (-7, "pdt mst mt"), (-6, "mdt cst ct"), (-5, "cdt est et")),
        *((-4, "edt ast at"), (-3, "adt"), (-1, "a"), (1, "n met"), (2, "mest"), (12, "y")),
    )
    for name in names.split()
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
    """Return the date as seconds since 1970 UTC; None when it cannot be read as one."""
    text = text.strip()
    if not text or len(text) > _LONGEST_DATE_CHARS:
        return None
    for parse in (_w3c, _rfc_822, _compact, _asctime, _local_style):
        try:
            seconds = parse(text)
        except (ValueError, OverflowError, IndexError):
            seconds = None
        if seconds is not None:
            return seconds if _EARLIEST_TS <= seconds <= _LATEST_TS else None
    return None


def _w3c(text: str) -> float | None:
    match = _W3C.fullmatch(text)
    return _from_parts(match.groupdict()) if match else None


def _compact(text: str) -> float | None:
    match = _COMPACT.fullmatch(text) or _SHORT_YEAR.fullmatch(text)
    return _from_parts(match.groupdict()) if match else None


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
    match = _RFC_822.fullmatch(text)
    if not match:
        return _rfc_822_words(text.lower().split())
    day, month, year, hour, minute, second, zone = match.groups()
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
    full_year = int(year)
    if full_year < 0:
        return None
    if len(year) <= 2:  # from 90 on they belong to the last century, as in feedparser
        full_year += 2000 if full_year < 90 else 1900
    offset = _zone_seconds(zone.removeprefix("etc/").removeprefix("gmt"))
    return _seconds(full_year, number, int(day), hour, minute, second) - offset


def _asctime(text: str) -> float | None:
    """`Thu Jan 01 10:23:41 2004`, also with a zone before the year."""
    words = text.lower().split()
    if len(words) == 5:
        words.insert(4, "+0000")
    if len(words) != 6:
        return None
    return _rfc_822_words([words[0], words[2], words[1], words[5], words[3], words[4]])


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


# ── styles of a few publishers ──
# The list is feedparser's: Korean (OnBlog, Nate), Greek, Hungarian, and Perforce's `Fri, 2006/09/15 08:19:53 EDT`.

_KOREAN = re.compile(r"(\d{4})년\s+(\d{2})월\s+(\d{2})일\s+(\d{2}):(\d{2}):(\d{2})")
_KOREAN_HALF_DAYS = re.compile(r"(\d{4})-(\d{2})-(\d{2})\s+(오전|오후)\s+(\d{1,2}):(\d{1,2}):(\d{1,2})")
_PERFORCE = re.compile(r"\w{0,3}, (\d{4})/(\d{1,2})/(\d{2}) (\d{1,2}:\d{2}:\d{2}) (\w{0,3})")
_HUNGARIAN = re.compile(r"(\d{4})-([^-\d]+)-(\d{1,2})T(\d{1,2}):(\d{2})([+-]\d{1,2}:\d{2})")
_GREEK = re.compile(r"([^\s,]+),\s+(\d{2})\s+(\S+)\s+(\d{4}\s+\d{2}:\d{2}:\d{2}\s+\S+)")

# With the misspellings that feedparser has met.
_HUNGARIAN_MONTHS = _month_numbers(
    "január, februári február, március, április, máujus május, június, július, augusztus, szeptember, október, "
    "november, december"
)
_GREEK_MONTHS = _month_numbers(
    "Ιαν, Φεβ, Μάώ Μαώ Μαρ Μάρ, Απρ, Μάι Μαϊ Μαι, Ιούν Ιον Ιουν, Ιούλ Ιολ Ιουλ, Αύγ Αυγ, Σεπ, Οκτ, Νοέ Νοε, Δεκ"
)


def _local_style(text: str) -> float | None:
    """Rewrite a date in a publisher's own style as W3C-DTF or RFC 822, and parse that."""
    if match := _KOREAN.match(text):
        common = "{}-{}-{}T{}:{}:{}+09:00".format(*match.groups())
    elif match := _KOREAN_HALF_DAYS.match(text):
        year, month, day, half, hour, minute, second = match.groups()
        hours = int(hour) + (12 if half == "오후" else 0)
        common = f"{year}-{month}-{day}T{hours:02}:{minute}:{second}+09:00"
    elif match := _PERFORCE.search(text):
        common = "{}-{}-{} {} {}".format(*match.groups())
    elif (match := _HUNGARIAN.match(text)) and match[2] in _HUNGARIAN_MONTHS:
        year, month, day, hour, minute, zone = match.groups()
        common = f"{year}-{_HUNGARIAN_MONTHS[month]:02}-{int(day):02}T{int(hour):02}:{minute}{zone}"
    elif (match := _GREEK.match(text)) and match[3] in _GREEK_MONTHS:
        common = f"{match[2]} {list(_MONTHS)[_GREEK_MONTHS[match[3]] - 1]} {match[4]}"
    else:
        return None
    return _w3c(common) or _rfc_822(common)
