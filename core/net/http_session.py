"""One request: the session, its limits, and the body, counted while it is decompressed.

Knows nothing of redirects, robots or politeness; `fetcher.py` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Self

from core.net import late_certificates  # noqa: F401 - before aiohttp

# isort: split
import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from core.errors import CutShort
from core.models import Deferred, Failed
from core.net import fetch_failures
from core.net.address_guard import Guard, Target
from core.net.connector import PooledResolver, Proxy, open_connector
from core.net.direct_client import DirectClient
from core.pages.documents.decompress import decompressor_for
from core.settings import Settings
from core.value_class import value_class

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 10.0
"""After so long without data the other side has gone. The total timeout also ends a body that drips."""
ERROR_BODY_BYTES = 65_536
"""Of an error page the beginning is kept, for people."""
_CHUNK_BYTES = 65_536
_COMPRESSION_OVERHEAD_BYTES = 65_536
"""What compression may add to a body that cannot be made smaller."""
_ACCEPT_ENCODING = "gzip, deflate, br"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BODILESS = frozenset({204, 304})
# A repeated header is one list by RFC 9110 §5.3; of all others the first one counts, as in browsers.
_LISTS = frozenset({"cache-control", "content-encoding", "link", "vary"})


@value_class
class HttpResponse:
    """The response to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    packing: str = ""
    """The content coding in which the body still is."""

    @property
    def location(self) -> str:
        """Where a redirect leads; empty for any other response."""
        return self.headers.get("location", "") if self.status in _REDIRECTS else ""


@value_class
class RequestLimits:
    """How much time and memory one request may take."""

    seconds: float
    body_bytes: int
    cut: bool = False
    """Keep the beginning of a body that is too large, instead of failing."""
    discard: bool = False
    """The status is all that is wanted: the body is read to its end or its limit, and whatever is wrong with it."""
    keep_packed: bool = False
    """The body of a good answer stays compressed; only its compressed length is limited here."""


