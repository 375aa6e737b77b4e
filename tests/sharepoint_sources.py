"""A domain with a library, a list and site pages, looked at source by source."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from tests.sharepoint_scene import DOMAIN, SOURCE, Scene, shown
from tests.sharepoint_server import Column

TASKS, PAGES = "tasks", "pages_all"
FOLDERS = {
    SOURCE: CFG.PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER,
    TASKS: CFG.PERSISTENT_STORAGE_PATH_LISTS_FOLDER,
    PAGES: CFG.PERSISTENT_STORAGE_PATH_SITEPAGES_FOLDER,
}
MAPS = (CFG.SHAREPOINT_MAP_CSV, CFG.FILE_MAP_CSV, CFG.VECTOR_STORE_MAP_CSV)


class ThreeSources:
    """The three kinds of sources in one domain."""

    def __init__(self, scene: Scene, index: str) -> None:
        self.scene, self.server, self.index = scene, scene.server, index
        server, site = scene.server, scene.server.site_url
        server.file("Reports/Q1.md", b"# Q1\n\nRevenue of the first quarter rose.")
        self.list = server.item_list("Project Tasks", [Column("Body", "Notes", "Note")])
        self.tasks = [server.row(Title=f"Task {number}", Body=f"Words of task {number}.") for number in (1, 2, 3)]
        self.pages = server.pages()
        for name in ("Home", "News/About"):
            server.page(f"{name}.aspx", name, wiki=f"<h1>{name}</h1><p>Words of {name}.</p>")
        scene.write_domain(
            index=index,
            list_sources=[{"source_id": TASKS, "site_url": site, "list_name": "Project Tasks", "filter": ""}],
            sitepage_sources=[
                {"source_id": PAGES, "site_url": site, "sharepoint_url_part": "/SitePages", "filter": ""}
            ],
        )

    def folder(self, source: str) -> Path:
        return self.scene.crawler / DOMAIN / FOLDERS[source] / source

    def rows(self, source: str, name: str = CFG.FILE_MAP_CSV) -> dict[str, dict[str, str]]:
        """The rows of a map by file name, which is unique here."""
        with (self.folder(source) / name).open(newline="", encoding="utf-8") as file:
            rows = [{column: shown(cell) for column, cell in row.items()} for row in csv.DictReader(file)]
        assert len({row["filename"] for row in rows}) == len(rows)
        return {row["filename"]: row for row in rows}

    def copies(self, source: str) -> dict[str, bytes]:
        """Every file in the folders of a source by its path below them."""
        folder = self.folder(source)
        found = (path for path in folder.glob("0*/**/*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    def embedded(self, source: str) -> dict[str, str]:
        """The texts that are embedded, by file name."""
        return {
            row["filename"]: (self.scene.crawler / row["file_relative_path"].replace("\\", "/")).read_text()
            for row in self.rows(source).values()
        }

    def in_store(self, source: str) -> set[str]:
        """The names of the items that the store has."""
        rows = self.rows(source, CFG.VECTOR_STORE_MAP_CSV)
        if self.index == "openai":
            files = self.scene.store.stores[self.scene.store_id].files
            ours = {one.id for one in files.values() if one.attributes["source_id"] == source}
            assert ours == {row["openai_file_id"] for row in rows.values() if row["openai_file_id"]}
        return {name for name, row in rows.items() if row["openai_file_id"] and not row["embedding_error"]}

    def state(self) -> dict[str, Any]:
        """Everything that a crawl without a change leaves as it is."""
        maps = {f"{one}/{name}": (self.folder(one) / name).read_bytes() for one in FOLDERS for name in MAPS}
        return {**maps, **{one: self.copies(one) for one in FOLDERS}, "metadata": self.scene.metadata}

    async def crawl(self) -> None:
        """Crawl, and look whether maps, disk and store agree; crawl again, which changes nothing."""
        await self.scene.crawl()
        self.check()
        before = self.state()
        self.scene.forget()
        await self.scene.crawl()
        assert self.state() == before
        assert (len(self.server.downloads), self.scene.store.changes()) == (0, [])

    def check(self, sources: Sequence[str] = (SOURCE, TASKS, PAGES)) -> None:
        """Maps, disk and store agree with each other."""
        for source in sources:
            rows, folder = self.rows(source), self.folder(source)
            named = {row["file_relative_path"] for row in rows.values()}
            on_disk = {
                str(path.relative_to(self.scene.crawler)).replace("/", "\\")
                for path in folder.glob(f"{CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER}/**/*")
                if path.is_file()
            }
            assert named == on_disk
            assert rows.keys() == self.rows(source, CFG.SHAREPOINT_MAP_CSV).keys() == self.in_store(source)
            assert all(row["sharepoint_error"] == row["processing_error"] == "" for row in rows.values())
