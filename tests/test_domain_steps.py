"""The steps of a crawl, alone and together: what a run is asked to do, which sources it concerns, what it tells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.errors import FreshetError, NotFound
from core.runs.io.run_control import RunControl
from core.runs.io.run_worker import RunWorker
from core.runs.run import Run, RunKind, RunStatus, source_scope
from core.runtime.context import Context
from core.runtime.job_limit import JobLimit
from core.settings import Settings
from core.sources.crawl_parameters import ALL_STEPS, CrawlParameters, StepName
from core.sources.io import source_kinds
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.crawl_runs import open_crawl_run
from core.sources.io.domain_crawl import DomainCrawl
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.sources.io.domain_steps import DomainSteps
from core.sources.io.folder import FolderSource
from core.sources.sharepoint.io.step_context import Step
from core.sources.source_record import SourceRecord
from core.store import connect
from core.store.clock import ServerClock
from core.store.embedded import EmbeddedServer
from scripts import domain_crawl
from tests.api import ApiServer, api_server
from tests.faults.process import Worker
from tests.openai_store_server import OpenAiStoreServer
from tests.site import FILLER, Site
from workers import crawl_jobs

DOWNLOAD, PROCESS, EMBED = StepName.DOWNLOAD, StepName.PROCESS, StepName.EMBED


class StepFolder(FolderSource):
    """A folder that has steps, and keeps which of them it was asked for."""

    has_steps = True
    prepared: ClassVar[list[tuple[str, ...]]] = []
    published: ClassVar[list[tuple[str, ...]]] = []
    batches: ClassVar[list[int]] = []

    async def prepare(self, step: Step) -> str:
        self.prepared.append(_names(step))
        self.batches.append(step.retry_batches)
        step.statistics.download.downloaded += DOWNLOAD in step.names
        step.statistics.process.skipped += PROCESS in step.names
        return ""

    async def publish(self, step: Step) -> str:
        self.published.append(_names(step))
        return ""


def _names(step: Step) -> tuple[str, ...]:
    return tuple(str(name) for name in ALL_STEPS if name in step.names)


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[StepFolder]]:
    """Folders have steps."""
    monkeypatch.setattr(source_kinds, "SOURCES", {**source_kinds.SOURCES, "folder": StepFolder})
    yield StepFolder
    for kept in (StepFolder.prepared, StepFolder.published, StepFolder.batches):
        kept.clear()


@pytest.fixture
async def shelf(context: Context, stepped: type[StepFolder], site: Site, tmp_path: Path) -> Context:
    """The domain `shelf`: a folder of one file, which has steps, and a site of one page, which has none."""
    site.page("/")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.md").write_text(f"# one\n\n{FILLER}\n")
    await add(
        context, folder_sources=[{"id": "Notes", "path": str(folder)}], web_sources=[{"id": "site", "url": site.url()}]
    )
    return context


async def add(context: Context, **fields: Any) -> None:
    domain = parse_domain(json.dumps({"id": "shelf", **fields}), "/")
    await add_domain(context.settings, context.client, context.keys, domain)


async def run_of(context: Context, kind: RunKind) -> Run:
    [run] = await context.runs.newest(1, await connect.now(context.client), kind=kind)
    return run


# ── parameters ──────────────────────────────────────────────────────────────────────────────────


def test_parameters_come_back() -> None:
    """What a run keeps is only what is not as always, and reads as what was asked; nonsense reads as always."""
    asked = CrawlParameters(frozenset({PROCESS, EMBED}), "files", "Docs", "file_sources", 1)

    assert asked.to_run() == {
        "steps": "process,embed",
        "scope": "files",
        "source_id": "Docs",
        "source_type": "file_sources",
        "retry_batches": "1",
    }
    assert CrawlParameters.of(asked.to_run()) == asked
    assert CrawlParameters().to_run() == {}
    nonsense = {"steps": "dance", "scope": "moon", "retry_batches": "-1"}
    assert CrawlParameters.of(nonsense) == CrawlParameters.of({"retry_batches": "0"} | nonsense) == CrawlParameters()


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({}, ["web", "file", "list"]),
        ({"scope": "files"}, ["file"]),
        ({"scope": "lists"}, ["list"]),
        ({"scope": "sitepages"}, []),
        ({"source_type": "web_sources"}, ["web"]),
        ({"scope": "files", "source_type": "file_sources"}, ["file"]),
        ({"scope": "files", "source_type": "list_sources"}, []),
        ({"source_id": "Web"}, ["web"]),
        ({"source_id": "d.Web"}, ["web"]),
        ({"source_id": "web"}, []),
        ({"source_id": "Web", "scope": "files"}, []),
    ],
)
def test_sources_are_taken_by_scope_type_and_name(asked: dict[str, str], taken: list[str]) -> None:
    """All that was said has to fit; names keep their case."""
    records = [SourceRecord(f"d.{kind.title()}", kind, "d", {}) for kind in ("web", "file", "list")]

    assert [one.kind for one in records if CrawlParameters(**asked).takes(one)] == taken  # type: ignore[arg-type]


def test_what_a_run_covers() -> None:
    """A run covers what asks for no more steps and no other sources; what takes its place does the steps of both."""
    whole, files = CrawlParameters(), CrawlParameters(scope="files")
    download = CrawlParameters(frozenset({DOWNLOAD}))

    assert whole.covers(files)
    assert whole.covers(download)
    assert files.covers(CrawlParameters(source_type="file_sources"))
    assert not files.covers(whole)
    assert not download.covers(CrawlParameters(frozenset({EMBED})))
    assert CrawlParameters(frozenset({EMBED})).joined(download).steps == {DOWNLOAD, EMBED}
    assert [one.shown_scope for one in (whole, files, CrawlParameters(source_type="list_sources"))] == [
        *("all", "files", "lists")
    ]


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ({"scope": "lists"}, {"scope": "sitepages"}, ["List", "Sitepage"]),
        ({"source_type": "list_sources"}, {"scope": "files"}, ["File", "List"]),
        ({"scope": "files"}, {"source_type": "file_sources"}, ["File"]),
        ({"source_id": "Web"}, {"source_id": "Web"}, ["Web"]),
        ({"source_id": "Web"}, {"source_id": "File"}, ["Web", "File", "List", "Sitepage"]),
        ({"source_id": "Web"}, {"scope": "files"}, ["Web", "File", "List", "Sitepage"]),
        ({}, {"scope": "files"}, ["Web", "File", "List", "Sitepage"]),
    ],
)
def test_joined_requests_lose_no_source(first: dict[str, str], second: dict[str, str], taken: list[str]) -> None:
    """Who takes the place of a run does the sources of both, whichever came first, and so covers both."""
    records = [SourceRecord(f"d.{kind.title()}", kind, "d", {}) for kind in ("web", "file", "list", "sitepage")]
    one, other = CrawlParameters(**first), CrawlParameters(**second)  # type: ignore[arg-type]
    for joined in (one.joined(other), other.joined(one)):
        read_back = CrawlParameters.of(joined.to_run())

        assert [record.sid.removeprefix("d.") for record in records if read_back.takes(record)] == taken
        assert read_back.covers(one)
        assert read_back.covers(other)


# ── runs ────────────────────────────────────────────────────────────────────────────────────────


async def test_step_alone_is_a_run_with_that_step(shelf: Context, stepped: type[StepFolder]) -> None:
    """Download lists nothing and publishes nothing; embed reads what is there; a crawl does all."""
    for steps in ((DOWNLOAD,), (EMBED,), ALL_STEPS):
        asked = CrawlParameters(frozenset(steps), retry_batches=3)
        crawling = DomainCrawl(shelf, "shelf", ["shelf.Notes"], CrawlMode.INCREMENTAL, asked=asked)
        run = await crawling.run()
        child = crawling.results["shelf.Notes"].run

        assert run.status is RunStatus.SUCCEEDED, run.message
        assert child is not None
        assert child.parameters == asked.to_run()
        assert child.counts["visited"] == int(EMBED in steps)
    assert stepped.prepared == [("download",), ("embed",), ("download", "process", "embed")]
    assert stepped.published == [("embed",), ("download", "process", "embed")]
    assert stepped.batches == [3, 3, 3]


async def test_statistics_are_in_the_run(shelf: Context) -> None:
    """Of each source in its own run, of all in that of the domain; with what was skipped."""
    crawling = DomainCrawl(shelf, "shelf", ["shelf.Notes", "shelf.site"], CrawlMode.INCREMENTAL)
    run = await crawling.run()
    told = run.statistics["sources"]

    assert list(told) == ["shelf.Notes"]
    assert (told["shelf.Notes"]["download"]["downloaded"], told["shelf.Notes"]["process"]["skipped"]) == (1, 1)
    assert (told["shelf.Notes"]["source_id"], told["shelf.Notes"]["source_type"]) == ("Notes", "folder_sources")


async def test_weaker_run_is_superseded(shelf: Context) -> None:
    """By one that does what both were asked for; a stronger one goes on; what the timer began is simply replaced."""
    now = await connect.now(shelf.client)

    async def opened(*steps: StepName, mode: CrawlMode = CrawlMode.INCREMENTAL) -> Run:
        asked = CrawlParameters(frozenset(steps or ALL_STEPS))
        return await open_crawl_run(
            *(shelf.runs, RunKind.CRAWL, mode, now), domain="shelf", source="shelf.Notes", asked=asked
        )

    by_timer = await opened(mode=CrawlMode.SCHEDULED)
    download = await opened(DOWNLOAD)
    embed = await opened(EMBED)
    again = await opened(DOWNLOAD)
    whole = await opened()
    part = await opened(PROCESS)
    full = await opened(DOWNLOAD, mode=CrawlMode.FULL)

    assert download.parameters == {"steps": "download"}
    assert embed.parameters == {"steps": "download,embed", "took_over": download.id}
    assert (again.id, part.id) == (embed.id, whole.id)
    assert (full.parameters, full.mode) == ({"took_over": whole.id}, "full")
    ended = [await shelf.runs.require(run.id, now) for run in (by_timer, download, embed, whole)]
    assert {run.status for run in ended} == {RunStatus.CANCELLED}
    assert ended[1].message == "superseded by a crawl with mode incremental, steps download,embed"


async def test_continued_run_does_what_it_was_asked_for(shelf: Context, stepped: type[StepFolder]) -> None:
    """A job knows nothing but the id of its run: sources and steps are chosen by the parameters."""
    control = RunControl(shelf.settings, shelf.client, shelf.keys)
    asked = CrawlParameters(frozenset({DOWNLOAD}), source_type="folder_sources", retry_batches=1)
    run = await control.start_crawl("shelf", asked=asked)
    await crawl_jobs.crawl_domain(shelf, JobLimit(math.inf), "shelf", run.id, CrawlMode.INCREMENTAL)
    ended = await shelf.runs.require(run.id, await connect.now(shelf.client))
    children = await shelf.runs.children(run.id, await connect.now(shelf.client))

    assert (ended.status, ended.parts) == (RunStatus.SUCCEEDED, 1)
    assert [child.source for child in children] == ["shelf.Notes"]
    assert (stepped.prepared, stepped.batches, stepped.published) == ([("download",)], [1], [])


async def test_run_whose_source_is_gone_says_so(shelf: Context) -> None:
    """Nobody waits for it."""
    control = RunControl(shelf.settings, shelf.client, shelf.keys)
    run = await control.start_crawl("shelf", asked=CrawlParameters(source_id="nothing"))
    await crawl_jobs.crawl_domain(shelf, JobLimit(math.inf), "shelf", run.id, CrawlMode.INCREMENTAL)
    ended = await shelf.runs.require(run.id, await connect.now(shelf.client))

    assert (ended.status, ended.error) == (RunStatus.FAILED, "shelf has no source nothing; it has site, Notes.")


async def test_other_steps_wait_for_who_is_at_work(shelf: Context) -> None:
    """While a process downloads, a request to embed is refused with what to do; one to download is that run."""
    control, clock = RunControl(shelf.settings, shelf.client, shelf.keys), await ServerClock.ask(shelf.client)
    download = CrawlParameters(frozenset({DOWNLOAD}))
    run = await control.start_crawl("shelf", source="Notes", asked=download)
    await RunWorker(shelf.runs, clock, run, "me").join()

    assert (await control.start_crawl("shelf", source="Notes", asked=download)).id == run.id
    with pytest.raises(FreshetError, match=rf"{run.id} works on {source_scope('shelf.Notes')} now.*steps download"):
        await control.start_crawl("shelf", source="Notes", asked=CrawlParameters(frozenset({EMBED})))


# ── which sources ───────────────────────────────────────────────────────────────────────────────


async def test_sources_are_chosen(shelf: Context) -> None:
    """In the order of the domain; those with steps are known; none is a sentence."""
    steps = DomainSteps(shelf)
    chosen = await steps.select("shelf", CrawlParameters())

    assert (chosen.sids, chosen.stepped, chosen.others) == (
        ("shelf.site", "shelf.Notes"),
        ("shelf.Notes",),
        ("shelf.site",),
    )
    assert (await steps.select("shelf", CrawlParameters(source_type="web_sources"))).sids == ("shelf.site",)
    for asked, sentence in (
        (CrawlParameters(scope="files"), "shelf has no files sources."),
        (CrawlParameters(source_type="github_sources"), "shelf has no github_sources."),
        (CrawlParameters(source_id="nothing"), "shelf has no source nothing; it has site, Notes."),
    ):
        with pytest.raises(NotFound) as caught:
            await steps.select("shelf", asked)
        assert str(caught.value) == sentence


async def test_source_that_cannot_be_read_hides_no_other(shelf: Context, caplog: pytest.LogCaptureFixture) -> None:
    """Its record is damaged, and so is that of its domain: it is named and left out."""
    await shelf.client.hset(shelf.keys.source("shelf.site"), "config", "{")
    await shelf.client.hset(shelf.keys.domain("shelf"), "config", "{")
    chosen = await DomainSteps(shelf).select("shelf", CrawlParameters(source_type="folder_sources"))

    assert chosen.sids == ("shelf.Notes",)
    assert "Skipped shelf.site" in caplog.text


async def test_dead_source_does_not_stop_the_others(shelf: Context, site: Site, tmp_path: Path) -> None:
    """It is named in the end of the domain's run; the others are crawled."""
    dead = {"id": "Dead", "path": str(tmp_path / "nowhere")}
    await add(shelf, folder_sources=[dead], web_sources=[{"id": "site", "url": site.url()}])
    crawling = DomainCrawl(shelf, "shelf", ["shelf.Dead", "shelf.site"], CrawlMode.INCREMENTAL)
    run = await crawling.run()

    assert [one.status for one in crawling.results.values()] == [RunStatus.PARTIAL, RunStatus.SUCCEEDED]
    assert run.status is RunStatus.PARTIAL
    assert "shelf.Dead" in run.message


