"""Listen on a port; bytes that are no HTTP get an error of ours too, and no traceback in the log."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from aiohttp.web_request import BaseRequest

from workers.web import errors, security

log = logging.getLogger("web")

KEEP_ALIVE_SECONDS = 75.0
"""Also how long a client may take to send the head of a request."""
MOST_LINE_BYTES = 16_384
"""Limit for a request line and for a header: a URL in a query may be long."""
BACKLOG = 512


class ApiProtocol(web.RequestHandler):
    """One connection."""

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that could not be read, or whose handler failed outside of the middlewares."""
        if request.writer.output_size > 0:
            raise ConnectionError("the response is under way already")
        if status >= 500:
            log.error("💥 A request of %s failed", request.remote, exc_info=exc)
        else:
            log.debug("🚫 Not HTTP from %s: %s", request.remote, exc)
        refused = errors.ApiError(status, "bad_request", "This request cannot be read.", "Send HTTP/1.1.")
        response = errors.response(refused)
        response.headers.update(security.HEADERS | {"Server": security.SERVER, "Cache-Control": "no-store"})
        response.force_close()
        return response


class ApiSite(web.TCPSite):
    """A listening port whose connections are `ApiProtocol`s."""

    async def start(self) -> None:
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None

        def connect() -> ApiProtocol:
            return ApiProtocol(
                server,
                loop=loop,
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                max_line_size=MOST_LINE_BYTES,
                max_field_size=MOST_LINE_BYTES,
            )

        self._server = await loop.create_server(connect, self._host, self._port, backlog=BACKLOG)
        await web.BaseSite.start(self)
