"""One request: the session, its limits, and the body that is counted while it inflates.

Knows nothing of redirects, robots or politeness; `fetcher.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from core.documents.decompress import Decompressor, decompressor_for
from core.errors import CutShort
from core.models import Deferred, Failed
from core.net import failures
from core.net.guard import Guard, Target
from core.net.proxy import Proxy
from core.net.resolver import PooledResolver
from core.settings import Settings

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 10.0
"""Nothing read for so long: the other side has gone. The total comes on top and ends a body that drips."""
ERROR_BODY_BYTES = 65_536
"""Of an error page we keep the beginning, for people."""
_CHUNK_BYTES = 65_536
_PACKING_BYTES = 65_536
"""What packing may add to a body that cannot be made smaller."""
_ACCEPT_ENCODING = "gzip, deflate, br"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BODILESS = frozenset({204, 304})
# A repeated header is one list by RFC 9110 §5.3; of all others the first one counts, as in browsers.
_LISTS = frozenset({"cache-control", "content-encoding", "link", "vary"})


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What one request gave."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def location(self) -> str:
        """Where a redirect leads; empty for any other answer."""
        return self.headers.get("location", "") if self.status in _REDIRECTS else ""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request may take."""

    seconds: float
    body_bytes: int
    cut: bool = False
    """Keep the beginning of a body that is too large, instead of failing."""


class HttpSession:
    """Sends requests through the guard. An async context manager: it owns the connections."""

    def __init__(self, settings: Settings, guard: Guard, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._resolver = resolver or PooledResolver()
        self._proxy_url = settings.fetch_proxy_url
        self._proxy = Proxy(settings.fetch_proxy_url is not None)
        self._headers = {"User-Agent": settings.user_agent, "Accept": "*/*", "Accept-Encoding": _ACCEPT_ENCODING}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=self._guard.connector(self._resolver),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,  # the library hands out half a body as if it were whole
            proxy=self._proxy_url.get_secret_value() if self._proxy_url else None,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    async def ask(
        self, target: Target, headers: Mapping[str, str], limits: RequestLimits, method: str = "GET"
    ) -> HttpResponse | Failed | Deferred:
        """Ask once. Every expected trouble comes back as `Failed`, and trouble with our own proxy as `Deferred`."""
        if self._proxy.pause:
            return self._proxy.pause
        with self._guard.passage(target) as passage:
            try:
                answer = await self._ask(target, headers, limits, method)
            except failures.EXPECTED as error:
                failed = failures.of(error, blocked=passage.blocked)
                return self._proxy.blamed_for(error, failed, target.url) or failed
        status = answer.status if isinstance(answer, HttpResponse) else answer.http_status
        return self._proxy.blamed_for_status(status) or answer

    async def _ask(
        self, target: Target, headers: Mapping[str, str], limits: RequestLimits, method: str
    ) -> HttpResponse | Failed:
        assert self._session is not None, "use `async with`"
        timeout = self._timeout(limits.seconds)
        # encoded=True: what we ask for is the clean URL byte for byte, not a second opinion on its escapes.
        url = URL(target.url, encoded=True)
        asking = self._session.request(method, url, headers=headers, timeout=timeout, allow_redirects=False)
        async with asking as response:
            found = HttpResponse(response.status, _plain(response.headers))
            # The length that an answer to HEAD states is of a body that does not come: no cap applies to it.
            if found.location or found.status in _BODILESS or method == "HEAD":
                return found
            return await _with_body(response, found, limits)

    @staticmethod
    @lru_cache(maxsize=64)
    def _timeout(seconds: float) -> aiohttp.ClientTimeout:
        """Made once per limit, which is nearly always the setting's: one of these costs more than a small answer."""
        return aiohttp.ClientTimeout(
            total=seconds, sock_connect=min(CONNECT_SECONDS, seconds), sock_read=min(IDLE_SECONDS, seconds)
        )


async def _with_body(
    response: aiohttp.ClientResponse, found: HttpResponse, limits: RequestLimits
) -> HttpResponse | Failed:
    body = bytearray()
    if found.status >= 400:
        limits = RequestLimits(limits.seconds, min(limits.body_bytes, ERROR_BODY_BYTES), cut=True)
    try:
        await _read(response, body, decompressor_for(found.headers.get("content-encoding", "")), limits)
    except failures.EXPECTED as error:
        # The status of an error is the news; that its page is damaged or slow changes nothing.
        if found.status < 400:
            return failures.of(error, http_status=found.status)
    return HttpResponse(found.status, found.headers, bytes(body))


async def _read(
    response: aiohttp.ClientResponse, body: bytearray, unpacking: Decompressor | None, limits: RequestLimits
) -> None:
    """Fill `body` up to the cap. Never `response.read()`: a megabyte of gzip can hold a gigabyte.

    Raises `CutShort` when a compressed body ends before its end, whatever its framing says.
    """
    room = limits.body_bytes + (_PACKING_BYTES if unpacking else 0)
    stated = response.content_length
    if stated is not None and stated > room and not limits.cut:
        raise failures.BodyTooLarge
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        room -= len(chunk)
        for piece in unpacking.feed(chunk) if unpacking else (chunk,):
            body += piece
            if len(body) > limits.body_bytes:
                del body[limits.body_bytes :]
                if limits.cut:
                    return
                raise failures.BodyTooLarge
        if room < 0:
            raise failures.BodyTooLarge  # packed data that unpacks to nothing, without end
    if unpacking and not unpacking.is_complete:
        raise CutShort


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Names in lower case, no cookies, values that every store can hold."""
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
