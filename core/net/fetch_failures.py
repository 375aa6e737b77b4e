"""Turn the exceptions of a fetch into `Failed` values.

What a failure means for an item or a feed is in `core.registry.http_status_meanings`.
Sentences are fixed: no URL, no header and no body of the other side gets into a log through them.
"""

from __future__ import annotations

import errno
import ssl
from dataclasses import replace

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from core.errors import CutShort, Damaged, FailCode, FailDetail
from core.models import Failed
from core.net.address_guard import AddressBlocked
from core.pages.documents.unpack import NOT_PACKED_SO, TOO_LARGE, TRUNCATED


class BodyTooLarge(Exception):
    """The decompressed body is larger than allowed."""


EXPECTED = (aiohttp.ClientError, HttpProcessingError, BodyTooLarge, CutShort, Damaged, OSError, ValueError)
"""What `from_exception` knows (`TimeoutError` and `ssl.SSLError` are `OSError`s); anything else is a bug of ours."""

_BLOCKED = Failed(FailCode.HTTP, FailDetail.BLOCKED, "The address is not public.")
_DNS = Failed(FailCode.HTTP, FailDetail.DNS, "The host name does not resolve (DNS).")
_PROTOCOL = Failed(FailCode.HTTP, FailDetail.PROTOCOL, "The answer is not valid HTTP.")
_REFUSED = Failed(FailCode.HTTP, FailDetail.REFUSED, "The host does not accept connections.")
_RESET = Failed(FailCode.HTTP, FailDetail.RESET, "The connection broke off.")
_UNREACHED = Failed(FailCode.TIMEOUT, FailDetail.CONNECT, "The host does not answer at all.")
_TIMEOUT = Failed(FailCode.TIMEOUT, FailDetail.NONE, "The answer took too long.")
_TLS = Failed(FailCode.HTTP, FailDetail.TLS, "The encrypted connection could not be set up.")
_URL = Failed(FailCode.HTTP, FailDetail.URL, "The URL cannot be used.")

# The first match wins, so the narrow ones stand above their parents.
_FAILURES: tuple[tuple[type[BaseException], Failed], ...] = (
    (AddressBlocked, _BLOCKED),
    (BodyTooLarge, TOO_LARGE),
    (CutShort, TRUNCATED),
    (Damaged, NOT_PACKED_SO),
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


def from_exception(error: BaseException, *, blocked: bool = False, http_status: int = 0) -> Failed:
    """Return the failure that this exception means. `blocked`: the guard refused an address while connecting."""
    failed = next(failed for kind, failed in _FAILURES if isinstance(error, kind))
    if isinstance(error, aiohttp.ClientConnectorError):
        # With several addresses the library folds what happened into one plain OSError.
        if blocked or isinstance(error.os_error, AddressBlocked):
            failed = _BLOCKED
        elif error.os_error.errno == errno.ETIMEDOUT:
            failed = _UNREACHED
    return replace(failed, http_status=http_status)
