"""Access rules of every server: host names, origins, the bearer token, the rate."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from core.errors import SettingsError
from core.settings import Settings
from workers.web.errors import ApiError
from workers.web.limits import TokenBuckets

log = logging.getLogger("web")

SHORT_TOKEN = 16
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def require_safe_bind(settings: Settings, host: str, place: str) -> None:
    """Raise SettingsError if anybody on the network could ask without a token; `place` names what says `host`."""
    token = settings.api_token.get_secret_value() if settings.api_token else ""
    if not token and not _is_loopback(host):
        raise SettingsError(
            f"Cannot start. {place} can be reached by others, and there is no API_TOKEN. "
            "Set API_TOKEN, or use 127.0.0.1."
        )
    if not token and "*" in settings.api_allowed_hosts:
        raise SettingsError("Cannot start. API_ALLOWED_HOSTS: * needs an API_TOKEN. Name the hosts, or set a token.")


def warn_of_weak_token(settings: Settings) -> None:
    if settings.api_token and 0 < len(settings.api_token.get_secret_value()) < SHORT_TOKEN:
        log.warning("🚨 API_TOKEN is short. `openssl rand -hex 32` makes a good one.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AccessRules:
    """Refuses requests by what their headers say."""

    def __init__(self, settings: Settings, host: str) -> None:
        """`host` is what the server listens on."""
        self._token = settings.api_token.get_secret_value().encode() if settings.api_token else b""
        self._allowed = {host.lower().strip("[]") for host in settings.api_allowed_hosts}
        self._hosts = {*LOOPBACK_NAMES, host.lower(), *self._allowed}
        self._buckets = TokenBuckets(settings.api_requests_per_minute)

    def check(self, method: str, headers: Mapping[str, str], remote: str, *, is_public: bool = False) -> None:
        """Raise ApiError if the request is refused; `headers` must find a name in any case."""
        self._check_host(headers)
        self._check_origin(method, headers)
        has_token = self._has_token(headers)
        self._check_rate("token" if self._token and has_token else f"address {remote}")
        if not has_token and not is_public:
            raise ApiError(
                401,
                "unauthorized",
                "This needs the API token.",
                "Send the header Authorization: Bearer API_TOKEN.",
                {"WWW-Authenticate": 'Bearer realm="Freshet"'},
            )

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse names that are not ours: a foreign page whose name leads to this address (DNS rebinding)."""
        host = _name_of(headers.get("Host", ""))
        if host not in self._hosts and "*" not in self._allowed:
            hint = "Use localhost or 127.0.0.1, or add the name to API_ALLOWED_HOSTS."
            raise ApiError(403, "foreign_host", "This server does not answer under that host name.", hint)

    def _check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse what a page of another origin asks for."""
        origin = headers.get("Origin")
        is_foreign = headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
        if origin is not None:
            host = urlsplit(origin).netloc.lower() if "://" in origin else ""
            is_foreign = host != headers.get("Host", "").lower() and _name_of(host) not in self._allowed
        elif headers.get("Sec-Fetch-Mode") == "navigate" and method in ("GET", "HEAD"):
            is_foreign = False  # a link from elsewhere; reading by a person changes nothing
        if is_foreign:
            hint = "Pages of other origins cannot use this API; add their host to API_ALLOWED_HOSTS if it is yours."
            raise ApiError(403, "foreign_origin", "This request comes from a page of another origin.", hint)

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        if not self._token:
            return True
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        return self.is_token(given.strip()) and scheme.lower() == "bearer"

    def is_token(self, given: str) -> bool:
        """Return whether this is the API token. Compares in constant time; where there is no token, nothing is."""
        return bool(self._token) and hmac.compare_digest(given.encode(errors="surrogateescape"), self._token)

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
