"""Runs over SharePoint sources: single steps, the loss guard, pause and resume, stores that are away, dry runs."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.errors import FreshetError
from core.runs.io.run_control import RunControl
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.context import Context
from core.runtime.job_limit import JobLimit
from core.settings import Settings
from core.sources.crawl_parameters import CrawlParameters, StepName
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.sources.io.dry_run import dry_run_source
from core.sources.io.source_losses import approve_losses
from core.store import connect
from tests import commands
from tests.crawled_site import counts, crawl_context, text
from tests.openai_store_server import OpenAiStoreServer
from tests.run_requests import ask, runs_of
from tests.sharepoint_server import DOWNLOAD, LISTING, SharePointServer
from workers import crawl_jobs

SID = "DOMAIN01.docs"
FILLER = "The pump station reports its level every ten minutes to the office down the valley. " * 3


class Library:
    """A library, its domain, and the runs over it."""

    def __init__(self, server: SharePointServer, context: Context) -> None:
        self.server, self.context = server, context
        self.folder = context.settings.persistent_storage_path / "crawler/DOMAIN01/01_files/docs"

    async def add(self, **more: Any) -> None:
        source = {"source_id": "docs", "site_url": self.server.site_url, "sharepoint_url_part": "/Shared Documents"}
        domain = parse_domain(json.dumps({"id": "DOMAIN01", "file_sources": [source], **more}), "/")
        await add_domain(self.context.settings, self.context.client, self.context.keys, domain)

    def put(self, *names: str) -> None:
        for name in names:
            self.server.file(name, f"Words of {name}. {FILLER}".encode())

    async def crawl(self, *steps: StepName, mode: CrawlMode = CrawlMode.INCREMENTAL, **more: Any) -> Mapping[str, str]:
        asked = CrawlParameters(steps=frozenset(steps)) if steps else CrawlParameters()
        return await crawl_source(self.context, SID, mode, asked=asked, **more)

    def copies(self) -> list[str]:
        root = self.folder / "02_embedded"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    async def text(self, name: str) -> str:
        return await text(self.context, f"{self.server.site_url}/Shared%20Documents/{name}")


@asynccontextmanager
async def opened(settings: Settings, **more: Any) -> AsyncIterator[Library]:
    with SharePointServer() as server:
        own = {"embedder": "none", "sharepoint_downloads": 1, "loss_limit_percent": 20.0, **server.settings(), **more}
        async with crawl_context(settings, **own) as context:
            yield Library(server, context)


@pytest.fixture
async def library(settings: Settings, redis: connect.Client) -> AsyncIterator[Library]:
    async with opened(settings) as made:
        await made.add()
        yield made


# ── steps ──


async def test_steps_alone(library: Library) -> None:
    """A download writes copies and maps, and nothing into the registry; the embed step does the rest."""
    library.put("a.md", "b.md")

    downloaded = await library.crawl(StepName.DOWNLOAD)
    in_registry = await library.context.source_items.count(SID)
    processed = await library.crawl(StepName.PROCESS)
    requests = len(library.server.requests)
    embedded = await library.crawl(StepName.EMBED)

    assert [run["status"] for run in (downloaded, processed, embedded)] == ["succeeded"] * 3
    assert (library.copies(), in_registry, library.has("vectorstore_map.csv")) == (["a.md", "b.md"], 0, True)
    assert json.loads(downloaded["statistics"])["download"]["downloaded"] == 2
    assert json.loads(embedded["statistics"])["embed"]["embedded"] == 2
    assert len(library.server.requests) == requests  # embedding asks SharePoint nothing
    assert "Words of a.md" in await library.text("a.md")


async def test_embedding_before_any_download(library: Library) -> None:
    """The run is incomplete and says what comes first."""
    run = await library.crawl(StepName.EMBED)

    assert (run["status"], run["problem"]) == ("partial", "incomplete")
    assert "the download step comes first" in run["message"]


async def test_failed_download_is_a_partial_run(library: Library) -> None:
    """What failed is known with its error; the next run brings it."""
    library.put("a.md", "b.md")
    library.server.fail(404, on=DOWNLOAD, times=50)

    first = await library.crawl()
    library.server.heal()
    second = await library.crawl()

    assert (first["status"], json.loads(first["statistics"])["download"]["failed"]) == ("partial", 2)
    assert (second["status"], library.copies()) == ("succeeded", ["a.md", "b.md"])
    assert "Words of a.md" in await library.text("a.md")


async def test_full_mode_downloads_and_reads_everything_again(library: Library) -> None:
    """What is in the library is downloaded once more, and nothing is lost on the way."""
    library.put("a.md", "b.md")
    await library.crawl()
    library.server.forget()

    run = await library.crawl(mode=CrawlMode.FULL)

    assert (run["status"], len(library.server.downloads)) == ("succeeded", 2)
    assert json.loads(run["statistics"])["embed"]["changed"] == 2


async def test_job_of_the_timer(library: Library) -> None:
    """A job comes to its end where a site's would leave the rest to another: nobody lists the library twice."""
    library.put("a.md", "b.md")

    await crawl_jobs.crawl(library.context, JobLimit(0.0), SID, "", CrawlMode.SCHEDULED, math.inf)

    [run] = await runs_of(library.context, RunKind.CRAWL)
    assert (run.status, run.mode, library.copies()) == (RunStatus.SUCCEEDED, "scheduled", ["a.md", "b.md"])
    assert len(library.server.listings) == 1


