"""The MCP server: search, articles, sources and runs for agents.

python -m workers.mcp                     on standard input and output, for a client that starts it
python -m workers.mcp --http              on http://127.0.0.1:8090/mcp, until SIGTERM or Ctrl-C
python -m workers.mcp --http HOST:PORT    with API_TOKEN also where others can reach it
"""

from __future__ import annotations

import argparse
import sys
from urllib.parse import urlsplit

from core.errors import FreshetError, SettingsError
from core.runtime import signals
from core.runtime.terminal import echo
from core.settings import load

DEFAULT_BIND = "127.0.0.1:8090"


def main(program: str = "python -m workers.mcp") -> int:
    """The command line."""
    text = __doc__.replace("python -m workers.mcp", program)
    parser = argparse.ArgumentParser(
        prog=program, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    help_text = f"serve over HTTP instead; without an address on {DEFAULT_BIND}"
    parser.add_argument("--http", nargs="?", const=DEFAULT_BIND, metavar="HOST:PORT", help=help_text)
    options = parser.parse_args()
    try:
        from workers.mcp.process import serve
    except ModuleNotFoundError as error:
        echo(f"The MCP server needs {error.name}. Install it with: ./scripts/setup mcp", file=sys.stderr)
        return signals.EXIT_FAILED
    try:
        settings, address = load(), parse_bind(options.http) if options.http else None
    except FreshetError as error:
        echo(error, file=sys.stderr)
        return signals.EXIT_FAILED
    return signals.run_until_stopped(lambda: serve(settings, address))


def parse_bind(text: str) -> tuple[str, int]:
    """Return host and port; an IPv6 address without its brackets."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None or parts.netloc != text:
        raise SettingsError(f"--http {text}: write it as {DEFAULT_BIND} or [::1]:8090.")
    return host, port


if __name__ == "__main__":
    sys.exit(main())
