"""Connections of `requests` that check the address where the socket is made, as every other fetch of Freshet does.

A name that resolves to another address the second time gains nothing: what is checked is what is connected to.
"""

from __future__ import annotations

import functools
import os
import socket
import ssl
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from core.net.address_guard import AddressBlocked, Guard, Target
from core.sources.sharepoint.remote_items import SharePointUnavailable


class GuardedAdapter(HTTPAdapter):
    """Sends requests over checked connections; those to a proxy, which the operator chose, are not checked."""

    def __init__(self, guard: Guard, connections: int) -> None:
        self._guard = guard
        super().__init__(pool_connections=4, pool_maxsize=connections, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make pools of checked connections, which trust what the system trusts (and SSL_CERT_FILE)."""
        trusted = _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        super().init_poolmanager(*args, **kwargs, ssl_context=trusted)
        self.poolmanager.pool_classes_by_scheme = _pool_classes(self._guard)


@functools.cache
def _trusted(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """Return what trusts the system's authorities, once per process: reading them takes 25 ms of CPU.

    OpenSSL itself reads the two variables; here they only tell one trust from another.
    """
    return ssl.create_default_context()


def _pool_classes(guard: Guard) -> dict[str, Any]:
    class CheckedConnection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(guard, self)

    class CheckedTlsConnection(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(guard, self)

    class CheckedPool(HTTPConnectionPool):
        ConnectionCls = CheckedConnection

    class CheckedTlsPool(HTTPSConnectionPool):
        ConnectionCls = CheckedTlsConnection

    return {"http": CheckedPool, "https": CheckedTlsPool}


def _connect(guard: Guard, connection: HTTPConnection) -> socket.socket:
    """Return a socket to the first address that the guard allows and that answers."""
    host = connection.host.strip("[]")
    target = Target("", host, connection.port, "")
    try:
        addresses = socket.getaddrinfo(host, connection.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        if isinstance(error, UnicodeError):
            raise NewConnectionError(connection, "is not a host name") from error
        raise NameResolutionError(host, connection, error) from error
    problem: OSError | None = None
    with guard.connecting_to(target):
        for address in addresses:
            try:
                return _open(guard, address, connection)
            except OSError as error:
                # A refused address explains less than one that was tried.
                problem = problem if isinstance(error, AddressBlocked) and problem else error
    if isinstance(problem, AddressBlocked):
        raise SharePointUnavailable(
            f"{host} is not in the public internet. If it is yours, name it in FETCH_ALLOWED_HOSTS."
        )
    if isinstance(problem, TimeoutError):
        raise ConnectTimeoutError(connection, "timed out") from problem
    raise NewConnectionError(connection, str(problem)) from problem


def _open(guard: Guard, address: tuple[Any, ...], connection: HTTPConnection) -> socket.socket:
    opened = guard.open_socket(address)
    try:
        for option in connection.socket_options or ():
            opened.setsockopt(*option)
        opened.settimeout(connection.timeout)
        opened.connect(address[4])
    except BaseException:
        opened.close()
        raise
    return opened
