"""Serve the sample SharePoint on this machine: a site with a library, a list and pages, for any bearer token.

python -m scripts.sample_sharepoint --port 8009
"""

from __future__ import annotations

import signal
import sys
import threading

from core.runtime.terminal import echo
from sample_sharepoint.harbour import build_tenant
from sample_sharepoint.loopback import LoopbackServer
from sample_sharepoint.service import SharePointService
from scripts import command_line


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = command_line.parser("python -m scripts.sample_sharepoint", __doc__)
    parser.add_argument("--port", type=int, default=8009, help="0 takes a free one (default: 8009)")
    port = parser.parse_args().port
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = LoopbackServer(SharePointService(build_tenant()).answer, port)
    echo(f"[sample] 🗄️ Serving the sample SharePoint → {server.origin}/sites/harbour", flush=True)
    stop.wait()
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
