"""The sample SharePoint of `./scripts/up --sample-sharepoint`: served as long as its domain is there.

The domain is an ordinary one, which the timer and the workers crawl; `domain remove sample-sharepoint` ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

from core.keys import Keys
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_folder import DomainFolders
from core.sources.io.domain_setup import add_domain
from core.sources.sharepoint.io import sample_server
from core.store import connect, embedded, redis_health
from sample_sharepoint import harbour
from scripts.launch_sample import wait_until_open
from scripts.launch_supervisor import StopRequest, UpProcesses

log = logging.getLogger("sample")

DOMAIN_ID = "sample-sharepoint"
PORT = 8766


@contextlib.contextmanager
def running(
    settings: Settings, processes: UpProcesses, stop: StopRequest, *, is_wanted: bool, is_patient: bool
) -> Iterator[None]:
    """Serve the sample, if it is wanted or there already. Patient: wait for a Redis server that does not answer."""
    before = sample_server.ADDRESS.read(settings)
    is_there = bool(before) and DomainFolders(settings.persistent_storage_path).path(DOMAIN_ID).exists()
    if not is_wanted and not is_there:
        sample_server.ADDRESS.remove(settings)
        yield
        return
    # The port of last time: the addresses of the items have it.
    port = embedded.free_port(int(before.rpartition(":")[2]) if before else PORT)
    origin = f"http://127.0.0.1:{port}"
    processes.start([sys.executable, "-m", "scripts.sample_sharepoint", "--port", str(port)], stdout=subprocess.DEVNULL)
    if wait_until_open(port, stop):
        log.info("🗄️ Serving the sample SharePoint → %s%s", origin, harbour.SITE)
    sample_server.ADDRESS.write(settings, origin)
    if not is_there or origin != before:
        asyncio.run(_add(settings, stop, origin, is_patient))
    yield


async def _add(settings: Settings, stop: StopRequest, origin: str, is_patient: bool) -> None:
    """Add the domain of the sample; it is due to be crawled at once."""
    text = json.dumps({"id": DOMAIN_ID, **harbour.domain(origin)})
    async with connect.open_store(settings) as client:
        give_up_seconds = None if is_patient else redis_health.ONCE_WAIT_SECONDS
        await redis_health.wait_for_server(client, settings, stop.sleep, give_up_seconds)
        domain = parse_domain(text, str(settings.persistent_storage_path))
        await add_domain(settings, client, Keys.of(settings), domain)
    log.info("➕ Added the domain %s: a library, a list and two pages", DOMAIN_ID)
