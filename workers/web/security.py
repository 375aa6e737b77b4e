"""Security of the HTTP API: the access rules as a middleware, and the headers of every answer."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Middleware

from core.settings import Settings
from workers.web import access
from workers.web.errors import Handler

SERVER = "Freshet"
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
    access.require_safe_bind(settings, settings.api_address[0], f"API_BIND: {settings.api_bind}")


class AccessGuard:
    """Refuses requests before they reach a handler."""

    def __init__(self, settings: Settings, public_paths: frozenset[str]) -> None:
        self._rules = access.AccessRules(settings, settings.api_address[0])
        self._public_paths = public_paths

    @property
    def middleware(self) -> Middleware:
        """Return the check as a middleware of aiohttp."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            is_public = request.path in self._public_paths
            self._rules.check(request.method, request.headers, str(request.remote), is_public=is_public)
            return await handler(request)

        return check


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Give every answer the headers that keep browsers careful."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = SERVER
