"""Send requests over aiohttp's connections, without its objects for requests, responses and sessions.

Pool, TLS, DNS, parser and read timeout are the library's. What is left out (cookies, redirects, tracing, middlewares,
uploads in pieces) costs a client more CPU than the rest of a small answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar, cast

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from yarl import URL

from core.net.address_guard import Target
from core.net.connector import LimitedResponseHandler

T = TypeVar("T")
Receive = Callable[[int, Mapping[str, str], aiohttp.StreamReader], Awaitable[T]]
"""Reads one response: status, headers, body."""

_MAX_REMEMBERED_ORIGINS = 4_096
_READ_BYTES = 65_536
_REPEATABLE = frozenset({"GET", "HEAD"})


class _Origin(NamedTuple):
    """What all requests to one origin have in common."""

    connecting: aiohttp.ClientRequest
    """Never sent: the connector learns from it where to connect."""
    key: ConnectionKey
    """Which idle connections will do; made anew by every read of `connecting.connection_key`."""
    host_line: str


class DirectClient:
    """Exchanges requests for responses. The connector is the caller's to close."""

    def __init__(self, connector: aiohttp.TCPConnector, headers: Mapping[str, str]) -> None:
        """`headers` go with every request, unless it has its own of that name."""
        self._connector = connector
        self._headers = headers
        self._header_lines = _lines(headers)
        self._header_names = frozenset(map(str.lower, headers))
        self._origins: dict[str, _Origin] = {}

    async def exchange(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
        receive: Receive[T],
    ) -> T:
        """Send one request and return what `receive` makes of the response; raises as aiohttp's session would."""
        origin = self._origin(target)
        head = self._head(method, target, origin, headers, body)
        is_repeatable = method in _REPEATABLE
        deadline = asyncio.get_running_loop().time() + (timeout.total or math.inf)
        while True:
            connection = await self._connect(origin, timeout, deadline)
            protocol = cast(LimitedResponseHandler, connection.protocol)
            try:
                protocol.expect_until(deadline)
                message, content = await _ask(protocol, head, timeout, is_head=method == "HEAD")
                break
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                connection.close()
                # An idle connection that the server has just closed: once more (RFC 9112 §9.3.1).
                if not is_repeatable:
                    raise
                is_repeatable = False
            except BaseException:
                connection.close()
                raise
        try:
            result = await receive(message.code, message.headers, content)
        except BaseException:
            connection.close()
            raise
        protocol.expect_until(math.inf)
        connection.release()  # and closes it, if the response was not read to its end
        return result

    async def _connect(self, origin: _Origin, timeout: aiohttp.ClientTimeout, deadline: float) -> Connection:
        # An idle connection is there at once: `connect` would look for one too, but under a timer that we then made.
        idle = await self._connector._get(origin.key, [])
        if idle is not None:
            return idle
        async with asyncio.timeout_at(deadline):
            try:
                return await self._connector.connect(origin.connecting, [], timeout)
            except TimeoutError as error:
                raise aiohttp.ConnectionTimeoutError from error

    def _origin(self, target: Target) -> _Origin:
        known = self._origins.get(target.origin)
        if known is None:
            if len(self._origins) >= _MAX_REMEMBERED_ORIGINS:
                self._origins.clear()
            connecting = aiohttp.ClientRequest("GET", URL(f"{target.origin}/", encoded=True))
            known = _Origin(connecting, connecting.connection_key, f"Host: {connecting.headers['Host']}\r\n")
            self._origins[target.origin] = known
        return known

    def _head(
        self, method: str, target: Target, origin: _Origin, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        # Byte for byte what the clean URL has, not a second opinion on its escapes.
        path = target.url[len(target.origin) :].partition("#")[0]
        common, own = self._header_lines, _lines(headers)
        if headers and not self._header_names.isdisjoint(map(str.lower, headers)):
            given = set(map(str.lower, headers))
            common = _lines({name: value for name, value in self._headers.items() if name.lower() not in given})
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{origin.host_line}{common}{own}{length}\r\n".encode()
        return head if body is None else head + body


def _lines(headers: Mapping[str, str]) -> str:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    # A line break in a value, such as a server's own ETag, would be a request of its own.
    if lines.count("\r") != len(headers) or lines.count("\n") != len(headers) or "\0" in lines:
        raise ValueError("a header has a line break in it")
    return lines


async def _ask(
    protocol: LimitedResponseHandler, request: bytes, timeout: aiohttp.ClientTimeout, *, is_head: bool
) -> tuple[aiohttp.http.RawResponseMessage, aiohttp.StreamReader]:
    """Write the request and wait for the head of the response; interim responses are skipped."""
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise aiohttp.ServerDisconnectedError
    protocol.set_response_params(
        skip_payload=is_head,
        read_until_eof=True,
        auto_decompress=False,  # the library hands out half a body as if it were whole
        read_timeout=timeout.sock_read,
        read_bufsize=_READ_BYTES,
    )
    transport.write(request)
    protocol.start_timeout()
    while True:
        message, content = await protocol.read()
        if not 100 <= message.code <= 199 or message.code == 101:
            return message, content
