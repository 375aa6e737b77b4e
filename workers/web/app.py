"""The application: middlewares and routes, and the server around it until a signal comes."""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import AsyncExitStack

from aiohttp import web

from core.runtime import logs
from core.settings import Settings
from workers.web import access, routes, security
from workers.web.dashboard import page_table
from workers.web.dashboard.session import SIGNER
from workers.web.dashboard.signer import open_signer
from workers.web.dashboard.views import PAGES
from workers.web.errors import ERROR_PAGE, Handler, answer_errors
from workers.web.protocol import ApiSite
from workers.web.routing import OPENER, ROUTES, Routes, add_routes
from workers.web.services import ServiceOpener

log = logging.getLogger("web")

SHUTDOWN_SECONDS = 5.0
"""How long requests may go on after a SIGTERM."""
PORT_PAUSE_SECONDS = 5.0


@web.middleware
async def answer_options(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer OPTIONS for every path that exists."""
    if request.method != "OPTIONS":
        return await handler(request)
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as refused:
        return web.Response(status=204, headers={"Allow": ", ".join(sorted({*refused.allowed_methods, "OPTIONS"}))})


def build_app(settings: Settings, opener: ServiceOpener, table: Routes = routes.ROUTES) -> web.Application:
    """Return the application: the routes of the API, and the pages for people."""
    guard = security.AccessGuard(settings, (*table, *PAGES))
    app = web.Application(
        middlewares=[answer_errors, guard.middleware, answer_options], client_max_size=settings.api_max_body_bytes
    )
    app[OPENER] = opener
    app[ROUTES] = table
    app[security.GUARD] = guard
    app[SIGNER] = open_signer(settings)
    app[ERROR_PAGE] = page_table.error_page
    app.on_response_prepare.append(security.add_headers)
    add_routes(app, table)
    add_routes(app, PAGES)
    return app


async def serve(settings: Settings) -> None:
    """Serve until cancelled."""
    logs.configure(settings)
    security.require_safe_bind(settings)
    access.warn_of_weak_token(settings)
    opener = ServiceOpener(settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(opener.running())
        runner = web.AppRunner(build_app(settings, opener), shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(opener.let_streams_go)
        await _listen(runner, settings)
        log.info("🌐 Dashboard → http://%s/ · HTTP API → http://%s/docs", settings.api_bind, settings.api_bind)
        await opener.wait()


async def _listen(runner: web.AppRunner, settings: Settings) -> None:
    """Open the port; while another program has it, say so once and wait for it, so that nothing else is stopped."""
    host, port = settings.api_address
    has_logged = False
    while True:
        try:
            await ApiSite(runner, host, port).start()
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                raise
            if not has_logged:
                problem = explain_bind(error, "The HTTP API", settings.api_bind, "API_BIND")
                log.error("🚫 %s Waiting until it is free.", problem)
            has_logged = True
            await asyncio.sleep(PORT_PAUSE_SECONDS)
        else:
            return


def explain_bind(error: OSError, server: str, bind: str, option: str) -> str:
    """Return a sentence on why a server cannot open its port and what to do."""
    why = {
        errno.EADDRINUSE: "another program has this port",
        errno.EACCES: "this user may not open this port",
        errno.EADDRNOTAVAIL: "this machine has no such address",
    }.get(error.errno or 0, str(error))
    return f"{server} cannot listen on {bind}: {why}. Set {option} to another one."