class HttpSession:
    """Sends requests through the guard. An async context manager: it owns the connections."""

    def __init__(self, settings: Settings, guard: Guard, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._resolver = resolver or PooledResolver()
        self._proxy_url = settings.fetch_proxy_url
        self._proxy = Proxy(settings.fetch_proxy_url is not None)
        self._headers = {"User-Agent": settings.user_agent, "Accept": "*/*", "Accept-Encoding": _ACCEPT_ENCODING}
        self._session: aiohttp.ClientSession | None = None
        self._direct: DirectClient | None = None

    async def __aenter__(self) -> Self:
        connector = open_connector(self._guard.open_socket, self._resolver)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,  # the library hands out half a body as if it were whole
            proxy=self._proxy_url.get_secret_value() if self._proxy_url else None,
        )
        if not self._proxy_url:
            self._direct = DirectClient(connector, self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    async def send(
        self,
        target: Target,
        headers: Mapping[str, str],
        limits: RequestLimits,
        method: str = "GET",
        body: bytes | None = None,
    ) -> HttpResponse | Failed | Deferred:
        """Send one request. Expected errors are returned as `Failed`, those of our own proxy as `Deferred`."""
        if self._proxy.pause:
            return self._proxy.pause
        with self._guard.connecting_to(target) as attempt:
            try:
                response = await self._send(target, headers, limits, method, body)
            except fetch_failures.EXPECTED as error:
                failed = fetch_failures.from_exception(error, blocked=attempt.blocked)
                return self._proxy.check_error(error, failed, target.url) or failed
        status = response.status if isinstance(response, HttpResponse) else response.http_status
        return self._proxy.check_status(status) or response

    async def _send(
        self, target: Target, headers: Mapping[str, str], limits: RequestLimits, method: str, body: bytes | None
    ) -> HttpResponse | Failed:
        assert self._session is not None, "use `async with`"
        timeout, receive = self._timeout(limits.seconds), partial(_receive, method, limits)
        if self._direct:
            return await self._direct.exchange(method, target, headers, body, timeout, receive)
        # encoded=True: what we ask for is the clean URL byte for byte, not a second opinion on its escapes.
        url = URL(target.url, encoded=True)
        request = self._session.request(method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False)
        async with request as response:
            return await receive(response.status, response.headers, response.content)

    @staticmethod
    @lru_cache(maxsize=64)
    def _timeout(seconds: float) -> aiohttp.ClientTimeout:
        """Made once per limit, which is nearly always the setting's: one of these costs more than a small response."""
        return aiohttp.ClientTimeout(
            total=seconds, sock_connect=min(CONNECT_SECONDS, seconds), sock_read=min(IDLE_SECONDS, seconds)
        )


async def _receive(
    method: str, limits: RequestLimits, status: int, headers: Mapping[str, str], content: aiohttp.StreamReader
) -> HttpResponse | Failed:
    head = HttpResponse(status, _plain_headers(headers))
    # The length that a response to HEAD states is of a body that does not come: no limit applies to it.
    if head.location or status in _BODILESS or method == "HEAD":
        return head
    if limits.discard:
        await _drain(content, limits)
        return head
    return await _with_body(content, head, limits)


async def _drain(content: aiohttp.StreamReader, limits: RequestLimits) -> None:
    """Read the body away, so that the connection can be used again; one that is too large or broken is closed."""
    with contextlib.suppress(*fetch_failures.EXPECTED):
        bytes_left = limits.body_bytes
        async for chunk in content.iter_chunked(_CHUNK_BYTES):
            bytes_left -= len(chunk)
            if bytes_left < 0:
                return


async def _with_body(content: aiohttp.StreamReader, head: HttpResponse, limits: RequestLimits) -> HttpResponse | Failed:
    body = bytearray()
    if head.status >= 400:
        limits = RequestLimits(limits.seconds, min(limits.body_bytes, ERROR_BODY_BYTES), cut=True)
    packing = ""
    try:
        packing = await _read(content, head, body, limits)
    except fetch_failures.EXPECTED as error:
        # The status of an error is the news; that its page is damaged or slow changes nothing.
        if head.status < 400:
            return fetch_failures.from_exception(error, http_status=head.status)
    return HttpResponse(head.status, head.headers, bytes(body), packing)


async def _read(content: aiohttp.StreamReader, head: HttpResponse, body: bytearray, limits: RequestLimits) -> str:
    """Fill `body` up to the cap and return the coding in which it still is. Never all at once: gzip can be a bomb.

    Raises `CutShort` when a compressed body ends before its end, whatever its framing says.
    """
    coding = head.headers.get("content-encoding", "")
    decompressor = decompressor_for(coding)
    bytes_left = limits.body_bytes + (_COMPRESSION_OVERHEAD_BYTES if decompressor else 0)
    stated = head.headers.get("content-length")
    if stated is not None and int(stated) > bytes_left and not limits.cut:
        raise fetch_failures.BodyTooLarge
    if decompressor and limits.keep_packed and head.status == 200:
        await _read_packed(content, body, bytes_left)
        return coding
    async for chunk in content.iter_chunked(_CHUNK_BYTES):
        bytes_left -= len(chunk)
        for piece in decompressor.feed(chunk) if decompressor else (chunk,):
            body += piece
            if len(body) > limits.body_bytes:
                del body[limits.body_bytes :]
                if limits.cut:
                    return ""
                raise fetch_failures.BodyTooLarge
        if bytes_left < 0:
            raise fetch_failures.BodyTooLarge  # packed data that unpacks to nothing, without end
    if decompressor and not decompressor.is_complete:
        raise CutShort
    return ""


async def _read_packed(content: aiohttp.StreamReader, body: bytearray, most_bytes: int) -> None:
    async for chunk in content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > most_bytes:
            raise fetch_failures.BodyTooLarge


def _plain_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return names in lower case, no cookies, values that every store can hold."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if key not in plain:
            plain[key] = _text(value)
        elif key in _LISTS:
            plain[key] += f", {_text(value)}"
    plain.pop("set-cookie", None)
    return plain


def _text(value: str) -> str:
    """aiohttp marks bytes that are no UTF-8 with lone surrogates, which nobody can encode: read them as Latin-1."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("latin-1")
    return value
