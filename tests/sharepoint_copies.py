"""The copies of one SharePoint source: brought up to date by the real steps, looked at on the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from core.sources.sharepoint.io import throttle_gate
from core.sources.sharepoint.io.download_step import INCREMENTAL, download
from core.sources.sharepoint.io.map_files import read_rows
from core.sources.sharepoint.io.process_step import process
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, MapRow, SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import SourceStatistics
from core.sources.sharepoint.stored_source import StoredSource
from tests.sharepoint_server import SharePointServer

FOLDERS = {
    SharePointType.FILES: "01_files",
    SharePointType.LISTS: "02_lists",
    SharePointType.SITE_PAGES: "03_sitepages",
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No test that imports this waits for what it does not test."""
    monkeypatch.setattr(throttle_gate, "FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(throttle_gate, "_gates", {})
    caplog.set_level(logging.INFO, "crawler")


class SharePointCopies:
    """A source of the server's site, and its folder."""

    def __init__(
        self,
        server: SharePointServer,
        settings: Settings,
        storage: Path,
        source_type: SharePointType = SharePointType.FILES,
        **config: str,
    ) -> None:
        names = {SharePointType.FILES: "/Shared Documents", SharePointType.SITE_PAGES: "/SitePages"}
        config = {"sharepoint_url_part": names.get(source_type, ""), **config}
        self.server = server
        self.settings = settings.model_copy(update=server.settings())
        self.storage = CrawlerStorage(storage)
        self.source = StoredSource("D", "s", source_type, server.site_url, **config)
        self.folder = storage / "crawler" / "D" / FOLDERS[source_type] / "s"
        self.ticks = 0.0
        self.step = self.new_step()

    def new_step(self, **values: Any) -> Step:
        """A step whose clock goes on by a second at each look."""
        statistics = SourceStatistics(self.source.source_id, str(self.source.source_type))
        self.ticks += 1000
        return Step(statistics, now=self._now, began_ts=self.ticks, **values)

    def _now(self) -> float:
        self.ticks += 1
        return self.ticks

    async def download(self, mode: str = INCREMENTAL, **values: Any) -> SourceStatistics:
        """Run the download step; what it counted is returned."""
        return await self.continue_download(self.new_step(**values), mode)

    async def continue_download(self, step: Step, mode: str = INCREMENTAL) -> SourceStatistics:
        """Run the download step again for the same run."""
        self.step = step
        site = SharePointSite.open(self.settings, self.source.site_url, step.should_stop)
        try:
            counts = await download(site, self.storage, self.source, mode, step)
        finally:
            await asyncio.to_thread(site.close)
        assert counts is step.statistics.download
        return step.statistics

    async def process(self, **values: Any) -> SourceStatistics:
        """Run the process step; what it counted is returned."""
        self.step = self.new_step(**values)
        assert await process(self.storage, self.source, self.step) is self.step.statistics.process
        return self.step.statistics

    # ── looking ──

    def files(self) -> dict[str, bytes]:
        """Every file in the three folders, with its content."""
        found = (path for path in sorted(self.folder.glob("0*/**/*")) if path.is_file() or path.is_symlink())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def rows(self) -> dict[str, FileRow]:
        """The rows of files_map.csv by the end of the item's URL."""
        return {_short(row.server_relative_url): row for row in self._map(FileRow)}

    def listed(self) -> dict[str, SharePointRow]:
        """The rows of sharepoint_map.csv by the end of the item's URL."""
        return {_short(row.server_relative_url): row for row in self._map(SharePointRow)}

    def paths(self) -> dict[str, str]:
        """The path of each row below the source's folder."""
        begin = "\\".join(self.folder.parts[-3:]) + "\\"
        return {name: row.file_relative_path.removeprefix(begin) for name, row in self.rows().items()}

    def state(self) -> dict[str, Any]:
        """Everything that is on the disk, but for the times of downloads."""
        rows = {
            name: (*row.cells()[:9], row.sharepoint_error, row.processing_error) for name, row in self.rows().items()
        }
        times = {name: (self.folder / name).stat().st_mtime for name in self.files()}
        return {"files": self.files(), "times": times, "rows": rows, "listed": self.listed()}

    def path(self, name: str) -> Path:
        """The path of a file in the source's folder."""
        return self.folder / name

    def map_text(self, row_class: type[MapRow] = FileRow) -> str:
        return (self.folder / row_class.file_name).read_text()

    def _map(self, row_class: type[Any]) -> list[Any]:
        return list(read_rows(self.folder / row_class.file_name, row_class))


def _short(url: str) -> str:
    for root in ("/Shared Documents/", "/SitePages/", "DispForm.aspx?ID="):
        url = url.rpartition(root)[2]
    return url


def after(count: int) -> Callable[[], bool]:
    """Return a `should_stop` that says so after it was asked so often."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > count

    return should_stop
