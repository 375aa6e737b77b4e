"""What an HTTP status or a failure means: the one table that pages, feeds, sitemaps, files and links share.

Who wants to treat 451 like 410, or a broken handshake like a timeout, changes one row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.errors import FailCode, FailDetail
from core.models import Failed


class ResponseKind(StrEnum):
    """What an answer says about the thing that was asked for."""

    OK = "ok"
    """There is a body to read."""
    UNCHANGED = "unchanged"
    """It is as it was when the validators were sent."""
    MISSING = "missing"
    """Nothing is there now; it may come back."""
    GONE = "gone"
    """Removed on purpose and for good."""
    FORBIDDEN = "forbidden"
    """It exists and is kept from us; a feed that carries its text has published it all the same."""
    TRANSIENT = "transient"
    """Trouble of the moment: the same request may work later."""
    EXCLUDED = "excluded"
    """It is there and not for us, whenever we ask."""
    PERMANENT = "permanent"
    """Anything else that is no content, and that a retry does not change."""


class ErrorClass(StrEnum):
    """How much an error weighs in a feed's backoff: a wrong address more than a bad moment."""

    HARD = "hard"
    SOFT = "soft"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Classification:
    """One row of the table."""

    kind: ResponseKind
    error_class: ErrorClass = ErrorClass.HARD


_LATER = Classification(ResponseKind.TRANSIENT, ErrorClass.TEMPORARY)
_CLOSED = Classification(ResponseKind.FORBIDDEN)
_EXCLUDED = Classification(ResponseKind.EXCLUDED)
_REFUSED = Classification(ResponseKind.PERMANENT)
_SOFT = Classification(ResponseKind.PERMANENT, ErrorClass.SOFT)

_STATUSES: dict[int, Classification] = {
    200: Classification(ResponseKind.OK),
    203: Classification(ResponseKind.OK),
    304: Classification(ResponseKind.UNCHANGED, ErrorClass.SOFT),
    401: _CLOSED,
    402: _CLOSED,
    403: _CLOSED,
    404: Classification(ResponseKind.MISSING),
    408: _LATER,
    410: Classification(ResponseKind.GONE),
    425: _LATER,
    429: _LATER,
    451: _CLOSED,
    502: _LATER,
    503: _LATER,
    504: _LATER,
}
_DETAILS: dict[FailDetail, Classification] = {
    FailDetail.CONNECT: _LATER,
    FailDetail.DNS: Classification(ResponseKind.TRANSIENT, ErrorClass.SOFT),
    FailDetail.REFUSED: _LATER,
    FailDetail.RESET: _LATER,
    FailDetail.TRUNCATED: _LATER,
    # A parse child that was killed from outside, by the OOM killer for one, says nothing about the body.
    FailDetail.CRASH: _LATER,
    FailDetail.TLS: _SOFT,
    FailDetail.PROTOCOL: _SOFT,
    FailDetail.TOO_LARGE: _EXCLUDED,
    FailDetail.TYPE: _EXCLUDED,
    FailDetail.BLOCKED: _EXCLUDED,
    FailDetail.URL: _EXCLUDED,
    FailDetail.ROBOTS: _EXCLUDED,
    FailDetail.REDIRECTS: _REFUSED,
    # The same bytes would hit the same limit again.
    FailDetail.CPU: _SOFT,
    FailDetail.MEMORY: _SOFT,
}
_UNREACHED = {FailDetail.CONNECT, FailDetail.DNS, FailDetail.REFUSED}


def status(status: int) -> Classification:
    """Return what an HTTP status means; sources without HTTP answer in the same numbers."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return Classification(ResponseKind.TRANSIENT, ErrorClass.SOFT)
    return _REFUSED if status >= 400 else _SOFT


def failure(failed: Failed) -> Classification:
    """Return what a failure means."""
    if failed.detail is FailDetail.STATUS:
        return status(failed.http_status)
    if failed.code is FailCode.TIMEOUT:
        return _LATER
    return _DETAILS.get(failed.detail, _SOFT)


def is_transient(failed: Failed) -> bool:
    """May the same request work later?"""
    return failure(failed).kind is ResponseKind.TRANSIENT


def is_unreached(failed: Failed) -> bool:
    """Was the host never reached? If most hosts are like that, it is our own network."""
    return failed.detail in _UNREACHED
