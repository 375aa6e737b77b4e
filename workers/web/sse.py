"""Server-sent events: one response that stays open, with heartbeats, until its end or until the client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp_sse import EventSourceResponse, sse_response

HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 30.0
"""How long a client may take to receive one piece."""
_NEVER = 10**6


class EventWriter:
    """Writes pieces of an event stream to one client."""

    def __init__(self, response: EventSourceResponse, request: web.Request) -> None:
        self._response = response
        self._request = request

    async def write(self, text: bytes) -> None:
        """Send a piece; raise ConnectionResetError if the client is gone or does not take it."""
        if not text:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._response.write(text)
        except TimeoutError:
            abort(self._request)
            raise ConnectionResetError("the client does not read") from None

    async def write_all(self, next_piece: Callable[[], Awaitable[bytes | None]]) -> None:
        """Send pieces until there is none, with a comment in between so that a lost client is noticed."""
        waiting = asyncio.ensure_future(next_piece())
        try:
            while True:
                done, _ = await asyncio.wait((waiting,), timeout=HEARTBEAT_SECONDS)
                if not done:
                    await self.write(b": heartbeat\n\n")
                    continue
                piece = waiting.result()
                if piece is None:
                    return
                await self.write(piece)
                waiting = asyncio.ensure_future(next_piece())
        finally:
            waiting.cancel()


@asynccontextmanager
async def event_response(request: web.Request) -> AsyncIterator[tuple[EventSourceResponse, EventWriter]]:
    """Open the response; a client that leaves is not an error."""
    # Our own heartbeats: the library's run beside the handler, which would not notice that the client has gone.
    opening = sse_response(request, allow_all_methods=True, sep="\n", ping_interval=_NEVER, send_timeout=SEND_SECONDS)
    async with opening as response:
        try:
            yield response, EventWriter(response, request)
        except ConnectionResetError:
            return


def abort(request: web.Request) -> None:
    """Close a connection at once, whatever still waits to be sent."""
    if request.transport is not None:
        request.transport.abort()


def empty_stream() -> web.Response:
    """Return the answer to HEAD: the type of the stream, and no stream."""
    return web.Response(content_type="text/event-stream")