# ── people ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("adopted")
async def test_commands(shelf: Context, stepped: type[StepFolder], capsys: pytest.CaptureFixture[str]) -> None:
    """download crawls what has no steps; process and embed send jobs for it; all show what was done and skipped."""
    await domain_crawl.crawl("shelf", step=DOWNLOAD)
    downloaded = capsys.readouterr().out
    await domain_crawl.crawl("shelf", step=PROCESS, json=True)
    processed = json.loads(capsys.readouterr().out)
    await domain_crawl.crawl("shelf", step=EMBED)
    embedded = capsys.readouterr().out

    assert stepped.prepared == [("download",), ("process",), ("embed",)]
    assert "shelf.site" in downloaded
    assert [line.split() for line in downloaded.splitlines() if " download " in line] == [
        ["shelf.Notes", "download", "0", "0", "0", "0", "1", "0", "0", "–"]
    ]
    [source] = processed["sources"]
    assert (source["source"], source["statistics"]["process"]["skipped"]) == ("shelf.Notes", 1)
    assert (processed["others"]["items"], len(processed["others"]["run_ids"])) == (1, 1)
    assert embedded.startswith("Items of sources without steps: 1. Jobs sent: ")


@pytest.mark.usefixtures("adopted")
async def test_dry_run_of_a_step(shelf: Context, stepped: type[StepFolder], capsys: pytest.CaptureFixture[str]) -> None:
    """It takes no step, and sends no job."""
    for step in ALL_STEPS:
        assert await domain_crawl.crawl("shelf", step=step, dry_run=True) == 0
    told = capsys.readouterr().out

    assert told.count("Nothing was changed.") == 3
    assert (stepped.prepared, await shelf.runs.newest(9, await connect.now(shelf.client))) == ([], [])


