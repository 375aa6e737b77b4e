"""The guard for clients that speak through httpx: every address is checked when the connection is made.

Nothing of the environment changes where a request goes: the only proxy is that of FETCH_PROXY_URL.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from core.net.address_guard import AddressBlocked, Guard, Target
from core.settings import Settings

CONNECT_SECONDS = 5.0


def open_http_client(settings: Settings, guard: Guard, target: Target, seconds: float) -> httpx2.AsyncClient:
    """Return a client for one origin. It follows no redirect, so that no other origin is shown the key."""
    proxy = settings.fetch_proxy_url.get_secret_value() if settings.fetch_proxy_url else None
    transport = httpx2.AsyncHTTPTransport(verify=_trusted(), proxy=proxy, trust_env=False)
    if proxy is None:
        # httpx has no public way to choose the backend; `test_openai_store` notices if this one closes.
        transport._pool._network_backend = _GuardedBackend(guard, target)
    timeout = httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
    return httpx2.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return what trusts the system's authorities, once per process: reading them takes 25 ms of CPU."""
    return httpx2.create_ssl_context(trust_env=False)


def is_blocked(error: BaseException) -> bool:
    """Return whether our own guard is somewhere in the chain of causes."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, _ConnectionBlocked):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


class _ConnectionBlocked(httpcore2.ConnectError):
    """`AddressBlocked` for clients that know the errors of their own library alone, and drop the cause."""


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves names itself, and connects to the address that was checked and to no other."""

    def __init__(self, guard: Guard, target: Target) -> None:
        self._guard = guard
        self._target = target
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        last: Exception = httpcore2.ConnectError("The host name does not resolve (DNS).")
        for address in await self._addresses(host, port):
            try:
                self._guard.check_address(self._target, address, port)
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except AddressBlocked as error:
                last = _ConnectionBlocked(str(error))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last

    async def connect_unix_socket(self, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("Only http and https are fetched.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @staticmethod
    async def _addresses(host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError("The host name does not resolve (DNS).") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
