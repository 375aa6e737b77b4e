"""Who may ask: host names, origins, the bearer token, the rate; and the headers of every answer."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from core.errors import SettingsError
from core.settings import Settings
from workers.web.errors import ApiError, Handler
from workers.web.limits import TokenBuckets

log = logging.getLogger("web")

SERVER = "Freshet"
SHORT_TOKEN = 16
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def require_safe_bind(settings: Settings) -> None:
    """Raise SettingsError if anybody on the network could use the API without a token."""
    host = settings.api_address[0]
    token = settings.api_token.get_secret_value() if settings.api_token else ""
    if not token and not _is_loopback(host):
        raise SettingsError(
            f"Cannot start. API_BIND: {settings.api_bind} can be reached by others, and there is no API_TOKEN. "
            "Set API_TOKEN, or use 127.0.0.1."
        )
    if not token and "*" in settings.api_allowed_hosts:
        raise SettingsError("Cannot start. API_ALLOWED_HOSTS: * needs an API_TOKEN. Name the hosts, or set a token.")


def warn_of_weak_token(settings: Settings) -> None:
    """Log a warning if the token can be guessed."""
    if settings.api_token and 0 < len(settings.api_token.get_secret_value()) < SHORT_TOKEN:
        log.warning("🚨 API_TOKEN is short. `openssl rand -hex 32` makes a good one.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AccessGuard:
    """Refuses requests before they reach a handler."""

    def __init__(self, settings: Settings, public_paths: frozenset[str]) -> None:
        self._token = settings.api_token.get_secret_value().encode() if settings.api_token else b""
        self._public_paths = public_paths
        self._allowed = {host.lower().strip("[]") for host in settings.api_allowed_hosts}
        self._hosts = {*LOOPBACK_NAMES, settings.api_address[0].lower(), *self._allowed}
        self._buckets = TokenBuckets(settings.api_requests_per_minute)

    @property
    def middleware(self) -> Middleware:
        """Return the check as a middleware of aiohttp."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._check_host(request)
            self._check_origin(request)
            has_token = self._has_token(request)
            self._check_rate("token" if self._token and has_token else f"address {request.remote}")
            if not has_token and request.path not in self._public_paths:
                raise ApiError(
                    401,
                    "unauthorized",
                    "This needs the API token.",
                    "Send the header Authorization: Bearer API_TOKEN.",
                    {"WWW-Authenticate": 'Bearer realm="Freshet"'},
                )
            return await handler(request)

        return check

    def _check_host(self, request: web.Request) -> None:
        """Refuse names that are not ours: a foreign page whose name leads to this address (DNS rebinding)."""
        host = _name_of(request.headers.get("Host", ""))
        if host not in self._hosts and "*" not in self._allowed:
            hint = "Use localhost or 127.0.0.1, or add the name to API_ALLOWED_HOSTS."
            raise ApiError(403, "foreign_host", "This server does not answer under that host name.", hint)

    def _check_origin(self, request: web.Request) -> None:
        """Refuse what a page of another origin asks for."""
        origin = request.headers.get("Origin")
        is_foreign = request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
        if origin is not None:
            host = urlsplit(origin).netloc.lower() if "://" in origin else ""
            is_foreign = host != request.headers.get("Host", "").lower() and _name_of(host) not in self._allowed
        elif request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method in ("GET", "HEAD"):
            is_foreign = False  # a link from elsewhere; reading by a person changes nothing
        if is_foreign:
            hint = "Pages of other origins cannot use this API; add their host to API_ALLOWED_HOSTS if it is yours."
            raise ApiError(403, "foreign_origin", "This request comes from a page of another origin.", hint)

    def _has_token(self, request: web.Request) -> bool:
        if not self._token:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        sent = given.strip().encode(errors="surrogateescape")
        return hmac.compare_digest(sent, self._token) and scheme.lower() == "bearer"

    def _check_rate(self, client: str) -> None:
        seconds = self._buckets.wait_seconds(client, time.monotonic())
        if seconds:
            hint = "Wait as long as Retry-After says, or raise API_REQUESTS_PER_MINUTE."
            wait = {"Retry-After": str(int(seconds) + 1)}
            raise ApiError(429, "too_many_requests", "Too many requests.", hint, wait)


def _name_of(host: str) -> str:
    """Return the name in a Host header, without port and brackets; empty if it cannot be read."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Give every answer the headers that keep browsers careful."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = SERVER
