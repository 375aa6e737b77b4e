"""Start the MCP server, for `python -m workers.mcp` and `freshet mcp`. Imports the SDK only then."""

from __future__ import annotations

import argparse
from urllib.parse import urlsplit

from core.errors import SettingsError
from core.settings import load

DEFAULT_BIND = "127.0.0.1:8090"


def add_options(parser: argparse.ArgumentParser) -> None:
    text = f"serve over HTTP instead; without an address on {DEFAULT_BIND}"
    parser.add_argument("--http", nargs="?", const=DEFAULT_BIND, metavar="HOST:PORT", help=text)


async def start(bind: str | None) -> None:
    """Serve over HTTP on this address, without one on standard input and output; raise SettingsError if it cannot."""
    try:
        from workers.mcp.process import serve
    except ModuleNotFoundError as error:
        raise SettingsError(f"The MCP server needs {error.name}. Install it with: ./scripts/setup mcp") from None
    await serve(load(), parse_bind(bind) if bind else None)


def parse_bind(text: str) -> tuple[str, int]:
    """Return host and port; an IPv6 address without its brackets."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None or "@" in text or parts.netloc != text:
        raise SettingsError(f"--http {text}: write host and port, as {DEFAULT_BIND} or [::1]:8090.")
    return host, port
