"""HTTP headers: those about time and type of an answer, in lower case, and the validators of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER_SECONDS = 86_400.0
LONGEST_CACHE_SECONDS = 366 * 86_400.0
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?")
_DIGITS = re.compile(r"[0-9]{1,18}")
_CHARSET = re.compile(r"""[;,\s]charset\s*=\s*["']?([^\s"';,]+)""", re.IGNORECASE)


def validators(etag: str, last_modified: str) -> dict[str, str]:
    """Return the headers that ask for a 304, byte for byte as they came."""
    headers = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    return {name: value for name, value in headers.items() if value}


def retry_after_seconds(value: str, now_ts: float) -> float | None:
    """Return the seconds to wait, at most a day; None if the header cannot be read."""
    text = value.strip()
    # `120.5` is no legal form, yet servers send it, and its meaning is plain.
    if _NUMBER.fullmatch(text):
        return min(float(text), LONGEST_RETRY_AFTER_SECONDS)
    at = http_date_ts(text)
    return None if at is None else min(max(at - now_ts, 0.0), LONGEST_RETRY_AFTER_SECONDS)


def cache_lifetime_seconds(headers: Mapping[str, str], now_ts: float) -> float | None:
    """Return how much longer the response is fresh; 0 if it must be fetched again, None if no header says."""
    directives: dict[str, str] = {}
    for part in headers.get("cache-control", "").lower().split(","):
        name, _, argument = part.partition("=")
        # The first one wins: a cache in between may have appended its own.
        directives.setdefault(name.strip(), argument.strip(' "'))
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    # `s-maxage` speaks to shared caches, and we ask on behalf of many readers.
    stated = _seconds(directives.get("s-maxage"))
    if stated is None:
        stated = _seconds(directives.get("max-age"))
    if stated is not None:
        age = _seconds(headers.get("age")) or 0.0
        return min(max(stated - age, 0.0), LONGEST_CACHE_SECONDS)
    if "expires" not in headers:
        return None
    expires, date = http_date_ts(headers["expires"]), http_date_ts(headers.get("date", ""))
    if expires is None:
        return 0.0  # `Expires: 0` and other junk mean "already expired" (RFC 9111 §5.3)
    return min(max(expires - (now_ts if date is None else date), 0.0), LONGEST_CACHE_SECONDS)


def media_type(content_type: str) -> str:
    """Return `text/html` of `Text/HTML; charset=utf-8`; empty if there is none."""
    kind = content_type.partition(";")[0].partition(",")[0].strip().lower()
    return kind if "/" in kind else ""


def charset(content_type: str) -> str:
    """Return the charset of a Content-Type in lower case, unchecked; empty if there is none."""
    match = _CHARSET.search(content_type)
    return match[1].lower() if match else ""


def http_date_ts(text: str) -> float | None:
    """Return the epoch seconds of an HTTP date in any of its three forms, or None."""
    try:
        date = parsedate_to_datetime(text.strip())
        # Without a zone Python would take our local one; HTTP means GMT.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _seconds(value: str | None) -> float | None:
    match = _DIGITS.match(value.strip()) if value else None
    return float(match[0]) if match else None
