"""Failures of our own proxy, told apart from failures of the hosts behind it.

A proxy that is down, misnamed or wants a password fails every request alike. That is ours to mend: nothing is counted
against any link, feed or page, and everything waits until it works.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import aiohttp

from core.errors import FailDetail
from core.models import Deferred, Failed

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 5.0
"""For so long after a failure the proxy is not asked at all: else each of a thousand pages would wait for it."""
PROXY_LOGIN_STATUS = 407
LOGIN_ERROR = "it wants a name and a password (407)"
HTTP_ERROR = "it does not speak HTTP"
log = logging.getLogger("net")


class ProxyError(aiohttp.ClientConnectionError):
    """The proxy itself failed; the text says how."""


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
        return Deferred(WAIT_SECONDS, self._reason) if self._clock() < self._paused_until else None

    def check_status(self, status: int) -> Deferred | None:
        """Return a wait for a status that only a proxy gives; any other proves that the proxy works."""
        if self._is_used and status == PROXY_LOGIN_STATUS:
            return self._failed(LOGIN_ERROR)
        self._reason = ""
        return None

    def check_error(self, error: BaseException, failed: Failed, url: str) -> Deferred | None:
        """Return a wait if this error is the proxy's; `failed` is what it would mean without one."""
        if isinstance(error, ProxyError):
            return self._failed(str(error))
        # A proxy reads the response of an unencrypted host before it hands it on; what is no HTTP is its own.
        is_its_own = self._is_used and url.startswith("http://") and failed.detail is FailDetail.PROTOCOL
        return self._failed(HTTP_ERROR) if is_its_own else None

    def _failed(self, problem: str) -> Deferred:
        reason = f"the proxy of FETCH_PROXY_URL is of no use: {problem}"
        if reason != self._reason:
            log.error("⚠️ T%s. Nothing is counted against anybody; all requests wait.", reason[1:])
        self._reason, self._paused_until = reason, self._clock() + PAUSE_SECONDS
        return Deferred(WAIT_SECONDS, reason)
