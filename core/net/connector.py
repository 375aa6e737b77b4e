"""aiohttp's connector with guarded sockets, DNS in threads of our own, and an end to wasteful framing.

Failures of our own proxy are told apart from failures of the hosts behind it. A proxy that is down, misnamed or wants a
password fails every request alike. That is ours to mend: nothing is counted against any link, feed or page, and
everything waits until it works.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage

from core.errors import FailDetail
from core.models import Deferred, Failed

log = logging.getLogger("net")

PROXY_WAIT_SECONDS = 60.0
PROXY_PAUSE_SECONDS = 5.0
"""For so long after a failure the proxy is not asked at all: else each of a thousand pages would wait for it."""
_LOGIN_STATUS = 407
_LOGIN_ERROR = "it wants a name and a password (407)"
_HTTP_ERROR = "it does not speak HTTP"
_DNS_CACHE_SECONDS = 60
"""Longer than aiohttp's ten: a stale answer is harmless, since the address of every connection is checked again."""
_DNS_THREADS = 32
_FREE_BYTES = 1_000_000
"""Headers, trailers and interim responses of any honest server fit in here many times."""
_BYTES_PER_BODY_BYTE = 2
_STATUS_OF_TARGET = frozenset({403, 429, 451, 500, 502, 503, 504})
"""What proxies answer about the host that was asked for; any other refusal of a tunnel is about ourselves."""


def open_connector(
    open_socket: Callable[[tuple[Any, ...]], socket.socket], resolver: AbstractResolver
) -> aiohttp.TCPConnector:
    """Return a connector that opens every socket by `open_socket`. Its own limit is off: the fetcher has one."""
    connector = _ProxyAwareConnector(
        socket_factory=open_socket, resolver=resolver, limit=0, ttl_dns_cache=_DNS_CACHE_SECONDS
    )
    # aiohttp has no public way to choose the protocol class; `test_hostile_http` notices if this one closes.
    factory = partial(LimitedResponseHandler, loop=asyncio.get_running_loop())
    connector._factory = cast(partial[ResponseHandler], factory)
    return connector


class ProxyError(aiohttp.ClientConnectionError):
    """The proxy itself failed; the text says how."""


class _ProxyAwareConnector(aiohttp.TCPConnector):
    """Raises `ProxyError` when the proxy itself fails; the library uses the same errors for the hosts behind it.

    There is no public way to know; `test_proxy` notices if this one closes.
    """

    async def _create_direct_connection(self, *args: Any, **options: Any) -> Any:
        try:
            return await super()._create_direct_connection(*args, **options)
        except (aiohttp.ClientError, OSError) as error:
            if options.get("client_error") is aiohttp.ClientProxyConnectionError:
                raise ProxyError("it cannot be reached") from error
            raise

    async def _create_proxy_connection(self, *args: Any, **options: Any) -> Any:
        try:
            return await super()._create_proxy_connection(*args, **options)
        except aiohttp.ClientHttpProxyError as error:
            if error.status in _STATUS_OF_TARGET:
                raise
            is_login = error.status == _LOGIN_STATUS
            raise ProxyError(_LOGIN_ERROR if is_login else "it makes no connections to hosts") from error
        except aiohttp.ClientResponseError as error:
            raise ProxyError(_HTTP_ERROR) from error


