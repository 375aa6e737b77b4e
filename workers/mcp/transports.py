"""How agents reach the server: standard input and output, or streamable HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from core.errors import SettingsError
from core.settings import Settings
from core.store import cancellation
from workers.web.access import AccessRules
from workers.web.app import SHUTDOWN_SECONDS, explain_bind
from workers.web.errors import ApiError
from workers.web.models import ErrorAnswer
from workers.web.routing import JSON
from workers.web.security import HEADERS

log = logging.getLogger("mcp")

PATH = "/mcp"
STDIN = 0
READ_BYTES = 65_536


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output until it closes them. Nothing else is printed there."""
    # The SDK only iterates over lines. Its own reader is a thread that holds up the end of the process.
    lines = cast("anyio.AsyncFile[str]", _stdin_lines())
    async with stdio_server(stdin=lines) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def _stdin_lines() -> AsyncIterator[str]:
    """Yield lines of standard input; a daemon thread reads them, so that a signal ends the process."""
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            while chunk := os.read(STDIN, READ_BYTES):
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            loop.call_soon_threadsafe(chunks.put_nowait, b"")

    threading.Thread(target=read, daemon=True).start()
    waiting = b""
    while chunk := await chunks.get():
        *lines, waiting = (waiting + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if waiting:
        yield waiting.decode(errors="replace")


class _HttpServer(uvicorn.Server):
    """uvicorn without its own handling of signals: ours cancels the task."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(server: Server[Any], settings: Settings, host: str, port: int) -> None:
    """Serve until cancelled. Requests are stateless: a client goes on after a restart of ours."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.api_max_body_bytes,
        # Hosts and origins are checked by the rules of the HTTP API, which know API_ALLOWED_HOSTS.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    config = uvicorn.Config(
        GuardedApp(app, AccessRules(settings, host)),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(SHUTDOWN_SECONDS),
    )
    http = _HttpServer(config)
    with _listening(host, port) as listener:
        name = host if ":" not in host else f"[{host}]"
        log.info("🤖 MCP server → http://%s:%d%s", name, listener.getsockname()[1], PATH)
        serving = asyncio.create_task(http.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        finally:
            http.should_exit = True
            await cancellation.finish(asyncio.wait((serving,)))


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(explain_bind(error, "The MCP server", f"{host}:{port}", "--http HOST:PORT")) from error


class GuardedApp:
    """Refuses requests that the access rules do not let through, before they reach the application."""

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
