"""Recognise spider traps: URLs that a server generates without end. Each rule has a reason, for people.

A rule is only here if ordinary sites do not break it; real addresses that look odd are in the tests. `trap_reason`
judges one URL. Variants of one page show only over many URLs: `query_variants` is the key to count them by.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

from core.urls.normalise import MAX_URL_CHARS, split_url

RULES_VERSION = 1
"""Raise it with any change of a rule: what the old rules refused is then judged again."""

MAX_SEGMENTS = 20
MAX_PARAMETERS = 8
MAX_VARIANTS = 50
TOO_MANY_VARIANTS = "too many variants of one page"

_LOOPS_IN_A_ROW = 3
# Not three: github.com/django/django/blob/main/django/… is a real page.
_REPEATS_ANYWHERE = 4
_EARLIEST_YEAR = 1990
_YEARS_AHEAD = 2

# Names that only ever carry a session, whatever the value: PHP, Java, ASP, ColdFusion, osCommerce, Zen Cart.
_SESSION_NAMES = re.compile(r"phpsessid|jsessionid|aspsessionid\w*|cftoken|oscsid|zenid|sessid", re.IGNORECASE)
# Names that may also select a page (`session_id=42` of a conference); a long random value gives the session away.
_SUSPECT_NAMES = frozenset({"sid", "s", "session", "sessionid", "session_id", "session-id"})
_RANDOM = re.compile(r"(?=.*\d)(?=.*[a-z])[a-z0-9]{16,}", re.IGNORECASE)
_SESSION_PATH = re.compile(r";[a-z_]*sess[a-z_]*=|/\([SF]\([a-z0-9]{8,}\)\)", re.IGNORECASE)

_CALENDAR_WORD = re.compile(r"calendar|kalender|calendrier|calendario|events?\b|agenda|termine", re.IGNORECASE)
# The URL ends in a date, so it is an archive's page: an article has a name after its date.
# Only years that a walk from today meets first: `/laptop-5000-12` and `/4500-10/` are products.
_DATE_AT_END = re.compile(r"[/=]((?:19|20|21)\d\d)[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\d|3[01]))?/?$")

# Parameters that say which page it is, not how it is shown; they do not make variants.
_SELECTING = re.compile(
    r"(.*[_-])?id|[a-z]{1,2}id|[pftv]|title|name|slug|article|story|topic|thread|post|item|doc", re.IGNORECASE
)
_LONGEST_SELECTION = 100


def trap_reason(url: str, now: float = 0.0) -> str:
    """Return why this URL looks like a trap, or an empty string. `now` 0: calendars are not judged."""
    parts = split_url(url)
    if parts is None:
        return ""
    if len(url) > MAX_URL_CHARS:
        return f"longer than {MAX_URL_CHARS:,} characters"
    segments = list(filter(None, parts.path.split("/")))
    if len(segments) > MAX_SEGMENTS:
        return f"more than {MAX_SEGMENTS} path segments"
    if _SESSION_PATH.search(parts.path):
        return "a session id in the path"
    if _most_repeated(segments) >= _REPEATS_ANYWHERE or _loops(segments):
        return "the same path segments again and again"
    pairs = list(filter(None, parts.query.split("&")))
    if len(pairs) > MAX_PARAMETERS:
        return f"more than {MAX_PARAMETERS} parameters"
    if any(map(_is_session, pairs)):
        return "a session id in the query"
    if _most_repeated(pairs) >= _LOOPS_IN_A_ROW:
        return "the same parameter again and again"
    return "a calendar far from today" if now and _is_far_date(parts.path, pairs, now) else ""


def _loops(segments: list[str]) -> bool:
    """Return whether a run of segments is followed by itself, and again. A day such as `/11/11/11` is none."""
    for length in range(1, len(segments) // _LOOPS_IN_A_ROW + 1):
        for start in range(len(segments) - length * _LOOPS_IN_A_ROW + 1):
            run = segments[start : start + length]
            rounds = segments[start : start + length * _LOOPS_IN_A_ROW]
            if rounds == run * _LOOPS_IN_A_ROW and not all(part.isdigit() for part in run):
                return True
    return False


def _most_repeated(words: Sequence[str]) -> int:
    return max(Counter(words).values(), default=0)


def _is_session(pair: str) -> bool:
    name, _, value = pair.partition("=")
    name = unquote(name).lower()
    return bool(_SESSION_NAMES.fullmatch(name) or (name in _SUSPECT_NAMES and _RANDOM.fullmatch(value)))


def _is_far_date(path: str, pairs: Sequence[str], now: float) -> bool:
    """A date further ahead than anybody plans; or, where a calendar is named, one before the web."""
    this_year = datetime.fromtimestamp(now, UTC).year
    years = [int(match[1]) for text in (path, *pairs) if (match := _DATE_AT_END.search(text))]
    if any(year > this_year + _YEARS_AHEAD for year in years):
        return True
    return any(year < _EARLIEST_YEAR for year in years) and _CALENDAR_WORD.search(path) is not None


def query_variants(url: str) -> str:
    """Return the page of which this URL is a variant by its query; empty where it has no query that could vary.

    `/topic?id=7&sort=date` and `/topic?id=7&sort=name` are one page, `/topic?id=8` is another.
    """
    parts = split_url(url)
    if parts is None or not parts.query:
        return ""
    pairs = [pair for pair in parts.query.split("&") if pair]
    selecting = []
    for pair in pairs:
        name, _, value = pair.partition("=")
        if 0 < len(value) <= _LONGEST_SELECTION and _SELECTING.fullmatch(unquote(name)):
            selecting.append(pair)
    if len(selecting) == len(pairs):
        return ""
    return f"{parts.host}:{parts.port}{parts.path}" + ("?" + "&".join(sorted(selecting)) if selecting else "")


def too_many_variants(count: int) -> bool:
    """Return whether this many different queries on one `query_variants` key are too many."""
    return count > MAX_VARIANTS
