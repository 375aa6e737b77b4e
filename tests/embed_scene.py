"""A source whose download is done: local files and maps, made by verbs, to be embedded.

scene = EmbedScene(tmp_path, server)
scene.file("u1", "Reports/Q1.md", "Sales rose.")
counts = await scene.embed()
assert scene.rows()["u1"].openai_file_id
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.outputs.vector_store.io import embed_step, json_entries
from core.outputs.vector_store.io.openai_setup import StoreOwner, open_openai_store
from core.outputs.vector_store.io.openai_store import OpenAiStore
from core.settings import Settings
from core.sources.sharepoint.io.map_files import read_rows, rewrite
from core.sources.sharepoint.io.step_context import Step
from core.sources.sharepoint.io.storage_paths import CrawlerStorage
from core.sources.sharepoint.map_columns import FileRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.step_results import EmbedCounts, SourceStatistics
from core.sources.sharepoint.stored_source import StoredSource
from core.sources.sharepoint.time_stamps import timestamp_text, utc_text
from tests.openai_store_server import OpenAiStoreServer

SITE = "https://contoso.sharepoint.com/sites/demo"
LIBRARY = "/Shared Documents"
DAY = 1_705_319_400.0


async def no_wait(_: float) -> None:
    """Instead of waiting for a rate limit."""


class EmbedScene:
    """See the top of the file."""

    def __init__(
        self,
        folder: Path,
        server: OpenAiStoreServer,
        *,
        domain_id: str = "DOMAIN01",
        source_id: str = "docs",
        source_type: SharePointType = SharePointType.FILES,
        ids: dict[str, str] | None = None,
    ) -> None:
        self.settings = Settings(persistent_storage_path=folder, openai_wait_seconds=60, **server.settings)
        self.server = server
        self.storage = CrawlerStorage(folder)
        self.source = StoredSource(domain_id, source_id, source_type, SITE, LIBRARY)
        self.paths = self.source.paths
        self.ids = {} if ids is None else ids
        """The ids of vector stores by domain: scenes that share it share their stores."""
        self._listed: dict[str, SharePointRow] = {}
        self._files: dict[str, FileRow] = {}
        self.warnings: list[str] = []

    # ── what the download did ──

    def file(self, unique_id: str, name: str, text: str = "", *, day: int = 0, **cells: str) -> FileRow:
        """A file is in SharePoint and on the disk."""
        content = (text or f"The text of {name}.").encode()
        url = f"/sites/demo{LIBRARY}/{name}"
        stamp = DAY + 86_400 * day
        common = {
            "sharepoint_listitem_id": str(len(self._listed) + 1),
            "sharepoint_unique_file_id": unique_id,
            "filename": name.rpartition("/")[2],
            "file_type": name.rpartition(".")[2],
            "file_size": str(len(content)),
            "server_relative_url": url,
            "last_modified_utc": utc_text(stamp),
            "last_modified_timestamp": timestamp_text(stamp),
        }
        encoded = url.replace(" ", "%20")
        self._listed[unique_id] = SharePointRow(
            **common, url=f"https://contoso.sharepoint.com{encoded}", raw_url=f"https://contoso.sharepoint.com{url}"
        )
        row = FileRow(**{**common, "downloaded_utc": utc_text(stamp + 60), **cells})
        path = self.paths.embedded(row)
        row = replace(row, file_relative_path=cells.get("file_relative_path", self.paths.to_map(path)))
        self.forget(unique_id)
        self._files[unique_id] = row
        target = self.storage.crawler / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        self.write()
        return row

    def forget(self, unique_id: str) -> None:
        """The download removed a file."""
        row = self._files.pop(unique_id, None)
        if row is not None and row.file_relative_path:
            self.local(row).unlink(missing_ok=True)
        self.write()

    def local(self, row: FileRow | VectorStoreRow) -> Path:
        place = self.paths.from_map(row.file_relative_path)
        assert place is not None
        return self.storage.crawler / place

    def write(self) -> None:
        """Write both maps of the download."""
        self.folder.mkdir(parents=True, exist_ok=True)
        rewrite(self.storage.map_file(self.source, SharePointRow), SharePointRow, self._listed.values())
        rewrite(self.storage.map_file(self.source, FileRow), FileRow, self._files.values())

    def read_again(self) -> None:
        """The next download begins with what the embed step wrote."""
        self._files = self.files()

    # ── embedding ──

    @asynccontextmanager
    async def store(
        self, should_stop: Callable[[], bool] = lambda: False, **settings: Any
    ) -> AsyncIterator[OpenAiStore]:
        domain_id = self.source.domain_id
        domain = StoreOwner(
            domain_id,
            "",
            self.storage.domain_folder(domain_id),
            lambda: self.ids.get(domain_id, ""),
            lambda store_id: self.ids.update({domain_id: store_id}),
        )
        async with open_openai_store(self.settings.model_copy(update=settings), domain, no_wait, should_stop) as store:
            yield store

    async def embed(
        self,
        *,
        is_full: bool = False,
        retry_batches: int = 1,
        began_ts: float = 0.0,
        should_stop: Callable[[], bool] = lambda: False,
        **settings: Any,
    ) -> EmbedCounts:
        statistics = SourceStatistics(self.source.source_id, self.source.source_type)
        step = Step(statistics, retry_batches=retry_batches, began_ts=began_ts, should_stop=should_stop)
        async with self.store(should_stop, **settings) as store:
            counts = await embed_step.embed(store, self.storage, self.source, step, is_full=is_full)
        self.warnings = step.warnings
        self.read_again()
        return counts

    # ── looking ──

    @property
    def folder(self) -> Path:
        return self.storage.source_folder(self.source)

    @property
    def store_id(self) -> str:
        return self.ids[self.source.domain_id]

    def rows(self) -> dict[str, VectorStoreRow]:
        path = self.storage.map_file(self.source, VectorStoreRow)
        return {row.sharepoint_unique_file_id: row for row in read_rows(path, VectorStoreRow)}

    def files(self) -> dict[str, FileRow]:
        path = self.storage.map_file(self.source, FileRow)
        return {row.sharepoint_unique_file_id: row for row in read_rows(path, FileRow)}

    def metadata(self) -> list[dict[str, Any]]:
        with self.storage.files_metadata(self.source.domain_id).open("rb") as file:
            return list(json_entries.read_entries(file))

    def contents(self) -> dict[str, str]:
        """What can be found in the store, by item."""
        return {one: data.decode() for one, data in self.server.content(self.store_id).items()}

    def disk(self) -> dict[str, bytes]:
        """Every file below both folders."""
        return {
            str(path.relative_to(self.storage.root)): path.read_bytes()
            for path in sorted(self.storage.root.rglob("*"))
            if path.is_file()
        }

    def state(self) -> dict[str, Any]:
        """All that a second run must not change."""
        return {"disk": self.disk(), "store": self.contents(), "global": sorted(self.server.files)}
