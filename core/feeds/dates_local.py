"""Dates of a few publishers in a style of their own, rewritten in a common one. Nothing else.

The list is feedparser's: Korean (OnBlog, Nate), Greek, Hungarian, and Perforce's `Fri, 2006/09/15 08:19:53 EDT`.
"""

from __future__ import annotations

import re

_KOREAN = re.compile(r"(\d{4})년\s+(\d{2})월\s+(\d{2})일\s+(\d{2}):(\d{2}):(\d{2})")
_KOREAN_HALF_DAYS = re.compile(r"(\d{4})-(\d{2})-(\d{2})\s+(오전|오후)\s+(\d{1,2}):(\d{1,2}):(\d{1,2})")
_PERFORCE = re.compile(r"\w{0,3}, (\d{4})/(\d{1,2})/(\d{2}) (\d{1,2}:\d{2}:\d{2}) (\w{0,3})")
_HUNGARIAN = re.compile(r"(\d{4})-([^-\d]+)-(\d{1,2})T(\d{1,2}):(\d{2})([+-]\d{1,2}:\d{2})")
_GREEK = re.compile(r"([^\s,]+),\s+(\d{2})\s+(\S+)\s+(\d{4}\s+\d{2}:\d{2}:\d{2}\s+\S+)")

_HUNGARIAN_MONTHS = {
    "január": 1,
    "februári": 2,
    "február": 2,
    "március": 3,
    "április": 4,
    "máujus": 5,
    "május": 5,
    "június": 6,
    "július": 7,
    "augusztus": 8,
    "szeptember": 9,
    "október": 10,
    "november": 11,
    "december": 12,
}
_GREEK_MONTHS = {
    "Ιαν": "Jan",
    "Φεβ": "Feb",
    "Μάώ": "Mar",
    "Μαώ": "Mar",
    "Μαρ": "Mar",
    "Μάρ": "Mar",
    "Απρ": "Apr",
    "Μάι": "May",
    "Μαϊ": "May",
    "Μαι": "May",
    "Ιούν": "Jun",
    "Ιον": "Jun",
    "Ιουν": "Jun",
    "Ιούλ": "Jul",
    "Ιολ": "Jul",
    "Ιουλ": "Jul",
    "Αύγ": "Aug",
    "Αυγ": "Aug",
    "Σεπ": "Sep",
    "Οκτ": "Oct",
    "Νοέ": "Nov",
    "Νοε": "Nov",
    "Δεκ": "Dec",
}


def rewrite(text: str) -> str:
    """The same date as W3C-DTF or RFC 822 text; empty when it is none of these."""
    for read in (_korean, _korean_half_days, _perforce, _hungarian, _greek):
        plain = read(text)
        if plain:
            return plain
    return ""


def _korean(text: str) -> str:
    found = _KOREAN.match(text)
    return "{}-{}-{}T{}:{}:{}+09:00".format(*found.groups()) if found else ""


def _korean_half_days(text: str) -> str:
    found = _KOREAN_HALF_DAYS.match(text)
    if not found:
        return ""
    year, month, day, half, hour, minute, second = found.groups()
    hours = int(hour) + (12 if half == "오후" else 0)
    return f"{year}-{month}-{day}T{hours:02}:{minute}:{second}+09:00"


def _perforce(text: str) -> str:
    found = _PERFORCE.search(text)
    return "{}-{}-{} {} {}".format(*found.groups()) if found else ""


def _hungarian(text: str) -> str:
    found = _HUNGARIAN.match(text)
    month = _HUNGARIAN_MONTHS.get(found.group(2)) if found else None
    if not found or not month:
        return ""
    year, _, day, hour, minute, zone = found.groups()
    return f"{year}-{month:02}-{int(day):02}T{int(hour):02}:{minute}{zone}"


def _greek(text: str) -> str:
    found = _GREEK.match(text)
    month = _GREEK_MONTHS.get(found.group(3)) if found else None
    return f"{found.group(2)} {month} {found.group(4)}" if found and month else ""
