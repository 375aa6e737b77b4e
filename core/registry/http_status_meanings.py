"""Classify HTTP statuses and failures: the one table that pages, feeds, sitemaps, files and links share.

To treat 451 like 410, or a broken handshake like a timeout, change one row here.
"""

from __future__ import annotations

from enum import StrEnum

from core.errors import FailCode, FailDetail
from core.models import Failed
from core.value_class import value_class


class ResponseKind(StrEnum):
    """Meaning of a response for the resource that was requested."""

    OK = "ok"
    """There is a body to read."""
    UNCHANGED = "unchanged"
    """It is as it was when the validators were stored."""
    MISSING = "missing"
    """Nothing is there now; it may come back."""
    GONE = "gone"
    """Removed on purpose and for good."""
    FORBIDDEN = "forbidden"
    """It exists and is kept from us; a feed that carries its text has published it anyway."""
    TRANSIENT = "transient"
    """The same request may work later."""
    EXCLUDED = "excluded"
    """It is there, and we do not take it: type, size, robots.txt, address."""
    PERMANENT = "permanent"
    """Any other failure that a retry does not change."""


class ErrorClass(StrEnum):
    """How much an error weighs in a feed's backoff: a wrong address more than a timeout."""

    HARD = "hard"
    SOFT = "soft"
    TEMPORARY = "temporary"


@value_class
class Classification:
    """One row of the table."""

    kind: ResponseKind
    error_class: ErrorClass = ErrorClass.HARD


_TRANSIENT = Classification(ResponseKind.TRANSIENT, ErrorClass.TEMPORARY)
_FORBIDDEN = Classification(ResponseKind.FORBIDDEN)
_EXCLUDED = Classification(ResponseKind.EXCLUDED)
_PERMANENT = Classification(ResponseKind.PERMANENT)
_SOFT = Classification(ResponseKind.PERMANENT, ErrorClass.SOFT)

_STATUSES: dict[int, Classification] = {
    **dict.fromkeys((200, 203), Classification(ResponseKind.OK)),
    304: Classification(ResponseKind.UNCHANGED, ErrorClass.SOFT),
    **dict.fromkeys((401, 402, 403, 451), _FORBIDDEN),
    404: Classification(ResponseKind.MISSING),
    410: Classification(ResponseKind.GONE),
    **dict.fromkeys((408, 425, 429, 502, 503, 504), _TRANSIENT),
}
_DETAILS: dict[FailDetail, Classification] = {
    FailDetail.CONNECT: _TRANSIENT,
    FailDetail.DNS: Classification(ResponseKind.TRANSIENT, ErrorClass.SOFT),
    FailDetail.REFUSED: _TRANSIENT,
    FailDetail.RESET: _TRANSIENT,
    FailDetail.TRUNCATED: _TRANSIENT,
    # A parse child that was killed from outside, for example by the OOM killer, says nothing about the body.
    FailDetail.CRASH: _TRANSIENT,
    FailDetail.TLS: _SOFT,
    FailDetail.PROTOCOL: _SOFT,
    FailDetail.TOO_LARGE: _EXCLUDED,
    FailDetail.TYPE: _EXCLUDED,
    FailDetail.BLOCKED: _EXCLUDED,
    FailDetail.URL: _EXCLUDED,
    FailDetail.ROBOTS: _EXCLUDED,
    FailDetail.REDIRECTS: _PERMANENT,
    # The same bytes would hit the same limit again.
    FailDetail.CPU: _SOFT,
    FailDetail.MEMORY: _SOFT,
}
_UNREACHED = {FailDetail.CONNECT, FailDetail.DNS, FailDetail.REFUSED}


def status(status: int) -> Classification:
    """Classify an HTTP status; sources without HTTP use the same numbers."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return Classification(ResponseKind.TRANSIENT, ErrorClass.SOFT)
    return _PERMANENT if status >= 400 else _SOFT


def failure(failed: Failed) -> Classification:
    """Classify a failure."""
    if failed.detail is FailDetail.STATUS:
        return status(failed.http_status)
    if failed.code is FailCode.TIMEOUT:
        return _TRANSIENT
    return _DETAILS.get(failed.detail, _SOFT)


def is_transient(failed: Failed) -> bool:
    """Return whether the same request may work later."""
    return failure(failed).kind is ResponseKind.TRANSIENT


def is_unreached(failed: Failed) -> bool:
    """Return whether the host was never reached. If most hosts are like that, it is our own network."""
    return failed.detail in _UNREACHED
