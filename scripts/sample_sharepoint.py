"""Serve the sample SharePoint on this machine: a site with a library, a list and pages, for any bearer token.

python -m scripts.sample_sharepoint --port 8009
"""

from __future__ import annotations

import asyncio
import signal
import sys

from core.runtime.terminal import echo
from sample_sharepoint.harbour import SITE, build_tenant
from sample_sharepoint.loopback import LoopbackServer
from sample_sharepoint.service import SharePointService
from scripts import command_line


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = command_line.parser("python -m scripts.sample_sharepoint", __doc__)
    parser.add_argument("--port", type=int, default=8009, help="0 takes a free one (default: 8009)")
    return command_line.run(serve(parser.parse_args().port))


async def serve(port: int) -> int:
    """Start, say where, stop when told; requests are answered in threads."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await asyncio.to_thread(LoopbackServer, SharePointService(build_tenant()).answer, port)
    echo(f"[sample] 🗄️ Serving the sample SharePoint → {server.origin}{SITE}", flush=True)
    await stop.wait()
    await asyncio.to_thread(server.close)
    return 0


if __name__ == "__main__":
    sys.exit(main())
