"""Decide what the first visit of a link means: spec 004 §7 and §8 with design §6.3.

Takes answers and times, returns verdicts. Reads no clock, opens no connection.
"""

from __future__ import annotations

from enum import StrEnum

from core import http_headers, urls
from core.errors import FailCode, FailDetail
from core.models import Failed, Fetched
from core.page_canonical import trusted_canonical
from core.trackers import Trackers


class Outcome(StrEnum):
    """How a link's visit ended; each link has exactly one per run."""

    STORED = "stored"
    FAILED = "failed"
    RETRY = "retry"
    ALIAS = "alias"
    DUPLICATE = "duplicate"
    DEFERRED = "deferred"
    KNOWN = "known"
    REJECTED = "rejected"


COUNTED = tuple(Outcome)
RETRY_SECONDS = (600.0, 3_600.0, 21_600.0)
"""Transient failures are tried again after these; then they count as attempted for 30 days (trap T24)."""
GOOD_STATUSES = {200, 203}
TRANSIENT_STATUSES = {408, 425, 429}
TRANSIENT_DETAILS = {FailDetail.DNS, FailDetail.REFUSED, FailDetail.RESET, FailDetail.TRUNCATED, FailDetail.CRASH}
CONNECT_DETAILS = {FailDetail.CONNECT, FailDetail.DNS, FailDetail.REFUSED}
CLOSED_DOORS = {401, 402, 403, 451}
"""The page exists and is kept from us; a feed that carries the text has published it all the same."""
FIRST_PAGE_TS = 662_688_000.0  # 1991-01-01
DAY_SECONDS = 86_400.0


def refusal(answer: Fetched, now: float) -> Failed | None:
    """Why this answer is no article: its status, or a redirect to the home page (traps T20, T29). None: go on."""
    if answer.status not in GOOD_STATUSES:
        wait = http_headers.retry_after_seconds(answer.header("retry-after"), now)
        text = f"HTTP {answer.status}"
        return Failed(FailCode.HTTP, FailDetail.STATUS, text, answer.status, wait)
    if answer.hops and _is_home(answer.final_url) and not _is_home(answer.url):
        return Failed(FailCode.HTTP, FailDetail.REDIRECTS, "It redirects to the home page.", answer.status)
    return None


def is_transient(failed: Failed) -> bool:
    """May the same link work later? Timeouts, connection trouble, 408/425/429 and 5xx."""
    if failed.code is FailCode.TIMEOUT or failed.detail in TRANSIENT_DETAILS:
        return True
    return failed.detail is FailDetail.STATUS and (
        failed.http_status in TRANSIENT_STATUSES or failed.http_status >= 500
    )


def is_connect_failure(failed: Failed) -> bool:
    """We never got through to the host; if most hosts are like that, it is our own network."""
    return failed.detail in CONNECT_DETAILS


def may_use_feed_text(failed: Failed) -> bool:
    """Is this a failure that the feed's own text can stand in for?"""
    return failed.detail is FailDetail.STATUS and failed.http_status in CLOSED_DOORS


def retry_at(failed: Failed, earlier_tries: int, now: float) -> float | None:
    """When to try again after this failure; None: never, it is permanent or was tried often enough."""
    if not is_transient(failed) or earlier_tries >= len(RETRY_SECONDS):
        return None
    return now + max(RETRY_SECONDS[earlier_tries], failed.retry_after_seconds or 0.0)


def identity(url: str, final_url: str, canonical_url: str, trackers: Trackers | None = None) -> str:
    """The normal form that all names of one page share: its trusted canonical, else where its redirects end."""
    return urls.normal(trusted_canonical(canonical_url, final_url) or final_url or url, trackers)


def published(stated: float | None, in_feed: float | None, now: float) -> float | None:
    """The time of publication, if it can be true: not in the future, not before the web."""
    for candidate in (stated, in_feed):
        if candidate is not None and FIRST_PAGE_TS <= candidate <= now + DAY_SECONDS:
            return candidate
    return None


def _is_home(url: str) -> bool:
    found = urls.parts(url)
    return found is not None and found.path == "/" and not found.query