async def test_routes(api: ApiServer, shelf: Context, stepped: type[StepFolder]) -> None:
    """Each step starts a run for what has steps, and what it always did for the rest; parameters are in the run."""
    await crawl_source(shelf, "shelf.site", CrawlMode.INCREMENTAL)
    query = "domain_id=shelf&retry_batches=1"
    download = (await api.post(f"/v2/crawler/download_data?{query}&source_id=Notes")).json
    process = (await api.post(f"/v2/crawler/process_data?{query}&mode=full")).json
    embed = (await api.post(f"/v2/crawler/embed_data?{query}&source_type=web_sources")).json
    await RunControl(shelf.settings, shelf.client, shelf.keys).cancel(process["job"]["id"])
    crawl = (await api.post(f"/v2/crawler/crawl?{query}&source_type=folder_sources")).json

    assert (download["action"], [job["kind"] for job in download["jobs"]]) == ("download_data", ["crawl"])
    assert download["job"]["parameters"] == {"steps": "download", "retry_batches": "1"}
    assert [job["kind"] for job in process["jobs"]] == ["domain", "reindex"]
    assert process["job"]["parameters"] == {"steps": "process", "retry_batches": "1"}
    assert [job["kind"] for job in embed["jobs"]] == ["embed"]
    assert crawl["job"]["parameters"] == {"source_type": "folder_sources", "retry_batches": "1"}


