"""OPTIONS: which methods a path has. No CORS header: pages of other origins have no business here."""

from __future__ import annotations

from aiohttp import web

from workers.web.errors import Handler


@web.middleware
async def answer_options(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer OPTIONS for every path that exists."""
    if request.method != "OPTIONS":
        return await handler(request)
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as refused:
        return web.Response(status=204, headers={"Allow": ", ".join(sorted({*refused.allowed_methods, "OPTIONS"}))})
