"""Security of the HTTP API: the access rules as a middleware, and the headers of every answer."""

from __future__ import annotations

from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Middleware

from core.settings import Settings
from workers.web import access
from workers.web.dashboard import session
from workers.web.errors import ApiError, Handler, wants_page
from workers.web.feed_token import FeedToken
from workers.web.routing import Routes

SERVER = "Freshet"
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send `Origin: null` with our own forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def require_safe_bind(settings: Settings) -> None:
    """Raise SettingsError if anybody on the network could use the API without a token."""
    access.require_safe_bind(settings, settings.api_address[0], f"API_BIND: {settings.api_bind}")


class AccessGuard:
    """Refuses requests before they reach a handler."""

    def __init__(self, settings: Settings, routes: Routes) -> None:
        self.rules = access.AccessRules(settings, settings.api_address[0])
        self._public_paths = frozenset(route.path for route in routes if route.is_public)
        self._form_paths = frozenset(route.path for route in routes if route.fields_in == "form")
        self._feed_token = FeedToken(settings, frozenset(route.path for route in routes if route.takes_feed_token))

    @property
    def middleware(self) -> Middleware:
        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            path = _path_of(request)
            is_public = path in self._public_paths or self._has_login(request) or self._feed_token.opens(request, path)
            try:
                self.rules.check(request.method, request.headers, str(request.remote), is_public=is_public)
            except ApiError as refusal:
                if refusal.status != 401 or not wants_page(request) or request.method not in ("GET", "HEAD"):
                    raise
                return web.Response(status=303, headers={"Location": f"/login?{urlencode({'next': request.path_qs})}"})
            return await handler(request)

        return check

    def _has_login(self, request: web.Request) -> bool:
        """Return whether this browser has logged in.

        That is enough to read, and for forms, which have a token of their own.
        """
        is_enough = request.method in ("GET", "HEAD") or _path_of(request) in self._form_paths
        return is_enough and session.has_login(request)


GUARD: web.AppKey[AccessGuard] = web.AppKey("guard", AccessGuard)


def _path_of(request: web.Request) -> str:
    """Return the path as the route table writes it; empty for one that it does not have."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else ""


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Give every answer the headers that keep browsers careful."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = SERVER
