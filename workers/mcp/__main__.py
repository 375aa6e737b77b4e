"""The MCP server: search, articles, sources and runs as tools for agents.

python -m workers.mcp                     on standard input and output, for a client that starts it
python -m workers.mcp --http              on http://127.0.0.1:8090/mcp, until SIGTERM or Ctrl-C
python -m workers.mcp --http HOST:PORT    with API_TOKEN also where others can reach it
"""

from __future__ import annotations

import argparse
import sys

from core.runtime import signals
from workers.mcp.start import add_options, start


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m workers.mcp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    bind = parser.parse_args().http
    return signals.run_until_stopped(lambda: start(bind))


if __name__ == "__main__":
    sys.exit(main())
