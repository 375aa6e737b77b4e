"""Download and process a source in processes that kill themselves, each before another change of the disk.

    python -m tests.sharepoint_steps BEFORE TRIALS SITE_URL SOURCE_TYPE LIST_NAME MODE POINTS

BEFORE is a storage, of which each process gets a copy in TRIALS: `whole` lives to its end, `1`, `2`, … are killed
before that change. POINTS of them are tried; 0: all.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

from core.secret_text import SecretStr
from core.settings import Settings
from core.sources.sharepoint.io import sharepoint_requests  # noqa: F401 # imported once, before the forks
from core.sources.sharepoint.io.download_step import download
from core.sources.sharepoint.io.process_step import process
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import SourceStatistics
from core.sources.sharepoint.stored_source import StoredSource

DISK_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "fcntl.flock")
URL_PARTS = {SharePointType.FILES: "/Shared Documents", SharePointType.SITE_PAGES: "/SitePages"}


def main(before: str, trials: str, site_url: str, type_name: str, list_name: str, mode: str, points: str) -> None:
    """Run a process that lives, then one for each point."""
    source_type = SharePointType(type_name)
    source = StoredSource("D", "s", source_type, site_url, URL_PARTS.get(source_type, ""), list_name)
    whole = Path(trials, "whole")
    assert fork(Path(before), whole, source, mode, 0) == 0
    changes = int((whole / "changes").read_text())
    step = max(changes // int(points), 1) if int(points) else 1
    for point in range(1, changes + 1, step):
        assert fork(Path(before), Path(trials, str(point)), source, mode, point) == -signal.SIGKILL


def fork(before: Path, storage: Path, source: StoredSource, mode: str, kill_at: int) -> int:
    """Run the steps in a process of its own; return its exit code."""
    shutil.copytree(before, storage)
    child = os.fork()
    if child == 0:
        is_done = False
        try:
            (storage / "changes").write_text(str(asyncio.run(run(storage, source, mode, kill_at))))
            is_done = True
        finally:
            os._exit(0 if is_done else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def run(storage: Path, source: StoredSource, mode: str, kill_at: int) -> int:
    """Run both steps; return how often the disk was changed."""
    settings = Settings(sharepoint_access_token=SecretStr("T"), fetch_allowed_hosts=("127.0.0.0/8",))
    site = SharePointSite.open(settings, source.site_url)
    step = Step(SourceStatistics("s", str(source.source_type)), downloads_at_once=1)
    changes = 0

    def count(event: str, _values: object) -> None:
        nonlocal changes
        if event in DISK_CHANGES:
            changes += 1
            if changes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    await download(site, CrawlerStorage(storage), source, mode, step)
    await process(CrawlerStorage(storage), source, step)
    return changes


if __name__ == "__main__":
    main(*sys.argv[1:])
