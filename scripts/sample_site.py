"""Serve the sample site on this machine.

python -m scripts.sample_site --port 8008
python -m scripts.sample_site --port 0 --change-every 60

With `--change-every` the paper changes by itself; `curl -X POST …/tick` changes it once.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime

from aiohttp import web

from core.runtime.terminal import echo
from sample_site.web import Site
from scripts import command_line

HOST = "127.0.0.1"
STOP_SECONDS = 0.5
"""How long open connections may take to finish when we are asked to stop."""


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    parser = command_line.parser("python -m scripts.sample_site", __doc__)
    parser.add_argument("--port", type=int, default=8008, help="0 takes a free one (default: 8008)")
    parser.add_argument("--change-every", type=float, default=0.0, metavar="SECONDS", help="default: never by itself")
    arguments = parser.parse_args()
    return command_line.run(serve(arguments.port, arguments.change_every))


async def serve(port: int, change_every_seconds: float) -> int:
    """Start, say where, turn pages, stop when told."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    site = Site(datetime.now(UTC), change_every_seconds or 1.0)
    runner = web.AppRunner(site.app(), access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        echo(f"[sample] 🗞️ Serving the sample site → http://{HOST}:{runner.addresses[0][1]}/", flush=True)
        await _turn_pages(site, change_every_seconds or None, stop)
    finally:
        await runner.cleanup()
    return 0


async def _turn_pages(site: Site, every_seconds: float | None, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), every_seconds)
        except TimeoutError:
            site.tick()


if __name__ == "__main__":
    sys.exit(main())
