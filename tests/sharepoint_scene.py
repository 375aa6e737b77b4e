"""A SharePoint library, a vector store, and a domain that keeps both in step: the scene of the edge cases.

    async def test_a1(scene):
        scene.server.file("new.md", b"…")
        await scene.crawl_until_equal()

`check()` compares everything with the server's own model: the files on disk, the three map files, what the store has,
files_metadata.json and the registry. `crawl_until_equal` crawls, checks, crawls once more, and checks that the second
crawl has changed nothing: no byte of a map file, no download, no upload.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from core import ids
from core.runs.run import Run
from core.runtime.context import Context
from core.settings import Settings
from core.sources.io.crawl_runs import CrawlMode
from core.sources.io.domain_crawl import DomainCrawl
from core.sources.io.domain_file_sync import DomainFileSync
from core.sources.io.domain_store import DomainStore
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.store import connect
from core.urls.normalise import normalise_url
from sample_sharepoint.model import Item
from tests.crawled_site import crawl_context
from tests.openai_store_server import OpenAiStoreServer
from tests.sharepoint_server import SharePointServer

DOMAIN, SOURCE = "DOMAIN01", "docs_main"
STANDARD_FIELDS = {
    *("sharepoint_listitem_id", "sharepoint_unique_file_id", "openai_file_id", "file_relative_path", "url", "raw_url"),
    *("server_relative_url", "filename", "file_type", "file_size", "last_modified_utc", "last_modified_timestamp"),
    *("embedded_utc", "source_id", "source_type"),
}
Rows = dict[str, dict[str, str]]


def shown(cell: str) -> str:
    """A cell as a spreadsheet shows it: the quotation mark that keeps it from being executed is not a part of it."""
    return cell[1:] if re.match(r"'[=+\-@\t\r']", cell) else cell


@dataclass
class Scene:
    """One library, one store, one domain."""

    context: Context
    server: SharePointServer
    store: OpenAiStoreServer
    caplog: pytest.LogCaptureFixture
    failing: set[str] = field(default_factory=set)
    """Paths below the library's root whose files are in 03_failed."""

    # ── places ──

    @property
    def root(self) -> Path:
        return Path(self.context.settings.persistent_storage_path)

    @property
    def crawler(self) -> Path:
        return self.root / CFG.PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER

    @property
    def folder(self) -> Path:
        """The folder of the source."""
        return self.crawler / DOMAIN / CFG.PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER / SOURCE

    @property
    def embedded(self) -> Path:
        return self.folder / CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER

    @property
    def failed(self) -> Path:
        return self.folder / CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER

    @property
    def domain_file(self) -> Path:
        return self.root / CFG.PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER / DOMAIN / CFG.DOMAIN_JSON

    @property
    def domain(self) -> dict[str, Any]:
        return dict(json.loads(self.domain_file.read_text()))

    @property
    def store_id(self) -> str:
        return str(self.domain["vector_store_id"])

    def write_domain(self, **changes: Any) -> None:
        """Write the domain.json as a person would."""
        domain = {
            "name": "My Domain",
            "description": "A library",
            "vector_store_name": "my-vector-store",
            "vector_store_id": "",
            "index": "openai",
            "file_sources": [
                {
                    "source_id": SOURCE,
                    "site_url": self.server.site_url,
                    "sharepoint_url_part": "/Shared Documents",
                    "filter": "",
                }
            ],
            "list_sources": [],
            "sitepage_sources": [],
        }
        self.domain_file.parent.mkdir(parents=True, exist_ok=True)
        self.domain_file.write_text(json.dumps(domain | changes, indent=2))

    # ── doing ──

    async def crawl(self, mode: str = "incremental") -> Run:
        """Crawl the domain once, as the command does."""
        context = self.context
        await DomainFileSync(context.settings, context.client, context.keys, is_own_command=True).one(DOMAIN)
        domain = await DomainStore(context.client, context.keys).require(DOMAIN)
        return await DomainCrawl(context, DOMAIN, domain.sources, CrawlMode(mode)).run()

    async def crawl_until_equal(self, *log_lines: str) -> None:
        """Crawl, compare everything and look for these log lines; crawl again, which changes nothing."""
        self.caplog.clear()
        await self.crawl()
        self.check()
        assert [line for line in log_lines if not self.has_logged(line)] == []
        await self.check_nothing_changes()

    async def check_nothing_changes(self) -> None:
        before = self.state()
        self.forget()
        await self.crawl()
        assert self.state() == before
        assert (len(self.server.downloads), self.store.changes()) == (0, [])

    def forget(self) -> None:
        """Count requests and log lines from here."""
        self.server.forget()
        self.store.forget_requests()
        self.caplog.clear()

    # ── looking ──

    def rows(self, name: str) -> Rows:
        """The rows of a map file, by unique id."""
        with (self.folder / name).open(newline="", encoding="utf-8") as file:
            rows = [{name: shown(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
        assert len({row["sharepoint_unique_file_id"] for row in rows}) == len(rows), f"{name} names an item twice"
        return {row["sharepoint_unique_file_id"].lower(): row for row in rows}

    @property
    def sharepoint_map(self) -> Rows:
        return self.rows(CFG.SHAREPOINT_MAP_CSV)

    @property
    def files_map(self) -> Rows:
        return self.rows(CFG.FILE_MAP_CSV)

    @property
    def vectorstore_map(self) -> Rows:
        return self.rows(CFG.VECTOR_STORE_MAP_CSV)

    @property
    def metadata(self) -> list[dict[str, Any]]:
        return list(json.loads((self.domain_file.parent / CFG.FILES_METADATA_JSON).read_text()))

    def remote(self) -> dict[str, Item]:
        """The files of the library by unique id."""
        return {one.unique_id.lower(): one for one in self.server.documents.root.below() if not one.is_folder}

    def path_of(self, item: Item) -> str:
        """The path of a file below the library's root."""
        return item.path.removeprefix(f"{self.server.documents.root.path}/")

    def on_disk(self) -> set[Path]:
        """Every file below the folders of the source."""
        found = [*self.embedded.rglob("*"), *self.failed.rglob("*")]
        return {path for path in found if not path.is_dir()}

    def state(self) -> dict[str, Any]:
        """Everything that a crawl without a change leaves as it is."""
        names = (CFG.SHAREPOINT_MAP_CSV, CFG.FILE_MAP_CSV, CFG.VECTOR_STORE_MAP_CSV)
        files = {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(self.on_disk())}
        store = self.store.stores[self.store_id]
        return {
            **{name: (self.folder / name).read_bytes() for name in names},
            "files": files,
            "metadata": self.metadata,
            "store": {one.id: (one.status, dict(one.attributes)) for one in store.files.values()},
        }

    def log_lines(self) -> list[str]:
        return [record.getMessage() for record in self.caplog.records]

    def has_logged(self, text: str) -> bool:
        return any(text in line for line in self.log_lines())

    def counted(self, run: Run, step: str) -> dict[str, int]:
        """The numbers of a step that are not 0, but for how many files were listed."""
        statistics: dict[str, Any] = run.statistics["sources"][f"{DOMAIN}.{SOURCE}"]
        return {name: number for name, number in statistics[step].items() if number and name != "listed"}

    # ── one file, by its path below the library's root ──

    def row(self, path: str) -> dict[str, str]:
        """Its row in files_map.csv."""
        return self._of_path(self.files_map, path)

    def vector_row(self, path: str) -> dict[str, str]:
        return self.vectorstore_map[self.row(path)["sharepoint_unique_file_id"].lower()]

    def file_id(self, path: str) -> str:
        return self.vector_row(path)["openai_file_id"]

    def attributes(self, path: str) -> dict[str, Any]:
        return self.store.stores[self.store_id].files[self.file_id(path)].attributes

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Its entries in files_metadata.json, oldest first."""
        unique_id = self.row(path)["sharepoint_unique_file_id"]
        return [entry for entry in self.metadata if entry["sharepoint_unique_file_id"] == unique_id]

    def set_custom_property(self, path: str, name: str, value: str) -> None:
        """Somebody's own program writes a field of its own."""
        entries, unique_id = self.metadata, self.row(path)["sharepoint_unique_file_id"]
        for entry in entries:
            if entry["sharepoint_unique_file_id"] == unique_id:
                entry[name] = value
        (self.domain_file.parent / CFG.FILES_METADATA_JSON).write_text(json.dumps(entries))

    async def text_of(self, path: str) -> str:
        """What the registry knows of it."""
        return await self.registry_text(self.row(path)["server_relative_url"])

    async def registry_text(self, server_relative_url: str) -> str:
        url = f"{self.server.origin}{quote(server_relative_url)}"
        item_id = ids.item_id("url", normalise_url(url))
        return await self.context.client.hget(self.context.keys.document(item_id), "markdown") or ""

    def _of_path(self, rows: Rows, path: str) -> dict[str, str]:
        wanted = f"{self.server.documents.root.path}/{path}"
        return next(row for row in rows.values() if row["server_relative_url"] == wanted)

    # ── comparing ──

    def check(self) -> None:
        """Compare everything with what the library has."""
        remote = self.remote()
        wanted = {
            unique_id: item
            for unique_id, item in remote.items()
            if item.name.rpartition(".")[2].lower() in CFG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES
        }
        self._check_sharepoint_map(remote)
        self._check_files(wanted)
        self._check_store({one: item for one, item in wanted.items() if self.path_of(item) not in self.failing})
        self._check_metadata()

    def _check_sharepoint_map(self, remote: Mapping[str, Item]) -> None:
        rows = self.sharepoint_map
        assert {one: (row["filename"], row["server_relative_url"], row["file_size"]) for one, row in rows.items()} == {
            one: (item.name, item.path, str(len(item.content or b""))) for one, item in remote.items()
        }
        for one, row in rows.items():
            assert row["last_modified_timestamp"] == str(int(remote[one].modified.timestamp()))
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", row["last_modified_utc"])

    def _check_files(self, wanted: Mapping[str, Item]) -> None:
        rows, named = self.files_map, set()
        assert rows.keys() == wanted.keys()
        for one, item in wanted.items():
            path, row = self.path_of(item), rows[one]
            folder = self.failed if path in self.failing else self.embedded
            local = self.crawler / row["file_relative_path"].replace("\\", "/")
            assert local == folder / path
            assert local.read_bytes() == item.content
            assert int(local.stat().st_mtime) == int(item.modified.timestamp())
            assert (row["filename"], row["server_relative_url"]) == (item.name, item.path)
            assert row["sharepoint_error"] == ""
            named.add(local)
        assert self.on_disk() == named

    def _check_store(self, embedded: Mapping[str, Item]) -> None:
        rows, store = self.vectorstore_map, self.store.stores[self.store_id]
        in_store = {one: row for one, row in rows.items() if row["openai_file_id"]}
        assert in_store.keys() == embedded.keys()
        for one, item in embedded.items():
            row = rows[one]
            file = store.files[row["openai_file_id"]]
            assert file.status == "completed"
            assert str(file.attributes["unique_id"]).lower() == one
            assert self.store.files[file.id].content == item.content
            assert (row["vector_store_id"], row["embedding_error"]) == (store.id, "")
            assert row["file_relative_path"] == self.files_map[one]["file_relative_path"]
        ours = {one.id for one in store.files.values() if one.attributes.get("domain") == DOMAIN}
        assert ours == {row["openai_file_id"] for row in in_store.values()}

    def _check_metadata(self) -> None:
        """Each file of the store has its entry, with every field."""
        entries = {entry["openai_file_id"]: entry for entry in self.metadata}
        assert len(entries) == len(self.metadata)
        for one, row in self.vectorstore_map.items():
            if row["openai_file_id"]:
                entry, listed = entries[row["openai_file_id"]], self.sharepoint_map[one]
                assert entry.keys() >= STANDARD_FIELDS
                assert (entry["source_id"], entry["source_type"]) == (SOURCE, "file_sources")
                assert entry["sharepoint_unique_file_id"].lower() == one
                assert entry["file_size"] == int(listed["file_size"])


@pytest.fixture
async def empty_scene(
    settings: Settings, redis: connect.Client, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Scene]:
    """A library without files, and a domain that nobody has crawled."""
    caplog.set_level("INFO")
    with SharePointServer() as server, OpenAiStoreServer() as store:
        changes = {"embedder": "none", **server.settings(), **store.settings}
        async with crawl_context(settings, **changes) as context:
            scene = Scene(context, server, store, caplog)
            scene.write_domain()
            yield scene


@pytest.fixture
async def scene(empty_scene: Scene) -> Scene:
    """Three files in two folders, crawled once."""
    server = empty_scene.server
    server.file("Guide.md", b"# Guide\n\nHow the office works, from the first day on.")
    server.file("Reports/Q1.md", b"# Q1\n\nRevenue of the first quarter rose.")
    server.file("Reports/Old/Notes.txt", b"Notes of an old meeting about nothing in particular.")
    await empty_scene.crawl()
    empty_scene.check()
    empty_scene.forget()
    return empty_scene
