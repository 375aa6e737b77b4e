"""The URL under which a page is known and fetched.

Only permanent redirects and trusted canonicals change it: the target of a temporary redirect may be gone tomorrow
while the link that led there still works.
"""

from __future__ import annotations

import itertools

from core.models import PERMANENT_REDIRECTS, Fetched
from core.pages.canonical import trusted_canonical
from core.urls.normalise import split_url


def permanent_target(answer: Fetched) -> str:
    """Return where a chain of 301 and 308 leads; empty if its first hop is temporary or there is none.

    A target with credentials is empty too: it is stored nowhere, so it could not be fetched again.
    """
    if answer.is_signed:
        return ""
    permanent = sum(1 for _ in itertools.takewhile(lambda hop: hop.status in PERMANENT_REDIRECTS, answer.hops))
    visited = [*(hop.url for hop in answer.hops), answer.final_url]
    return visited[permanent] if permanent else ""


def has_temporary_redirect(answer: Fetched) -> bool:
    """Is there a temporary redirect on the way, or one to a URL that cannot be fetched again?"""
    return bool(answer.hops) and not answer.is_moved_for_good


def fetch_url(answer: Fetched) -> str:
    """Return the URL to fetch next time: where permanent redirects lead, else the one that was fetched."""
    return permanent_target(answer) or answer.url


def canonical(answer: Fetched, canonical_url: str) -> str:
    """Return the URL that identifies a page: its trusted canonical, else where permanent redirects lead.

    What a page behind a temporary redirect calls itself says nothing about the link that led there.
    """
    if has_temporary_redirect(answer):
        return fetch_url(answer)
    return trusted_canonical(canonical_url, answer.final_url) or fetch_url(answer)


def is_home_page(url: str) -> bool:
    """Is this the front page of a site?"""
    parts = split_url(url)
    return parts is not None and parts.path == "/" and not parts.query
