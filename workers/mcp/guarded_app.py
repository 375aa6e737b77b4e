"""Refuse requests to the MCP server that the access rules do not let through."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from workers.web.access import AccessRules
from workers.web.errors import ApiError
from workers.web.models import ErrorAnswer
from workers.web.security import HEADERS

JSON = "application/json"


class GuardedApp:
    """Refuses requests before they reach the application."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] == "http":
            remote = scope["client"][0] if scope.get("client") else ""
            try:
                self._rules.check(scope["method"], Headers(scope=scope), remote)
            except ApiError as error:
                body = ErrorAnswer(error=error.detail).model_dump_json()
                headers = {**HEADERS, "Cache-Control": "no-store", **error.headers}
                await Response(body, error.status, headers, JSON)(scope, receive, send)
                return
        await self._app(scope, receive, send)