async def test_request_that_waits_is_taken_over(
    api: ApiServer, shelf: Context, settings: Settings, server: EmbeddedServer
) -> None:
    """Requests for other sources or steps before a worker begins: one run does all of them, and the jobs that wait
    lead to it without the timer.
    """
    asked = (
        "crawl?source_type=web_sources",
        "process_data?source_type=folder_sources",
        "download_data?source_type=folder_sources&mode=full",
    )
    answers = [(await api.post(f"/v2/crawler/{one}&domain_id=shelf")).json for one in asked]
    first, second, last = answers
    with Worker(settings.persistent_storage_path, server.url, "workers", "refresh", "--burst") as worker:
        assert await worker.ended() == 0, worker.log
    now = await connect.now(shelf.client)
    ended = await shelf.runs.require(last["job"]["id"], now)
    children = await shelf.runs.children(ended.id, now)

    assert "took over" not in first["message"]
    assert f"It took over {first['job']['id']}, which had not ended" in second["message"]
    assert ended.status is RunStatus.SUCCEEDED, (ended, answers)
    assert {child.source for child in children} == {"shelf.site", "shelf.Notes"}


# ── files_metadata.json ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def sharepoint(context: Context) -> Path:
    """The domain `shelf` with a library, and two entries in its files_metadata.json that nothing has any more."""
    await add(context, file_sources=[{"site_url": "https://contoso.sharepoint.com", "sharepoint_url_part": "/Docs"}])
    path = context.settings.persistent_storage_path / "domains/shelf/files_metadata.json"
    entries = [{"openai_file_id": name, "sharepoint_unique_file_id": name, "owner": "me"} for name in "ab"]
    path.write_text(json.dumps(entries))
    return path


