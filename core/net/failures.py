"""Every exception a fetch can meet, as data. The one place that knows; `tests/test_failures.py` walks the table.

Sentences are fixed: no URL, no header and no body of the other side gets into a log through them.
"""

from __future__ import annotations

import errno
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from core.errors import CutShort, Damaged, FailCode, FailDetail
from core.models import Failed


class AddressBlocked(OSError):
    """The address behind this host must not be connected to."""

    def __init__(self, address: str, port: int) -> None:
        # One errno for all of them: then happy eyeballs reports "all blocked" as this error.
        super().__init__(errno.EACCES, f"{address} port {port} is not public; see FETCH_ALLOWED_HOSTS")


class BodyTooLarge(Exception):
    """The decompressed body passed its cap."""


EXPECTED = (aiohttp.ClientError, HttpProcessingError, BodyTooLarge, CutShort, Damaged, OSError, ValueError)
"""What `of` understands (`TimeoutError` and `ssl.SSLError` are `OSError`s); anything else is a bug of ours."""

_Family = tuple[FailCode, FailDetail, str]
_BLOCKED: _Family = (FailCode.HTTP, FailDetail.BLOCKED, "The address is not public.")
_DNS: _Family = (FailCode.HTTP, FailDetail.DNS, "The host name does not resolve (DNS).")
_PROTOCOL: _Family = (FailCode.HTTP, FailDetail.PROTOCOL, "The answer is not valid HTTP.")
_REFUSED: _Family = (FailCode.HTTP, FailDetail.REFUSED, "The host does not accept connections.")
_RESET: _Family = (FailCode.HTTP, FailDetail.RESET, "The connection broke off.")
_UNREACHED: _Family = (FailCode.TIMEOUT, FailDetail.CONNECT, "The host does not answer at all.")
_TIMEOUT: _Family = (FailCode.TIMEOUT, FailDetail.NONE, "The answer took too long.")
_TLS: _Family = (FailCode.HTTP, FailDetail.TLS, "The encrypted connection could not be set up.")
_TOO_LARGE: _Family = (FailCode.HTTP, FailDetail.TOO_LARGE, "The answer is too large.")
_TRUNCATED: _Family = (FailCode.HTTP, FailDetail.TRUNCATED, "The compressed answer broke off before its end.")
_PACKING: _Family = (FailCode.HTTP, FailDetail.PROTOCOL, "The answer is not compressed the way it says.")
_URL: _Family = (FailCode.HTTP, FailDetail.URL, "The URL cannot be used.")

# The first match wins, so the narrow ones stand above their parents.
_FAMILIES: tuple[tuple[type[BaseException], _Family], ...] = (
    (AddressBlocked, _BLOCKED),
    (BodyTooLarge, _TOO_LARGE),
    (CutShort, _TRUNCATED),
    (Damaged, _PACKING),
    (aiohttp.ConnectionTimeoutError, _UNREACHED),
    (TimeoutError, _TIMEOUT),
    (aiohttp.ClientConnectorDNSError, _DNS),
    (aiohttp.ClientSSLError, _TLS),
    (ssl.SSLError, _TLS),
    (aiohttp.ServerFingerprintMismatch, _TLS),
    (aiohttp.ClientHttpProxyError, _REFUSED),
    (aiohttp.ClientConnectorError, _REFUSED),
    (aiohttp.ClientConnectionError, _RESET),
    (aiohttp.ClientPayloadError, _RESET),
    (aiohttp.InvalidURL, _URL),
    (aiohttp.NonHttpUrlClientError, _URL),
    (aiohttp.ClientError, _PROTOCOL),
    (HttpProcessingError, _PROTOCOL),
    (UnicodeError, _DNS),  # `a..b` and labels over 63 characters, refused on the way to getaddrinfo
    (ValueError, _PROTOCOL),
    (OSError, _RESET),
)


def of(error: BaseException, *, blocked: bool = False, http_status: int = 0) -> Failed:
    """The failure that this exception means. `blocked`: an address was refused while connecting."""
    code, detail, text = _family(error, blocked)
    return Failed(code, detail, text, http_status)


def refusal(detail: FailDetail, text: str, http_status: int = 0) -> Failed:
    """A failure that we decide on ourselves."""
    return Failed(FailCode.HTTP, detail, text, http_status)


def _family(error: BaseException, blocked: bool) -> _Family:
    if isinstance(error, aiohttp.ClientConnectorError):
        # With several addresses the library folds what happened into one plain OSError.
        if blocked or isinstance(error.os_error, AddressBlocked):
            return _BLOCKED
        if error.os_error.errno == errno.ETIMEDOUT:
            return _UNREACHED
    return next(family for kind, family in _FAMILIES if isinstance(error, kind))
