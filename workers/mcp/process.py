"""The process: logging, the services, and the transport that was asked for, until its end."""

from __future__ import annotations

import asyncio
import logging

from core.runtime import logs
from core.settings import Settings
from core.store.cancellation import cancel_and_wait
from workers.mcp.server import build_server
from workers.mcp.transports import serve_http, serve_stdio
from workers.web import access
from workers.web.services import ServiceOpener


async def serve(settings: Settings, address: tuple[str, int] | None) -> None:
    """Serve over HTTP on this address, without one on standard input and output."""
    logs.configure(settings)  # to standard error
    for name in ("mcp.server", "mcp.shared"):
        logging.getLogger(name).setLevel(logging.WARNING)  # the SDK's, below our own `mcp`
    if address:
        access.require_safe_bind(settings, address[0], f"--http {address[0]}:{address[1]}")
        access.warn_of_weak_token(settings)
    opener = ServiceOpener(settings, is_web=False)
    async with opener.running():
        server = build_server(opener)
        transport = serve_http(server, settings, *address) if address else serve_stdio(server)
        serving, store = asyncio.create_task(transport), asyncio.create_task(opener.wait())
        try:
            done, _ = await asyncio.wait((serving, store), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel_and_wait(serving, store)
