"""Check every request before it is sent: scheme, port and credentials of the URL, then the address at connect time.

The address is checked where the socket is made. A check of the URL or of the DNS answer would miss IP literals,
which skip the resolver, and names that answer differently the second time.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

from core.errors import FailCode, FailDetail
from core.models import Failed
from core.registry.field_parsing import is_text
from core.settings import Settings
from core.urls.forbidden_addresses import AllowList, is_address, is_forbidden
from core.urls.normalise import MAX_URL_CHARS, host_and_port, serialise_url

_DEFAULT_PORTS = {"http:": 80, "https:": 443}
_MAX_REMEMBERED_HOSTS = 4_096


class AddressBlocked(OSError):
    """The guard does not allow connections to this address."""

    def __init__(self, address: str, port: int) -> None:
        # One errno for all of them: then happy eyeballs reports "all blocked" as this error.
        super().__init__(errno.EACCES, f"{address} port {port} is not public; see FETCH_ALLOWED_HOSTS")


class Target(NamedTuple):
    """A URL that passed the guard, in the form in which it is sent."""

    url: str
    host: str
    port: int
    origin: str


class _Host(NamedTuple):
    """Host and port of an authority, and whether we may try to connect; depends on the settings alone."""

    name: str
    port: int
    is_allowed: bool


class ConnectionAttempt:
    """One attempt to connect; remembers whether an address was refused. A context manager, see `connecting_to`."""

    __slots__ = ("_token", "blocked", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.blocked = False
        self._token: Token[ConnectionAttempt] | None = None

    def __enter__(self) -> ConnectionAttempt:
        self._token = _attempt.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _attempt.reset(self._token)


# Connection attempts run in tasks of their own (happy eyeballs); tasks inherit the context they are started in.
_attempt: ContextVar[ConnectionAttempt] = ContextVar("attempt")


class Guard:
    """Knows which URLs and addresses may be requested."""

    def __init__(self, allow: AllowList, ordinary_ports: Iterable[int], *, proxied: bool = False) -> None:
        self._allow = allow
        self._ordinary_ports = frozenset(ordinary_ports)
        # Behind a proxy we only ever connect to the proxy, which the operator chose; it checks addresses.
        self._proxied = proxied
        self._hosts: dict[tuple[str, str], _Host] = {}

    @classmethod
    def of(cls, settings: Settings) -> Guard:
        """Return the guard these settings ask for."""
        allow = AllowList.parse(settings.fetch_allowed_hosts)
        return cls(allow, map(int, settings.fetch_allowed_ports), proxied=settings.fetch_proxy_url is not None)

    # ── the URL ──

    def target(self, url: str, base: str | None = None) -> Target | Failed:
        """Return where this URL leads, or why it is not fetched."""
        # A browser would send U+FFFD instead of a lone surrogate; we do not send such a URL at all.
        href = serialise_url(url, base) if is_text(url) else ""
        if not href:
            return Failed(FailCode.HTTP, FailDetail.URL, "The URL cannot be read.")
        scheme, _, rest = href.partition("//")
        if scheme not in _DEFAULT_PORTS:
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, "Only http and https are fetched.")
        authority = rest.partition("/")[0]
        if "@" in authority:
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, "A URL with credentials is not fetched.")
        if len(href) > MAX_URL_CHARS:
            return Failed(FailCode.HTTP, FailDetail.URL, f"The URL is longer than {MAX_URL_CHARS} characters.")
        host = self._host(scheme, authority)
        if not host.is_allowed:
            text = f"The address or its port {host.port} is not open to us; see FETCH_ALLOWED_HOSTS."
            return Failed(FailCode.HTTP, FailDetail.BLOCKED, text)
        return Target(href, host.name, host.port, f"{scheme}//{authority}")

    def _host(self, scheme: str, authority: str) -> _Host:
        known = self._hosts.get((scheme, authority))
        if known is None:
            if len(self._hosts) >= _MAX_REMEMBERED_HOSTS:
                self._hosts.clear()
            name, port = host_and_port(authority)
            is_stated = port or authority.endswith(":0")  # nobody listens there, and it is not the default
            port = port if is_stated else _DEFAULT_PORTS[scheme]
            known = self._hosts[scheme, authority] = _Host(name, port, self._may_try(name, port))
        return known

    def _may_try(self, host: str, port: int) -> bool:
        """Return whether connecting makes sense at all: cheap and early; checked again at connect time."""
        if is_address(host):
            return self._may_connect(Target("", host, port, ""), host, port)
        by_name = port in self._ordinary_ports or self._allow.permits(host, port)
        return by_name or (self._allow.has_addresses and not self._proxied)

    # ── the address ──

    def connecting_to(self, target: Target) -> ConnectionAttempt:
        """Check sockets that are opened inside `with` against this target."""
        return ConnectionAttempt(target)

    def open_socket(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """Open a socket for this address, or raise `AddressBlocked`. Outside `connecting_to` it raises LookupError."""
        family, kind, protocol, _, address = addr_info
        attempt = _attempt.get()
        try:
            self.check_address(attempt.target, address[0], address[1])
        except AddressBlocked:
            attempt.blocked = True
            raise
        return socket.socket(family, kind, protocol)

    def check_address(self, target: Target, address: str, port: int) -> None:
        """Raise `AddressBlocked` if this address may not be connected to; for clients with sockets of their own."""
        if not self._proxied and not self._may_connect(target, address, port):
            raise AddressBlocked(address, port)

    def _may_connect(self, target: Target, address: str, port: int) -> bool:
        if self._allow.permits(target.host, target.port) or self._allow.permits(address, port):
            return True
        return port in self._ordinary_ports and not is_forbidden(address)
