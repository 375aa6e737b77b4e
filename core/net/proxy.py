"""Trouble with our own proxy, told apart from trouble with the hosts behind it.

A proxy that is down, misnamed or wants a password fails every request alike. That is ours to mend: nothing is counted
against any link, feed or page, and everything waits until it works.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from core.errors import FailDetail
from core.models import Deferred, Failed

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 5.0
"""For so long after a failure the proxy is not asked at all: else each of a thousand pages would wait for it."""
NEEDS_LOGIN = 407
_ABOUT_THE_HOST = frozenset({403, 429, 451, 500, 502, 503, 504})
"""What proxies answer about the host that was asked for; any other refusal of a tunnel is about ourselves."""
_LOGIN = "it wants a name and a password (407)"
_NO_HTTP = "it does not speak HTTP"
log = logging.getLogger("net")


class ProxyTrouble(aiohttp.ClientConnectionError):
    """The proxy itself is the trouble; the text says how."""


class ProxyConnector(aiohttp.TCPConnector):
    """Says whether a connection failed at the proxy or behind it; the library uses the same errors for both.

    There is no public way to know; `test_proxy` notices if this one closes.
    """

    async def _create_direct_connection(self, *args: Any, **options: Any) -> Any:
        try:
            return await super()._create_direct_connection(*args, **options)
        except (aiohttp.ClientError, OSError) as error:
            if options.get("client_error") is aiohttp.ClientProxyConnectionError:
                raise ProxyTrouble("it cannot be reached") from error
            raise

    async def _create_proxy_connection(self, *args: Any, **options: Any) -> Any:
        try:
            return await super()._create_proxy_connection(*args, **options)
        except aiohttp.ClientHttpProxyError as error:
            if error.status in _ABOUT_THE_HOST:
                raise
            wants = _LOGIN if error.status == NEEDS_LOGIN else "it makes no connections to hosts"
            raise ProxyTrouble(wants) from error
        except aiohttp.ClientResponseError as error:
            raise ProxyTrouble(_NO_HTTP) from error


class Proxy:
    """What we know of the state of our proxy. Without one, nothing is ever its fault."""

    def __init__(self, is_used: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_used = is_used
        self._clock = clock
        self._shut_until = 0.0
        self._reason = ""

    @property
    def pause(self) -> Deferred | None:
        """It failed a moment ago: wait."""
        return Deferred(WAIT_SECONDS, self._reason) if self._clock() < self._shut_until else None

    def blamed_for_status(self, status: int) -> Deferred | None:
        """Is this an answer that only a proxy gives? Any other proves that it works."""
        if self._is_used and status == NEEDS_LOGIN:
            return self._shut(_LOGIN)
        self._reason = ""
        return None

    def blamed_for(self, error: BaseException, failed: Failed, url: str) -> Deferred | None:
        """Is this error the proxy's? `failed` is what it would mean without one."""
        if isinstance(error, ProxyTrouble):
            return self._shut(str(error))
        # A proxy reads the answer of an unencrypted host before it hands it on; what is no HTTP comes from itself.
        is_its_own = self._is_used and url.startswith("http://") and failed.detail is FailDetail.PROTOCOL
        return self._shut(_NO_HTTP) if is_its_own else None

    def _shut(self, what: str) -> Deferred:
        reason = f"the proxy of FETCH_PROXY_URL is of no use: {what}"
        if reason != self._reason:
            log.error("⚠️ T%s. Nothing is counted against anybody; all requests wait.", reason[1:])
        self._reason, self._shut_until = reason, self._clock() + PAUSE_SECONDS
        return Deferred(WAIT_SECONDS, reason)
