"""What a page is called, and when it was published. Takes answers and times, returns names and times.

Only permanent redirects and trusted canonicals change a name: the target of a temporary redirect may be gone tomorrow
while the link that led there still works.
"""

from __future__ import annotations

import itertools
from enum import StrEnum

from core.models import PERMANENT_REDIRECTS, Fetched
from core.pages.canonical import trusted_canonical
from core.urls.normalise import split_url

FIRST_PAGE_TS = 662_688_000.0  # 1991-01-01
DAY_SECONDS = 86_400.0


class LinkResult(StrEnum):
    """How a link's visit ended; each link has exactly one per run."""

    STORED = "stored"
    FAILED = "failed"
    RETRY = "retry"
    ALIAS = "alias"
    DUPLICATE = "duplicate"
    DEFERRED = "deferred"
    KNOWN = "known"
    REJECTED = "rejected"


def permanent_target(answer: Fetched) -> str:
    """Where a chain of 301 and 308 leads; empty when its first hop is temporary or there is none.

    A target with credentials is empty too: it is stored nowhere, so it could not be asked again.
    """
    if answer.is_signed:
        return ""
    permanent = sum(1 for _ in itertools.takewhile(lambda hop: hop.status in PERMANENT_REDIRECTS, answer.hops))
    visited = [*(hop.url for hop in answer.hops), answer.final_url]
    return visited[permanent] if permanent else ""


def has_temporary_redirect(answer: Fetched) -> bool:
    """Is there a temporary redirect on the way, or one to a URL that cannot be asked again?"""
    return bool(answer.hops) and not answer.is_moved_for_good


def fetch_url(answer: Fetched) -> str:
    """The URL to ask next time: where permanent redirects lead, else the one that was asked."""
    return permanent_target(answer) or answer.url


def canonical(answer: Fetched, canonical_url: str) -> str:
    """The URL that all names of one page share: its trusted canonical, else where permanent redirects lead.

    What a page behind a temporary redirect calls itself says nothing about the link that led there.
    """
    if has_temporary_redirect(answer):
        return fetch_url(answer)
    return trusted_canonical(canonical_url, answer.final_url) or fetch_url(answer)


def published(stated: float | None, in_feed: float | None, now: float) -> float | None:
    """The time of publication, if it can be true: not in the future, not before the web."""
    for candidate in (stated, in_feed):
        if candidate is not None and FIRST_PAGE_TS <= candidate <= now + DAY_SECONDS:
            return candidate
    return None


def is_home_page(url: str) -> bool:
    """Is this the front page of a site?"""
    found = split_url(url)
    return found is not None and found.path == "/" and not found.query
