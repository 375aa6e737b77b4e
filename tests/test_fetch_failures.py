"""Every exception a fetch can meet has a name for people and schedules."""

from __future__ import annotations

import errno
import inspect
import ssl
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions, http_exceptions
from aiohttp.client_reqrep import ConnectionKey

from core.errors import CutShort, Damaged, FailCode, FailDetail
from core.net import fetch_failures
from core.net.address_guard import AddressBlocked

KEY = ConnectionKey("secret-host.example", 80, False, True, None, None, None)
INFO: Any = SimpleNamespace(real_url="http://u:p@secret-host.example/?token=x")


def os_error(number: int) -> OSError:
    return OSError(number, "secret")


TABLE = [
    (AddressBlocked("10.0.0.1", 80), FailCode.HTTP, FailDetail.BLOCKED),
    (fetch_failures.BodyTooLarge(), FailCode.HTTP, FailDetail.TOO_LARGE),
    (TimeoutError(), FailCode.TIMEOUT, FailDetail.NONE),
    (aiohttp.ServerTimeoutError(), FailCode.TIMEOUT, FailDetail.NONE),
    (aiohttp.ConnectionTimeoutError(), FailCode.TIMEOUT, FailDetail.CONNECT),
    (aiohttp.SocketTimeoutError(), FailCode.TIMEOUT, FailDetail.NONE),
    (aiohttp.ClientConnectorDNSError(KEY, os_error(-2)), FailCode.HTTP, FailDetail.DNS),
    (UnicodeError("label empty or too long"), FailCode.HTTP, FailDetail.DNS),
    (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "x")), FailCode.HTTP, FailDetail.TLS),
    (aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError("x")), FailCode.HTTP, FailDetail.TLS),
    (aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 1), FailCode.HTTP, FailDetail.TLS),
    (ssl.SSLError(1, "x"), FailCode.HTTP, FailDetail.TLS),
    (aiohttp.ClientConnectorError(KEY, os_error(errno.ECONNREFUSED)), FailCode.HTTP, FailDetail.REFUSED),
    (aiohttp.ClientConnectorError(KEY, os_error(errno.EHOSTUNREACH)), FailCode.HTTP, FailDetail.REFUSED),
    (aiohttp.ClientConnectorError(KEY, os_error(errno.ETIMEDOUT)), FailCode.TIMEOUT, FailDetail.CONNECT),
    (aiohttp.ClientConnectorError(KEY, AddressBlocked("::1", 1)), FailCode.HTTP, FailDetail.BLOCKED),
    (aiohttp.ClientProxyConnectionError(KEY, os_error(errno.ECONNREFUSED)), FailCode.HTTP, FailDetail.REFUSED),
    (aiohttp.ClientHttpProxyError(INFO, ()), FailCode.HTTP, FailDetail.REFUSED),
    (aiohttp.ClientOSError(errno.ECONNRESET, "x"), FailCode.HTTP, FailDetail.RESET),
    (aiohttp.ClientConnectionResetError("x"), FailCode.HTTP, FailDetail.RESET),
    (aiohttp.ServerDisconnectedError(), FailCode.HTTP, FailDetail.RESET),
    (aiohttp.ClientPayloadError("Response payload is not completed"), FailCode.HTTP, FailDetail.RESET),
    (CutShort(), FailCode.HTTP, FailDetail.TRUNCATED),
    (Damaged(), FailCode.HTTP, FailDetail.PROTOCOL),
    (ConnectionResetError(), FailCode.HTTP, FailDetail.RESET),
    (aiohttp.InvalidURL("http://u:p@h"), FailCode.HTTP, FailDetail.URL),
    (aiohttp.NonHttpUrlClientError("x://h"), FailCode.HTTP, FailDetail.URL),
    (aiohttp.ClientResponseError(INFO, (), message="secret"), FailCode.HTTP, FailDetail.PROTOCOL),
    (http_exceptions.BadStatusLine("secret"), FailCode.HTTP, FailDetail.PROTOCOL),
    (http_exceptions.LineTooLong(b"secret", 1), FailCode.HTTP, FailDetail.PROTOCOL),
    (ValueError("secret"), FailCode.HTTP, FailDetail.PROTOCOL),
]


@pytest.mark.parametrize(("error", "code", "detail"), TABLE, ids=lambda value: type(value).__name__)
def test_each_has_its_name(error: Exception, code: FailCode, detail: FailDetail) -> None:
    """The family and the detail are right, and the sentence tells no secret."""
    failed = fetch_failures.from_exception(error)

    assert isinstance(error, fetch_failures.EXPECTED)
    assert (failed.code, failed.detail) == (code, detail)
    assert failed.text.endswith(".")
    assert not any(word in failed.text for word in ("secret", "token", "u:p"))


def test_a_refused_address_among_several_counts_as_blocked() -> None:
    """Happy eyeballs folds several errors into one; what the guard saw decides."""
    folded = aiohttp.ClientConnectorError(KEY, OSError("Multiple exceptions: …"))

    assert fetch_failures.from_exception(folded, blocked=True).detail is FailDetail.BLOCKED
    assert fetch_failures.from_exception(aiohttp.ServerDisconnectedError(), blocked=True).detail is FailDetail.RESET


def test_no_exception_of_the_library_is_forgotten() -> None:
    """Whatever aiohttp's client can raise on purpose is expected."""
    raised = [
        kind
        for module in (client_exceptions, http_exceptions)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == module.__name__ and "WS" not in kind.__name__
    ]

    assert len(raised) > 30
    assert [kind for kind in raised if not issubclass(kind, fetch_failures.EXPECTED)] == []
