"""Serve search, articles, sources and runs to agents, over the Model Context Protocol.

python -m scripts.mcp                           on standard input and output, for a client that starts it
python -m scripts.mcp --http                    on http://127.0.0.1:8090/mcp, until Ctrl-C
python -m scripts.mcp --http 127.0.0.1:9000     on another port

Needs the official SDK, which `./scripts/setup mcp` installs. docs/mcp.md shows what to write into a client.
"""

from __future__ import annotations

import sys

from core.runtime import signals
from scripts import command_line
from workers.mcp.start import add_options, start


def main() -> int:
    parser = command_line.parser("python -m scripts.mcp", __doc__)
    add_options(parser)
    bind = parser.parse_args().http
    return command_line.run(signals.until_signal(lambda: start(bind)))


if __name__ == "__main__":
    sys.exit(main())
