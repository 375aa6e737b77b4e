"""SharePoint end to end: a domain.json on the disk, one command, real servers on loopback, real processes."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from core.sources.sharepoint.step_results import NOT_DOWNLOADED
from core.store import connect
from tests import commands, files, prefork
from tests.openai_store_server import OpenAiStoreServer
from tests.sharepoint_server import DOWNLOAD, SharePointServer

pytestmark = pytest.mark.long

DOMAIN = "DOMAIN01"
FILLER = "The pump station reports its level every ten minutes to the office down the valley. " * 3
MAPS = ("sharepoint_map.csv", "files_map.csv", "vectorstore_map.csv")
FOLDERS = {"docs_main": "01_files", "tasks": "02_lists", "pages_all": "03_sitepages"}


class Tenant:
    """A site with a library, a list and pages, and the domain that names them."""

    def __init__(self, server: SharePointServer, settings: Settings) -> None:
        self.server, self.settings = server, settings
        self.storage = settings.persistent_storage_path
        self.environment = {"EMBEDDER": "none", "SHAREPOINT_ACCESS_TOKEN": "T", "LOG_LEVEL": "INFO"}
        server.file("Reports/Q1 2024.docx", files.docx(files.paragraph(f"Grommet budget. {FILLER}")))
        server.file("notes.md", f"# Notes\n\nAlternator upkeep. {FILLER}".encode())
        server.file("skipped.exe", b"MZ")
        self.tasks = server.item_list("Project Tasks")
        self.row = server.row(Title=f"Replace the flywheel. {FILLER}")
        self.pages = server.pages()
        server.page("Home.aspx", "Home", wiki=f"<h1>Welcome</h1><p>Sprocket news. {FILLER}</p>")

    def write_domain(self, **more: Any) -> None:
        site = self.server.site_url
        library = {"site_url": site, "sharepoint_url_part": "/Shared Documents", "filter": ""}
        pages = {"site_url": site, "sharepoint_url_part": "/SitePages", "filter": ""}
        domain = {
            "name": "My Domain",
            "description": "Domain description",
            "vector_store_name": "my-vector-store",
            "vector_store_id": "",
            "file_sources": [{"source_id": "docs_main", **library}],
            "list_sources": [{"source_id": "tasks", "site_url": site, "list_name": "Project Tasks", "filter": ""}],
            "sitepage_sources": [{"source_id": "pages_all", **pages}],
            **more,
        }
        self.domain_json.parent.mkdir(parents=True, exist_ok=True)
        self.domain_json.write_text(json.dumps(domain, indent=2))

    @property
    def domain_json(self) -> Path:
        return self.storage / "domains" / DOMAIN / "domain.json"

    async def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return await commands.run(self.settings, *command, **self.environment)

    async def crawl(self, *more: str) -> subprocess.CompletedProcess[str]:
        return await self.run("scripts.domain", "crawl", DOMAIN, *more)

    async def kill_when(self, is_time: Callable[[], bool]) -> None:
        """Start a crawl, and kill it as soon as something is so."""
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
        variables = kept | {"PYTHONPATH": str(commands.ROOT)} | commands.environment(self.settings) | self.environment
        with tempfile.TemporaryFile() as output:
            command = ("scripts.domain", "crawl", DOMAIN)
            process = await asyncio.to_thread(prefork.start, command, commands.ROOT, variables, output, output)
            while not is_time():
                assert process.poll() is None
                await asyncio.sleep(0.005)
            process.kill()
            await asyncio.to_thread(process.wait)

    def source_folder(self, source: str) -> Path:
        return self.storage / "crawler" / DOMAIN / FOLDERS[source] / source

    def copies(self) -> dict[str, bytes]:
        """Every local copy, by its path below the crawler's folder."""
        root = self.storage / "crawler"
        found = (path for path in root.rglob("*") if path.is_file() and path.name not in MAPS)
        return {str(path.relative_to(root)): path.read_bytes() for path in found if not path.name.startswith(".")}

    def maps(self) -> dict[str, bytes]:
        return {f"{one}/{name}": (self.source_folder(one) / name).read_bytes() for one in FOLDERS for name in MAPS}

    def rows(self, source: str, name: str) -> list[dict[str, str]]:
        with (self.source_folder(source) / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def metadata(self) -> list[dict[str, Any]]:
        return json.loads((self.storage / "domains" / DOMAIN / "files_metadata.json").read_text())


@pytest.fixture
def tenant(settings: Settings, redis: connect.Client) -> Iterator[Tenant]:
    with SharePointServer() as server:
        yield Tenant(server, settings)


@pytest.fixture(params=["redis", "openai"])
def indexed(request: pytest.FixtureRequest, tenant: Tenant) -> Iterator[Tenant]:
    """The tenant, with either vector store."""
    if request.param == "redis":
        tenant.write_domain()
        yield tenant
        return
    with OpenAiStoreServer() as server:
        tenant.environment |= server.environment
        tenant.write_domain(index="openai")
        yield tenant


async def test_one_command(indexed: Tenant) -> None:
    """Copies, three maps of each source, metadata and an archive are there, and search finds every kind of item."""
    done = await indexed.crawl()

    assert done.returncode == 0, done.stderr
    assert set(indexed.copies()) == {
        f"{DOMAIN}/01_files/docs_main/02_embedded/Reports/Q1 2024.docx",
        f"{DOMAIN}/01_files/docs_main/02_embedded/notes.md",
        f"{DOMAIN}/02_lists/tasks/01_originals/Project Tasks.csv",
        f"{DOMAIN}/02_lists/tasks/02_embedded/1.md",
        f"{DOMAIN}/03_sitepages/pages_all/01_originals/Home.aspx",
        f"{DOMAIN}/03_sitepages/pages_all/02_embedded/Home.html",
    }
    assert [row["filename"] for row in indexed.rows("docs_main", "sharepoint_map.csv")] == [
        *("Q1 2024.docx", "notes.md", "skipped.exe"),
    ]
    for source, count in {"docs_main": 2, "tasks": 1, "pages_all": 1}.items():
        kept, stored = indexed.rows(source, "files_map.csv"), indexed.rows(source, "vectorstore_map.csv")
        assert [row["file_relative_path"] for row in kept] == [row["file_relative_path"] for row in stored]
        assert len(stored) == count
        assert all(row["openai_file_id"] and row["embedded_utc"] and not row["embedding_error"] for row in stored)
    assert sorted(entry["filename"] for entry in indexed.metadata()) == [
        "1.md",
        "Home.aspx",
        "Q1 2024.docx",
        "notes.md",
    ]
    [archive] = (indexed.storage / "reports" / "crawls").glob(f"*_{DOMAIN}_all_incremental.zip")
    with zipfile.ZipFile(archive) as opened:
        report = json.loads(opened.read("report.json"))
        assert sum(name.endswith("_map.csv") for name in opened.namelist()) == len(FOLDERS) * len(MAPS)
    assert len(report["sources"]) == len(FOLDERS)
    found = json.loads((await indexed.run("scripts.search", "grommet alternator flywheel sprocket", "--json")).stdout)
    ends = sorted(page["url"].rpartition("/")[2] for page in found["results"])
    assert ends == ["DispForm.aspx?ID=1", "Home.aspx", "Q1%202024.docx", "notes.md"]


async def test_a_second_crawl_changes_nothing(indexed: Tenant) -> None:
    """No download, no upload, and every byte of the maps and of the metadata is as it was."""
    await indexed.crawl()
    copies, maps, metadata = indexed.copies(), indexed.maps(), indexed.metadata()
    downloads = len(indexed.server.downloads)

    done = await indexed.crawl()

    assert done.returncode == 0, done.stderr
    assert (indexed.copies(), indexed.maps(), indexed.metadata()) == (copies, maps, metadata)
    assert len(indexed.server.downloads) == downloads


async def test_a_dead_site_is_skipped(tenant: Tenant) -> None:
    """The other source is crawled; what was known of the dead one stays, and the command says why."""
    site = tenant.server.site_url
    tenant.server.site("/sites/other")
    tenant.server.library("Documents", "Shared Documents")
    tenant.server.file("other.md", f"# Other\n\nWords of the other site. {FILLER}".encode())
    library = {"sharepoint_url_part": "/Shared Documents", "filter": ""}
    sources = [
        {"source_id": "other", "site_url": tenant.server.site_url, **library},
        {"source_id": "docs_main", "site_url": site, **library},
    ]
    tenant.write_domain(file_sources=sources, list_sources=[], sitepage_sources=[])
    await tenant.crawl()
    before = tenant.copies()
    tenant.server.kill_site()
    tenant.server.at = tenant.server.documents
    tenant.server.update("notes.md", f"# Notes\n\nAnother text. {FILLER}".encode())

    done = await tenant.crawl("--json")
    results = {one["source"]: one for one in json.loads(done.stdout)}

    assert done.returncode == 1
    assert (results[f"{DOMAIN}.other"]["status"], results[f"{DOMAIN}.other"]["problem"]) == ("partial", "incomplete")
    assert results[f"{DOMAIN}.docs_main"]["status"] == "succeeded"
    assert set(tenant.copies()) == set(before)
    found = json.loads((await tenant.run("scripts.search", "words of the other site", "--json")).stdout)
    assert found["results"]


async def test_killed_while_it_downloads_or_uploads(tenant: Tenant) -> None:
    """kill -9 at two places: one more run ends like one that nobody disturbed, and the store has nothing twice."""
    with OpenAiStoreServer() as store:
        tenant.environment |= store.environment
        tenant.write_domain(index="openai")
        hold = tenant.server.hold(on=DOWNLOAD)
        await tenant.kill_when(hold.reached.is_set)
        tenant.server.heal()
        await tenant.kill_when(lambda: store.count("POST /files") > 0)

        done = await tenant.crawl()

        assert done.returncode == 0, done.stderr
        [store_id] = store.stores
        assert store.names(store_id) == ["1.md", "Home.html", "Q1 2024.docx", "notes.md"]
        assert sorted(one.filename for one in store.files.values()) == store.names(store_id)
        assert [row["filename"] for row in tenant.rows("docs_main", "vectorstore_map.csv")] == [
            "Q1 2024.docx",
            "notes.md",
        ]
        assert len(tenant.metadata()) == 4


async def test_two_crawls_at_once(indexed: Tenant) -> None:
    """Two commands at the same moment: every item is downloaded once, and both end well."""
    first, second = await asyncio.gather(indexed.crawl(), indexed.crawl())

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert len(indexed.server.downloads) == 2
    assert [len(indexed.rows(one, "vectorstore_map.csv")) for one in FOLDERS] == [2, 1, 1]


@pytest.mark.parametrize("step", ["process", "embed"])
async def test_a_step_before_any_download(tenant: Tenant, step: str) -> None:
    """It is incomplete, and says once for each source what comes first."""
    tenant.write_domain()

    done = await tenant.run("scripts.domain", step, DOMAIN)

    assert done.returncode == 1
    assert done.stdout.count("partial (incomplete)") == len(FOLDERS)
    for source in FOLDERS:
        assert f"{DOMAIN}.{source}: {NOT_DOWNLOADED}\n" in done.stderr
    assert "Errno" not in done.stderr


async def test_a_dry_run_that_cannot_ask(tenant: Tenant) -> None:
    """Without a token, or with a site that is not there, it ends with 1 and the sentence, and with no traceback."""
    tenant.write_domain(list_sources=[], sitepage_sources=[])
    tenant.environment["SHAREPOINT_ACCESS_TOKEN"] = ""
    without_token = await tenant.crawl("--dry-run")
    tenant.environment["SHAREPOINT_ACCESS_TOKEN"] = "T"
    well = await tenant.crawl("--dry-run")
    tenant.server.kill_site()
    dead = await tenant.run("scripts.domain", "download", DOMAIN, "--dry-run", "--json")

    assert [one.returncode for one in (without_token, well, dead)] == [1, 0, 1]
    assert "Set SHAREPOINT_TENANT_ID" in without_token.stdout
    assert "SharePoint answers 404" in json.loads(dead.stdout)[0]["listing"]
    assert "Traceback" not in dead.stderr
    assert "office365" not in dead.stderr