class Proxy:
    """Remembers whether our proxy works. Without one, no failure is ever its."""

    def __init__(self, is_used: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_used = is_used
        self._clock = clock
        self._paused_until = 0.0
        self._reason = ""

    @property
    def pause(self) -> Deferred | None:
        """The wait after a recent failure."""
        return Deferred(PROXY_WAIT_SECONDS, self._reason) if self._clock() < self._paused_until else None

    def check_status(self, status: int) -> Deferred | None:
        """Return a wait for a status that only a proxy gives; any other proves that the proxy works."""
        if self._is_used and status == _LOGIN_STATUS:
            return self._failed(_LOGIN_ERROR)
        self._reason = ""
        return None

    def check_error(self, error: BaseException, failed: Failed, url: str) -> Deferred | None:
        """Return a wait if this error is the proxy's; `failed` is what it would mean without one."""
        if isinstance(error, ProxyError):
            return self._failed(str(error))
        # A proxy reads the response of an unencrypted host before it hands it on; what is no HTTP is its own.
        is_its_own = self._is_used and url.startswith("http://") and failed.detail is FailDetail.PROTOCOL
        return self._failed(_HTTP_ERROR) if is_its_own else None

    def _failed(self, problem: str) -> Deferred:
        reason = f"the proxy of FETCH_PROXY_URL is of no use: {problem}"
        if reason != self._reason:
            log.error("⚠️ T%s. Nothing is counted against anybody; all requests wait.", reason[1:])
        self._reason, self._paused_until = reason, self._clock() + PROXY_PAUSE_SECONDS
        return Deferred(PROXY_WAIT_SECONDS, reason)


class LimitedResponseHandler(ResponseHandler):
    """Ends a response that is late, or nearly all framing: endless interim responses, chunks of one byte.

    The body is limited elsewhere; between that and the time, such a response burns a whole CPU until the timeout
    (measured: 15 s of CPU in 15 s), and everybody else waits.
    """

    _received = 0
    _idle_since: float | None = None
    _deadline = math.inf

    def expect_until(self, deadline: float) -> None:
        """End the response at this time of the loop's clock, however it flows; infinity: there is no response."""
        self._deadline = deadline
        self._ring_by(deadline)

    # ── the library's read timeout, and the deadline, by one timer that is mostly never moved ──
    # aiohttp makes and cancels a timer for every request and every piece of a response. This one looks at the clock
    # when it rings, and goes on if something came meanwhile.

    def _drop_timeout(self) -> None:
        self._idle_since = None

    def _reschedule_timeout(self) -> None:
        if self._read_timeout:
            self._idle_since = self._loop.time()
            self._ring_by(self._idle_since + self._read_timeout)

    def _ring_by(self, until: float) -> None:
        handle = self._read_timeout_handle
        if until == math.inf or (handle is not None and handle.when() <= until):
            return
        if handle is not None:
            handle.cancel()
        self._read_timeout_handle = self._loop.call_at(until, self._ring)

    def _ring(self) -> None:
        self._read_timeout_handle = None
        idle_at = math.inf if self._idle_since is None else self._idle_since + (self._read_timeout or math.inf)
        until = min(idle_at, self._deadline)
        if until <= self._loop.time():
            self._on_read_timeout()
        else:
            self._ring_by(until)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer, which would keep this object in memory."""
        if self._read_timeout_handle is not None:
            self._read_timeout_handle.cancel()
            self._read_timeout_handle = None
        super().connection_lost(exc)

    # ── the limit ──

    def set_response_params(self, **params: Any) -> None:
        """Reset the count for the next request on this connection."""
        self._received = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Hand the bytes on, or end the response."""
        self._received += len(data)
        body = self._payload.total_bytes if self._payload is not None else 0
        if self._received <= _FREE_BYTES + _BYTES_PER_BODY_BYTE * body:
            super().data_received(data)
            return
        error = BadHttpMessage("more framing than content")
        self.set_exception(error)
        if self._payload is not None:
            self._payload.set_exception(error)
        if self.transport is not None:
            self.transport.abort()


class PooledResolver(AbstractResolver):
    """getaddrinfo in threads of our own.

    asyncio's default pool has a handful of threads on a small machine: a few domains whose servers do not answer
    would fill it, and every healthy feed behind them would look slow.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_DNS_THREADS, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return all addresses of the host; OSError if there is none."""
        addresses = await asyncio.get_running_loop().run_in_executor(
            self._pool, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
        )
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol, flags=flags)
            for kind, _, protocol, _, address in addresses
        ]

    async def close(self) -> None:
        """Release the threads; a lookup that still hangs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