# ── the loss guard ──


async def test_great_loss_is_held_until_a_person_agrees(settings: Settings, redis: connect.Client) -> None:
    """Copies, maps, registry and search keep everything; after --yes all of it goes."""
    async with opened(settings, loss_limit_items=2) as library:
        await library.add()
        names = [f"{number}.md" for number in range(6)]
        library.put(*names)
        await library.crawl()
        for name in names[:4]:
            library.server.delete(name)

        held = await library.crawl()
        kept = library.copies()
        preview = await dry_run_source(library.context, SID, CrawlMode.INCREMENTAL)
        await approve_losses(library.context.client, library.context.keys, "DOMAIN01")
        agreed = await library.crawl()

        assert (held["status"], held["problem"], kept) == ("partial", "held", names)
        assert "4 of 6 items would be gone" in held["message"]
        assert (preview.removed, "4 of 6 items" in preview.held) == (4, True)
        assert (agreed["status"], library.copies()) == ("succeeded", names[4:])
        assert counts(agreed)["gone"] == 4
        assert not await library.text("0.md")


async def test_the_only_file_may_be_replaced(library: Library) -> None:
    """Another file by its name is no loss of everything."""
    library.put("a.md")
    await library.crawl()
    library.server.replace("a.md", f"Other words. {FILLER}".encode())

    run = await library.crawl()

    assert run["status"] == "succeeded"
    assert "Other words" in await library.text("a.md")


async def test_listing_cut_short_removes_nothing(library: Library) -> None:
    """An error on the second page: the run is incomplete, and everything stays."""
    library.server.page_size(1)
    library.put("a.md", "b.md", "c.md")
    await library.crawl()
    library.server.delete("a.md")
    library.server.fail(403, on=LISTING, page=2, times=50)

    run = await library.crawl()

    assert (run["status"], run["problem"]) == ("partial", "incomplete")
    assert (library.copies(), bool(await library.text("a.md"))) == (["a.md", "b.md", "c.md"], True)


# ── pause ──


async def test_pause_and_resume_during_the_download(library: Library) -> None:
    """A paused run keeps what it has downloaded; resumed, it downloads the rest, and what was under way."""
    library.put("a.md", "b.md", "c.md")
    context = library.context
    control = RunControl(context.settings, context.client, context.keys)
    hold = library.server.hold(on=DOWNLOAD)
    crawling = asyncio.create_task(library.crawl())
    await asyncio.to_thread(hold.reached.wait)
    [run] = await runs_of(context, RunKind.CRAWL)
    await ask(run, control.pause)
    hold.release()
    paused = await _paused(context, run.id)
    before = len(library.server.downloads)
    await control.resume(run.id)

    end = await crawling

    assert (paused.status, before < 3) == (RunStatus.PAUSED, True)
    assert (end["status"], library.copies()) == ("succeeded", ["a.md", "b.md", "c.md"])
    assert len(library.server.downloads) <= 4
    assert json.loads(end["statistics"])["download"]["downloaded"] == 3