def entries_of(path: Path) -> list[dict[str, str]]:
    return json.loads(path.read_text())


async def test_cleanup_over_http(api: ApiServer, sharepoint: Path) -> None:
    """What no store and no map has goes; a dry run only counts it."""
    dry = (await api.post("/v2/crawler/cleanup_metadata?domain_id=shelf&dry_run=true")).json
    kept = entries_of(sharepoint)
    done = (await api.post("/v2/crawler/cleanup_metadata?domain_id=shelf")).json
    page = await api.post("/v2/crawler/cleanup_metadata?domain_id=shelf&format=html")

    assert (dry["removed"], dry["remaining"], len(kept)) == (2, 0, 2)
    assert (done["removed"], done["remaining"], done["message"]) == (2, 0, "Removed 2; 0 remain.")
    assert entries_of(sharepoint) == []
    assert "Removed: 0; remaining: 0" in page.text


@pytest.mark.usefixtures("adopted")
async def test_cleanup_by_command(context: Context, sharepoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same; without a vector store nothing can be known, so nothing is removed."""
    await domain_crawl.cleanup("shelf", dry_run=True)
    told = capsys.readouterr().out
    await add(
        context,
        file_sources=[{"site_url": "https://contoso.sharepoint.com", "sharepoint_url_part": "/Docs"}],
        index="openai",
    )
    with pytest.raises(NotFound, match="shelf has no vector store yet"):
        await domain_crawl.cleanup("shelf")
    left = len(entries_of(sharepoint))
    await add(context, file_sources=[{"site_url": "https://contoso.sharepoint.com", "sharepoint_url_part": "/Docs"}])
    await domain_crawl.cleanup("shelf", json=True)

    assert told == "Would remove 2 of files_metadata.json; 0 remain.\n"
    assert left == 2
    assert json.loads(capsys.readouterr().out) == {
        "domain_id": "shelf",
        "dry_run": False,
        "removed": 2,
        "remaining": 0,
    }


async def test_missing_vector_store_is_404(shelf: Context) -> None:
    """Embedding into a store that is not there is refused before it begins; downloading is not."""
    folders = [{"id": "Notes", "path": str(shelf.settings.persistent_storage_path / "notes")}]
    await add(shelf, folder_sources=folders, index="openai", vector_store_id="vs_gone")
    with OpenAiStoreServer() as server:
        async with api_server(shelf.settings.model_copy(update=server.settings)) as api:
            refused = await api.post("/v2/crawler/embed_data?domain_id=shelf")
            taken = await api.post("/v2/crawler/download_data?domain_id=shelf")

    assert (refused.status, refused.error["code"]) == (404, "not_found"), refused.text
    assert "vs_gone" in refused.error["message"]
    assert taken.status == 200, taken.text
