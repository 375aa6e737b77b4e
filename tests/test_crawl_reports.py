"""Reports of crawls: when there is one, what is in it, who may have it, how long it is kept."""

from __future__ import annotations

import json
import os
import stat
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from core.errors import FreshetError, NotFound
from core.outputs.vector_store.crawl_report import CrawledSource, ReportName, is_reported, report_json
from core.outputs.vector_store.io.report_archive import ReportArchive
from core.runs.run import Run, RunKind, RunStatus
from core.runtime.context import Context, open_context
from core.settings import Settings
from core.sources.crawl_parameters import CrawlParameters, StepName
from core.sources.io.crawl import CrawlMode, crawl_source
from core.sources.io.domain_crawl import DomainCrawl
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain, remove_domain
from core.sources.io.domain_steps import DomainSteps
from core.store.connect import Client
from scripts import crawl_reports, domain_crawl, domain_report
from tests.api import ApiServer
from tests.form_client import PAGE
from tests.sharepoint_server import SharePointServer
from tests.site import FILLER

NAME = ReportName(1_736_951_100, "TEST01", "all", "full")
MAPS = ("01_files/docs/sharepoint_map.csv", "01_files/docs/files_map.csv", "02_lists/tasks/vectorstore_map.csv")


@pytest.fixture
async def shelf(context: Context, tmp_path: Path) -> Context:
    """The domain `Shelf_01` with a folder of one file, and map files as SharePoint sources of it would have them."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.md").write_text(f"# one\n\n{FILLER}\n")
    text = json.dumps({"id": "Shelf_01", "folder_sources": [{"id": "Notes", "path": str(folder)}]})
    await add_domain(context.settings, context.client, context.keys, parse_domain(text, "/"))
    for name in (*MAPS, "01_files/docs/files_map_jb_1.csv", "01_files/docs/02_embedded/files_map.csv"):
        path = tmp_path / "crawler/Shelf_01" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    return context


async def crawl(context: Context, mode: CrawlMode = CrawlMode.INCREMENTAL, **more: Any) -> Run:
    return await DomainCrawl(context, "Shelf_01", ["Shelf_01.Notes"], mode, **more).run()


def names(settings: Settings) -> list[str]:
    return sorted(path.name for path in (settings.persistent_storage_path / "reports/crawls").glob("*"))


# ── names and values ────────────────────────────────────────────────────────────────────────────


def test_names() -> None:
    """The id tells when, of which domain, which sources and how; a domain may be called like anything."""
    assert NAME.id == "crawls/2025-01-15_14-25-00_TEST01_all_full"
    for domain in ("TEST01", "a_b-c", "all_full", "x_files_incremental"):
        name = ReportName(NAME.created_ts, domain, "files", "incremental")
        assert ReportName.parse(name.id) == ReportName.parse(f"{name.name}.zip") == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "crawls/",
        "crawls/../../etc/passwd",
        "2025-01-15_14-25-00_../x_all_full",
        "crawls/crawls/2025-01-15_14-25-00_A_all_full",
        "2025-13-15_14-25-00_A_all_full",
        "2025-01-15_14-25-00_A_some_full",
        "2025-01-15_14-25-00_A_all_scheduled",
        "2025-01-15_14-25-00_A_all_full\n",
        "2025-01-15_14-25-00_A/b_all_full",
        "2025-01-15_14-25-00_A\0_all_full",
    ],
)
def test_what_no_report_is_called(text: str, settings: Settings) -> None:
    """Nothing leads out of the folder, whoever asks."""
    assert ReportName.parse(text) is None
    with pytest.raises(NotFound):
        ReportArchive(settings).path(text)


def test_which_runs_have_one() -> None:
    """Whole crawls that someone asked for; no single step, nothing by schedule, no part of another."""

    def run(mode: str = "full", parent: str = "", **parameters: str) -> Run:
        return Run("jb_1", RunKind.DOMAIN, RunStatus.RUNNING, mode=mode, parent=parent, parameters=parameters)

    assert is_reported(run())
    assert is_reported(run("incremental", scope="files", source_type="file_sources"))
    assert not is_reported(run(steps="download"))
    assert not is_reported(run("scheduled"))
    assert not is_reported(run(parent="jb_0"))


def test_report_has_no_secret() -> None:
    """Messages of sources may hold URLs; a password in one is not repeated."""
    run = Run("jb_1", RunKind.CRAWL, RunStatus.FAILED, domain="TEST01", message="https://me:hunter2@e.org/ failed")
    told = report_json(NAME, run, RunStatus.FAILED, 2e9, [CrawledSource("TEST01.x", "web", run, run.message)], [])

    assert "hunter2" not in json.dumps(told)


# ── the archive ─────────────────────────────────────────────────────────────────────────────────


async def test_crawl_leaves_a_report(shelf: Context) -> None:
    """What was asked, how long it took, what each source did, and the map files as they are; for its owner alone."""
    asked = CrawlParameters(source_type="folder_sources", retry_batches=3)
    run = await crawl(shelf, CrawlMode.FULL, asked=asked)
    [stored] = ReportArchive(shelf.settings).list("Shelf_01")
    path = ReportArchive(shelf.settings).path(stored.id)
    told = ReportArchive(shelf.settings).read(stored.id)

    assert (stored.name.scope, stored.name.mode) == ("all", "full")
    assert told["parameters"] == {
        "domain_id": "Shelf_01",
        "mode": "full",
        "dry_run": False,
        "steps": "download,process,embed",
        "scope": "all",
        "source_id": "",
        "source_type": "folder_sources",
        "retry_batches": 3,
    }
    assert (told["report_id"], told["run_id"], told["status"], told["ok"]) == (stored.id, run.id, "succeeded", True)
    assert told["timing"]["started_utc"].endswith("Z")
    [source] = told["sources"]
    assert (source["source_id"], source["source_type"], source["status"]) == ("Notes", "folder_sources", "succeeded")
    assert (source["counts"]["visited"], source["counts"]["changed"]) == (1, 1)
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == sorted(["report.json", *MAPS]) == sorted(["report.json", *told["files"]])
        assert archive.read(MAPS[0]).decode() == f"{MAPS[0]}\n"
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]


async def test_no_report(shelf: Context) -> None:
    """Not of single steps, cancelled crawls, passes by schedule, dry runs."""
    await crawl(shelf, asked=CrawlParameters(frozenset({StepName.DOWNLOAD})))
    await crawl_source(shelf, "Shelf_01.Notes", CrawlMode.SCHEDULED)
    await crawl(shelf, CrawlMode.FULL, should_stop=lambda: True)
    open_run = (await shelf.runs.open_ids())["domain:Shelf_01"]
    await shelf.runs.finish(await shelf.runs.require(open_run, 0.0), RunStatus.CANCELLED, 1.0)

    assert ReportArchive(shelf.settings).list() == []


async def test_one_source_alone_has_one(shelf: Context) -> None:
    """A crawl of one source that someone asked for is a crawl; its report names the source."""
    await crawl_source(shelf, "Shelf_01.Notes", CrawlMode.INCREMENTAL)
    [stored] = ReportArchive(shelf.settings).list()
    told = ReportArchive(shelf.settings).read(stored.id)

    assert (told["parameters"]["source_id"], told["status"]) == ("Notes", "succeeded")
    assert [one["status"] for one in told["sources"]] == ["succeeded"]


async def test_failed_crawl_has_one(shelf: Context, tmp_path: Path) -> None:
    """With why."""
    await shelf.client.hset(shelf.keys.source("Shelf_01.Notes"), "kind", "folder")
    (tmp_path / "notes").rename(tmp_path / "elsewhere")
    run = await crawl(shelf)
    [stored] = ReportArchive(shelf.settings).list()
    told = ReportArchive(shelf.settings).read(stored.id)

    assert (run.status is RunStatus.SUCCEEDED, told["ok"], told["status"]) == (False, False, str(run.status))
    assert told["sources"][0]["problem"] or told["sources"][0]["error"]


async def test_reports_of_one_second_do_not_collide(shelf: Context) -> None:
    """Each crawl has its own, also when they end together."""
    for _ in range(3):
        await crawl(shelf)
    found = ReportArchive(shelf.settings).list()

    assert len({one.id for one in found}) == 3
    assert len({ReportArchive(shelf.settings).read(one.id)["run_id"] for one in found}) == 3


def test_writers_beside_each_other_take_different_names(settings: Settings) -> None:
    """Two processes that want the same name at once: one has it, the other the next second."""
    archives = [ReportArchive(settings) for _ in range(4)]

    def write(archive: ReportArchive, number: int) -> None:
        archive.write(NAME, f"jb_{number}", {}, lambda name: {"report_id": name.id, "run_id": f"jb_{number}"})

    threads = [threading.Thread(target=write, args=pair) for pair in zip(archives, range(4), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = archives[0].list("TEST01")

    assert {archives[0].read(one.id)["report_id"] for one in found} == {one.id for one in found}
    assert {archives[0].read(one.id)["run_id"] for one in found} == {"jb_0", "jb_1", "jb_2", "jb_3"}
    assert [name for name in names(settings) if not name.endswith(".zip")] == []


def test_report_of_a_run_is_written_once(settings: Settings) -> None:
    """A run that was killed behind its report and continued does not write another."""
    archive = ReportArchive(settings)
    ids = {archive.write(NAME, "jb_1", {}, lambda name: {"run_id": "jb_1"}) for _ in range(2)}

    assert ids == {one.id for one in archive.list()}


def test_oldest_go(settings: Settings) -> None:
    """CRAWL_REPORTS_KEPT of each domain stay; those of others are not counted; half written ones go."""
    archive = ReportArchive(settings.model_copy(update={"crawl_reports_kept": 2}))
    other = ReportName(NAME.created_ts - 99, "OTHER", "all", "full")
    archive.write(other, "jb_0", {}, lambda name: {"run_id": "jb_0"})
    left = settings.persistent_storage_path / "reports/crawls/.x.new"
    left.write_text("half")
    os.utime(left, (1, 1))
    for number in range(1, 4):
        archive.write(NAME, f"jb_{number}", {}, lambda name, number=number: {"run_id": f"jb_{number}"})

    assert [archive.read(one.id)["run_id"] for one in archive.list("TEST01")] == ["jb_3", "jb_2"]
    assert [one.name for one in archive.list("OTHER")] == [other]
    assert not left.exists()


async def test_disk_that_is_full_does_not_end_a_crawl(shelf: Context, caplog: pytest.LogCaptureFixture) -> None:
    """It is a warning."""
    (shelf.settings.persistent_storage_path / "reports").write_text("a file where a folder should be")
    run = await crawl(shelf)

    assert run.status is RunStatus.SUCCEEDED
    assert f"The report of {run.id} cannot be written" in caplog.text


def test_damaged_archive_is_a_sentence(settings: Settings) -> None:
    """Whatever someone put there."""
    archive = ReportArchive(settings)
    report_id = archive.write(NAME, "jb_1", {}, lambda name: {"run_id": "jb_1"})
    archive.path(report_id).write_bytes(b"no zip")

    with pytest.raises(NotFound, match="is damaged"):
        archive.read(report_id)
    assert archive.write(NAME, "jb_2", {}, lambda name: {"run_id": "jb_2"}) != report_id


async def test_reports_outlive_their_domain(shelf: Context, redis: Client) -> None:
    """They are records of what was."""
    await crawl(shelf)
    await remove_domain(shelf.settings, redis, shelf.keys, "Shelf_01")

    assert len(ReportArchive(shelf.settings).list("Shelf_01")) == 1


@pytest.mark.usefixtures("adopted")
async def test_report_of_sharepoint_sources(
    settings: Settings, redis: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """What each step did, what was seen and not indexed, and nine map files; the scope is in the name.

    `domain report` tells what nobody can search for as well.
    """
    with SharePointServer() as server:
        for path in ("Reports/Q1.md", "tool.exe"):
            server.file(path, f"# Q1\n\n{FILLER}".encode())
        server.item_list("Tasks")
        server.row(Title=f"Replace it. {FILLER}")
        server.pages()
        server.page("Home.aspx", "Home", wiki=f"<p>{FILLER}</p>")
        site = {"site_url": server.site_url}
        domain = {
            "id": "DOMAIN01",
            "file_sources": [{"source_id": "docs", "sharepoint_url_part": "/Shared Documents", **site}],
            "list_sources": [{"source_id": "tasks", "list_name": "Tasks", **site}],
            "sitepage_sources": [{"source_id": "pages", **site}],
        }
        wanted = settings.model_copy(update={**server.settings(), "embedder": "none"})
        async with open_context(wanted) as context:
            await add_domain(wanted, redis, context.keys, parse_domain(json.dumps(domain), "/"))
            for asked in (CrawlParameters(), CrawlParameters(scope="files")):
                chosen = await DomainSteps(context).select("DOMAIN01", asked)
                crawling = DomainCrawl(context, "DOMAIN01", chosen.sids, CrawlMode.INCREMENTAL, asked=asked)
                assert (await crawling.run()).status is RunStatus.SUCCEEDED
    archive = ReportArchive(settings)
    files, whole = (archive.read(one.id) for one in archive.list("DOMAIN01"))

    assert [one["source_id"] for one in whole["sources"]] == ["docs", "tasks", "pages"]
    docs, tasks, pages = whole["sources"]
    assert (docs["download"]["downloaded"], docs["download"]["skipped_types"], docs["embed"]["embedded"]) == (1, 1, 1)
    assert (tasks["process"]["processed"], pages["process"]["processed"]) == (1, 1)
    assert docs["coverage"]["file_types"] == {"exe": 1}
    assert len(whole["files"]) == 9
    assert files["report_id"].endswith("_DOMAIN01_files_incremental")
    assert [one["source_id"] for one in files["sources"]] == ["docs"]
    assert files["sources"][0]["download"]["unchanged"] == 1
    failed = settings.persistent_storage_path / "crawler/DOMAIN01/01_files/docs/03_failed/Old"
    failed.mkdir(parents=True)
    (failed / "slides.pptx").touch()
    capsys.readouterr()
    await domain_report.report("DOMAIN01")
    assert capsys.readouterr().out.endswith(
        "Not searchable, though SharePoint has it:\n"
        "  DOMAIN01.docs: file types: exe (1)\n"
        "  DOMAIN01.docs: 1 file in 03_failed\n"
    )
    await domain_report.report("DOMAIN01", json=True)
    told = json.loads(capsys.readouterr().out)["coverage"]
    assert list(told) == ["DOMAIN01.docs", "DOMAIN01.tasks", "DOMAIN01.pages"]
    assert told["DOMAIN01.docs"]["failed_files"] == 1


# ── people and programs ─────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("adopted")
async def test_command(shelf: Context, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """List, show, take out; a word that names none is a sentence."""
    await domain_crawl.crawl("Shelf_01")
    capsys.readouterr()
    await crawl_reports.reports("Shelf_01", json=True)
    [entry] = json.loads(capsys.readouterr().out)
    await crawl_reports.reports("Shelf_01")
    listed = capsys.readouterr().out
    await crawl_reports.reports("Shelf_01", "last")
    shown = capsys.readouterr().out
    await crawl_reports.reports("Shelf_01", entry["id"], json=True)
    told = json.loads(capsys.readouterr().out)
    await crawl_reports.reports("Shelf_01", entry["id"][:12], download=str(tmp_path / "out.zip"))

    assert (entry["domain_id"], entry["scope"], entry["mode"]) == ("Shelf_01", "all", "incremental")
    assert entry["id"] in listed
    assert shown.startswith(f"{entry['id']}: succeeded, ")
    assert "Notes" in shown
    assert told["report_id"] == entry["id"]
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert "report.json" in archive.namelist()
    for words, sentence in (
        (("Nobody", None, None), "There is no report of Nobody."),
        (("Shelf_01", "1999", None), "No report of this domain begins with 1999."),
        (("Shelf_01", "last", str(tmp_path / "out.zip")), "is there already"),
        (("Shelf_01", "last", "/no/such/folder/x.zip"), "cannot be written"),
    ):
        with pytest.raises(FreshetError, match=sentence):
            await crawl_reports.reports(words[0], words[1], download=words[2])


async def test_routes(api: ApiServer, shelf: Context) -> None:
    """List by domain and page, read, download, one file; by the id as it is or as one part of the path."""
    for _ in range(2):
        await crawl(shelf)
    listed = (await api.get("/v2/reports?domain_id=Shelf_01&limit=1")).json
    other = (await api.get("/v2/reports?domain_id=other")).json
    report_id = listed["reports"][0]["id"]
    one = await api.get(f"/v2/reports/{report_id}")
    quoted = await api.get(f"/v2/reports/{report_id.replace('/', '%2F')}")
    async with api.session.get(f"{api.url}/v2/reports/{report_id}/download") as reply:
        archive, head = await reply.read(), reply.headers
    file = await api.get(f"/v2/reports/{report_id}/download", params={"file": MAPS[0]})

    assert (len(listed["reports"]), listed["next_offset"], other["reports"]) == (1, 1, [])
    assert one.json["report_id"] == report_id
    assert quoted.json == one.json
    assert archive.startswith(b"PK")
    assert head["Content-Type"] == "application/zip"
    assert head["Content-Disposition"] == f'attachment; filename="{report_id.partition("/")[2]}.zip"'
    assert (file.text, file.headers["Content-Type"]) == (f"{MAPS[0]}\n", "text/csv; charset=utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "/crawls/2025-01-15_14-25-00_A_all_full",
        "/crawls/2025-01-15_14-25-00_A_all_full/download",
        "/crawls/..%2F..%2Ffolder.key",
        "/crawls%2F..%2F..%2Ffolder.key/download",
        "/..%2F..%2Ffolder.key",
    ],
)
async def test_missing_report_is_404(api: ApiServer, settings: Settings, path: str) -> None:
    """No path leads out of the folder of reports."""
    (settings.persistent_storage_path / "folder.key").write_text("secret")
    answer = await api.get(f"/v2/reports{path}")

    assert (answer.status, answer.error["code"]) == (404, "not_found"), answer.text


async def test_missing_file_of_a_report_is_404(api: ApiServer, shelf: Context) -> None:
    """The sentence names what there is."""
    await crawl(shelf)
    [stored] = ReportArchive(shelf.settings).list()
    answer = await api.get(f"/v2/reports/{stored.id}/download", params={"file": "../../folder.key"})

    assert answer.status == 404
    assert "it has report.json" in answer.error["message"]


async def test_pages(api: ApiServer, shelf: Context) -> None:
    """The page of a domain links its reports; a report is a page with its files; another domain has it not."""
    await crawl(shelf)
    [stored] = ReportArchive(shelf.settings).list()
    path = f"/domains/Shelf_01/reports/{stored.name.name}"
    domain = (await api.get("/domains/Shelf_01", headers=PAGE)).text
    report = (await api.get(path, headers=PAGE)).text
    file = await api.get(f"{path}/download", params={"file": MAPS[0]}, headers=PAGE)
    other = await api.get(path.replace("domains/Shelf_01", "domains/other"), headers=PAGE)

    assert f'href="{path}"' in domain
    assert f'href="{path}/download"' in domain
    assert "Notes" in report
    assert MAPS[0] in report
    assert file.text == f"{MAPS[0]}\n"
    assert other.status == 404


async def test_page_of_a_source_with_steps(api: ApiServer, settings: Settings) -> None:
    """What its steps did, and what they did not index; an archive of somebody else is a sentence."""
    run = Run(
        *("jb_1", RunKind.DOMAIN, RunStatus.SUCCEEDED, "TEST01"),
        statistics={"download": {"downloaded": 1200, "failed": 0}, "coverage": {"file_types": {"zip": 3}}},
    )

    def report(name: ReportName) -> dict[str, Any]:
        return report_json(name, run, RunStatus.SUCCEEDED, 2e9, [CrawledSource("TEST01.docs", "file", run)], [])

    ours = ReportArchive(settings).write(NAME, "jb_1", {}, report)
    other = ReportArchive(settings).write(NAME, "jb_2", {}, lambda name: {"sources": [1]})
    page = (await api.get(f"/domains/TEST01/reports/{ours.partition('/')[2]}", headers=PAGE)).text
    strange = await api.get(f"/domains/TEST01/reports/{other.partition('/')[2]}", headers=PAGE)

    assert "download: 1,200 downloaded" in page
    assert "not indexed, file types: 3 zip" in page
    assert strange.status == 404