async def _paused(context: Context, run_id: str) -> Run:
    while True:
        run = await context.runs.require(run_id, await connect.now(context.client))
        if run.status is RunStatus.PAUSED:
            return run
        await asyncio.sleep(0.01)


# ── vector stores ──


async def test_store_that_cannot_be_made(settings: Settings, redis: connect.Client) -> None:
    """The crawl goes on without it: copies and search are there, the run says what is missing."""
    with OpenAiStoreServer() as server:
        server.refuse("POST /vector_stores", 403, "No permission.", times=9)
        async with opened(settings, **server.settings) as library:
            await library.add(index="openai")
            library.put("a.md")

            run = await library.crawl()

            assert (run["status"], run["problem"]) == ("partial", "unpublished")
            assert "could not be created" in run["message"]
            assert (library.copies(), bool(await library.text("a.md"))) == (["a.md"], True)


async def test_store_that_does_not_exist(settings: Settings, redis: connect.Client) -> None:
    """A crawl is partial; the embed step alone has failed."""
    with OpenAiStoreServer() as server:
        async with opened(settings, **server.settings) as library:
            await library.add(index="openai", vector_store_id="vs_gone")
            library.put("a.md")

            crawled = await library.crawl()
            with pytest.raises(FreshetError, match="vs_gone"):
                await library.crawl(StepName.EMBED)
            [alone, *_] = await runs_of(library.context, RunKind.CRAWL)

            assert (crawled["status"], crawled["problem"]) == ("partial", "unpublished")
            assert (alone.status, "vs_gone" in alone.error) == ("failed", True)


async def test_file_that_cannot_be_embedded(library: Library) -> None:
    """It is in 03_failed with the reason, is not tried again while it is the same, and is tried when it changes."""
    library.put("a.md")
    library.server.file("b.pptx", b"PK\x03\x04" + bytes(300))

    first = await library.crawl()
    second = await library.crawl()
    library.server.update("b.pptx", b"PK\x03\x04" + bytes(400))
    third = await library.crawl()

    assert (first["status"], "are not read" in first["message"]) == ("partial", True)
    assert (second["status"], library.has("03_failed/b.pptx")) == ("succeeded", True)
    assert "1 file is in 03_failed" in second["message"]
    assert json.loads(second["statistics"])["embed"]["in_failed_folder"] == 1
    assert (third["status"], library.copies(), library.has("03_failed/b.pptx")) == ("partial", ["a.md"], True)


# ── dry run ──


async def test_dry_run_writes_nothing(library: Library) -> None:
    """It tells what would change and what that costs; neither the disk nor Redis is another afterwards."""
    library.put("a.md", "b.md")
    await library.crawl()
    library.server.update("a.md", b"Other words.")
    library.server.delete("b.md")
    library.put("c.md")
    library.server.forget()
    disk, store = _disk(library.folder), await commands.everything(library.context.client)

    report = await dry_run_source(library.context, SID, CrawlMode.INCREMENTAL)

    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 0)
    assert (report.uploads, report.visits, report.download_bytes > 200) == (2, 2, True)
    assert [name.rpartition("/")[2] for group in report.names.values() for name in group] == ["a.md", "c.md", "b.md"]
    assert (library.server.downloads, len(library.server.listings)) == ([], 1)
    assert _disk(library.folder) == disk
    assert await commands.everything(library.context.client) == store


async def test_dry_run_of_a_dead_site(library: Library) -> None:
    """It says why a crawl would skip it."""
    library.server.kill_site()

    report = await dry_run_source(library.context, SID, CrawlMode.INCREMENTAL)

    assert (report.added, report.removed, "404" in report.how or "site" in report.how) == (0, 0, True)


def _disk(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
