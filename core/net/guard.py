"""The door every request goes out through: scheme, port and credentials of the URL, then the address at connect time.

The address is judged where the socket is made. A check of the URL or of the DNS answer would miss IP literals,
which skip the resolver, and names that answer differently the second time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

from core.errors import FailDetail
from core.models import Failed
from core.net.failures import AddressBlocked, refusal
from core.net.framing import FrugalHandler
from core.net.proxy import ProxyConnector
from core.settings import Settings
from core.urls.addresses import AllowList, is_address, is_forbidden
from core.urls.normalise import MAX_URL_CHARS, host_and_port, serialise_url

_DEFAULT_PORTS = {"http:": 80, "https:": 443}
_DNS_CACHE_SECONDS = 60
"""Longer than aiohttp's ten: a stale answer is harmless, since every connection is judged anew."""


_PLACES = 4_096
"""Hosts whose judgement is remembered; it depends on the settings alone."""


class Target(NamedTuple):
    """A URL that passed the door, in the form that goes on the wire."""

    url: str
    host: str
    port: int
    origin: str


@dataclass(slots=True)
class ConnectionAttempt:
    """One request on its way out; remembers whether an address was refused."""

    target: Target
    blocked: bool = False


# Connection attempts run in tasks of their own (happy eyeballs); tasks inherit the context they are started in.
_passage: ContextVar[ConnectionAttempt] = ContextVar("passage")


class Guard:
    """Knows which URLs and addresses may be asked."""

    def __init__(self, allow: AllowList, ordinary_ports: Iterable[int], *, proxied: bool = False) -> None:
        self._allow = allow
        self._ordinary_ports = frozenset(ordinary_ports)
        # Behind a proxy we only ever connect to the proxy, which the operator chose; it judges addresses.
        self._proxied = proxied
        self._places: dict[tuple[str, str], tuple[str, int]] = {}
        self._tried: dict[tuple[str, int], bool] = {}

    @classmethod
    def of(cls, settings: Settings) -> Guard:
        """The guard these settings ask for."""
        allow = AllowList.parse(settings.fetch_allowed_hosts)
        return cls(allow, map(int, settings.fetch_allowed_ports), proxied=settings.fetch_proxy_url is not None)

    def target(self, url: str, base: str | None = None) -> Target | Failed:
        """Where this URL leads, or why we do not go there."""
        href = serialise_url(url, base) if _is_text(url) else ""
        if not href:
            return refusal(FailDetail.URL, "The URL cannot be read.")
        scheme, _, rest = href.partition("//")
        if scheme not in _DEFAULT_PORTS:
            return refusal(FailDetail.BLOCKED, "Only http and https are fetched.")
        authority = rest.partition("/")[0]
        if "@" in authority:
            return refusal(FailDetail.BLOCKED, "A URL with credentials is not fetched.")
        if len(href) > MAX_URL_CHARS:
            return refusal(FailDetail.URL, f"The URL is longer than {MAX_URL_CHARS} characters.")
        host, port = self._place(scheme, authority)
        target = Target(href, host, port, f"{scheme}//{authority}")
        return target if self._may_try(host, port) else _not_public(port)

    def _place(self, scheme: str, authority: str) -> tuple[str, int]:
        found = self._places.get((scheme, authority))
        if found is None:
            if len(self._places) >= _PLACES:
                self._places.clear()
            host, port = host_and_port(authority)
            is_stated = port or authority.endswith(":0")  # nobody listens there, and it is not the default
            found = self._places[scheme, authority] = host, port if is_stated else _DEFAULT_PORTS[scheme]
        return found

    def connector(self, resolver: AbstractResolver) -> aiohttp.TCPConnector:
        """A connector that opens no socket without asking here. Its own limit is off: the fetcher counts."""
        connector = ProxyConnector(
            socket_factory=self.open_socket, resolver=resolver, limit=0, ttl_dns_cache=_DNS_CACHE_SECONDS
        )
        # aiohttp has no public way to choose the protocol class; `test_hostile_http` notices if this one closes.
        connector._factory = cast(partial[ResponseHandler], partial(FrugalHandler, loop=asyncio.get_running_loop()))
        return connector

    @contextmanager
    def passage(self, target: Target) -> Iterator[ConnectionAttempt]:
        """Sockets opened inside belong to this target."""
        passage = ConnectionAttempt(target)
        token = _passage.set(passage)
        try:
            yield passage
        finally:
            _passage.reset(token)

    def open_socket(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """A socket for this address, or `AddressBlocked`. Outside a passage nothing is opened: LookupError."""
        family, kind, protocol, _, address = addr_info
        passage = _passage.get()
        if not self._proxied and not self._may_connect(passage.target, address[0], address[1]):
            passage.blocked = True
            raise AddressBlocked(address[0], address[1])
        return socket.socket(family, kind, protocol)

    def _may_try(self, host: str, port: int) -> bool:
        """Cheap and early, and the same for every page of a host; the last word is spoken at connect time."""
        known = self._tried.get((host, port))
        if known is None:
            if len(self._tried) >= _PLACES:
                self._tried.clear()
            known = self._tried[host, port] = self._judge(host, port)
        return known

    def _judge(self, host: str, port: int) -> bool:
        if is_address(host):
            return self._may_connect(Target("", host, port, ""), host, port)
        by_name = port in self._ordinary_ports or self._allow.permits(host, port)
        return by_name or (self._allow.has_addresses and not self._proxied)

    def _may_connect(self, target: Target, address: str, port: int) -> bool:
        if self._allow.permits(target.host, target.port) or self._allow.permits(address, port):
            return True
        return port in self._ordinary_ports and not is_forbidden(address)


def _is_text(url: str) -> bool:
    """A browser would send U+FFFD instead of a lone surrogate; we rather ask nobody."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_public(port: int) -> Failed:
    return refusal(FailDetail.BLOCKED, f"The address or its port {port} is not open to us; see FETCH_ALLOWED_HOSTS.")
