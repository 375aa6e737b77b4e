"""Rows of lists become Markdown and site pages simple HTML, once, and what cannot be read is kept aside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from core.sources.sharepoint.io.download_step import FULL
from core.sources.sharepoint.source_types import SharePointType
from tests.sharepoint_copies import SharePointCopies, after, quick
from tests.sharepoint_server import Column, SharePointServer

__all__ = ["quick"]

TASKS = [Column("Status", "Status", "Choice"), Column("Body", "Notes", "Note"), Column("Odd", "Odd (own)", "Text")]
CANVAS = json.dumps(
    [
        {"controlType": 4, "innerHTML": "<h2>Welcome</h2><p>Hello all</p>"},
        {"controlType": 3, "webPartData": {"title": "Events", "serverProcessedContent": {}}},
    ]
)


@pytest.fixture
def server() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        yield running


@pytest.fixture
def tasks(server: SharePointServer, settings: Settings, tmp_path: Path) -> SharePointCopies:
    """A list of three rows."""
    server.item_list("Project Tasks", TASKS)
    server.row(Title="Fix the pump", Status="Active", Body="First\r\nSecond", Odd="=1+1")
    server.row(Title="Paint", Status="Done")
    server.row(Title="", Status="Active", Odd='a,"b"')
    return SharePointCopies(server, settings, tmp_path, SharePointType.LISTS, list_name="Project Tasks")


@pytest.fixture
def pages(server: SharePointServer, settings: Settings, tmp_path: Path) -> SharePointCopies:
    """A modern and a classic page."""
    server.pages()
    server.page("Home.aspx", "Home", canvas=CANVAS)
    server.page("Old/Wiki.aspx", "Wiki", wiki="<p>Classic <script>x()</script>text</p>")
    return SharePointCopies(server, settings, tmp_path, SharePointType.SITE_PAGES)


def counted(counts: Any) -> dict[str, int]:
    return {name: getattr(counts, name) for name in counts.__slots__ if getattr(counts, name)}


async def both(copies: SharePointCopies, mode: str = "incremental") -> dict[str, int]:
    """Download and process; return what the process step counted."""
    await copies.download(mode)
    return counted((await copies.process()).process)


# ── lists ──


async def test_list_becomes_csv_then_markdown(tasks: SharePointCopies) -> None:
    """The export has every visible column and row; each row becomes a file with SharePoint's time."""
    await tasks.download()
    assert list(tasks.files()) == ["01_originals/Project Tasks.csv"]
    assert set(tasks.paths().values()) == {"01_originals\\Project Tasks.csv"}
    header, first, *_ = tasks.files()["01_originals/Project Tasks.csv"].decode().splitlines()
    assert header.startswith('"ID","Title",')
    assert '"Odd (own)"' in header
    assert first.startswith('"1","Fix the pump",')
    statistics = await tasks.process()

    markdown = tasks.files()["02_embedded/1.md"].decode()
    assert markdown.startswith("# Fix the pump\n\n- **ID:** 1\n")
    assert "\n- **Status:** Active\n" in markdown
    assert "\n- **Odd (own):** =1+1\n" in markdown
    assert markdown.rstrip().endswith("## Notes\n\nFirst\nSecond")
    assert tasks.files()["02_embedded/3.md"].startswith(b"# Item 3\n")
    assert tasks.paths() == {number: f"02_embedded\\{number}.md" for number in "123"}
    for number, row in tasks.rows().items():
        status = tasks.path(f"02_embedded/{number}.md").stat()
        assert (str(status.st_size), str(int(status.st_mtime))) == (row.file_size, row.last_modified_timestamp)
    assert counted(statistics.process) == {"processed": 3}


async def test_unchanged_rows_are_left_alone(tasks: SharePointCopies, server: SharePointServer) -> None:
    """A second run writes nothing; of a changed, an added and a removed row only these files change."""
    await both(tasks)
    before = tasks.state()
    assert await both(tasks) == {"unchanged": 3}
    assert tasks.state() == before
    rows = list(tasks.server.at.items.values())
    server.update_row(rows[0], Status="Done")
    server.delete_row(rows[1])
    server.row(Title="New")
    assert await both(tasks) == {"processed": 2, "unchanged": 1}

    assert "**Status:** Done" in tasks.files()["02_embedded/1.md"].decode()
    assert set(tasks.files()) == {"01_originals/Project Tasks.csv", *(f"02_embedded/{number}.md" for number in "134")}
    assert b'"2",' not in tasks.files()["01_originals/Project Tasks.csv"]
    assert set(tasks.rows()) == set("134")


async def test_full_run_keeps_files_that_say_the_same(tasks: SharePointCopies) -> None:
    """Full mode makes every file again, and what has not changed keeps its bytes and its time."""
    await both(tasks)
    before = tasks.state()
    inode = tasks.path("02_embedded/1.md").stat().st_ino
    assert await both(tasks, FULL) == {"processed": 3}

    assert tasks.state() == before
    assert tasks.path("02_embedded/1.md").stat().st_ino == inode


async def test_lost_files_of_a_list_are_made_again(tasks: SharePointCopies) -> None:
    """A Markdown file that is gone or cut is made again from the export, an export that is gone from the listing."""
    await both(tasks)
    before = tasks.state()
    tasks.path("02_embedded/1.md").unlink()
    tasks.path("02_embedded/2.md").write_bytes(b"")
    await both(tasks)
    assert tasks.state() == before
    tasks.path("01_originals/Project Tasks.csv").unlink()
    await both(tasks)
    assert tasks.state() == before


@pytest.mark.parametrize("damage", ["missing", "damaged"])
async def test_process_without_its_original_asks_for_it(
    damage: str, tasks: SharePointCopies, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an original that can be read items are skipped, with a warning, and the next download brings them."""
    await tasks.download()
    export = tasks.path("01_originals/Project Tasks.csv")
    if damage == "missing":
        export.unlink()
    else:
        export.write_bytes(export.read_bytes()[:-8])
    statistics = await tasks.process()

    assert counted(statistics.process) == {"skipped": 3}
    assert set(tasks.paths().values()) == {""}
    assert "It is downloaded again → " in caplog.text
    assert await both(tasks) == {"processed": 3}
    assert len(tasks.files()) == 4


# ── pages ──


async def test_page_becomes_simple_html(pages: SharePointCopies) -> None:
    """The original keeps what SharePoint gave; the clean page has its words, and what was not read is counted."""
    await pages.download()
    assert set(pages.files()) == {"01_originals/Home.aspx", "01_originals/Old/Wiki.aspx"}
    assert b"<script>x()</script>" in pages.files()["01_originals/Old/Wiki.aspx"]
    statistics = await pages.process()

    assert b"<h1>Home</h1>\n<h2>Welcome</h2>\n<p>Hello all</p>" in pages.files()["02_embedded/Home.html"]
    assert b"<h1>Wiki</h1>\n<p>Classic text</p>" in pages.files()["02_embedded/Old/Wiki.html"]
    assert pages.paths() == {"Home.aspx": "02_embedded\\Home.html", "Old/Wiki.aspx": "02_embedded\\Old\\Wiki.html"}
    assert statistics.coverage.web_parts == {"Events": 1}
    modified = pages.rows()["Home.aspx"].last_modified_timestamp
    assert str(int(pages.path("02_embedded/Home.html").stat().st_mtime)) == modified


async def test_unchanged_pages_are_left_alone(pages: SharePointCopies, server: SharePointServer) -> None:
    """A second run writes nothing and still knows what was not read; a changed or moved page follows."""
    await both(pages)
    before = pages.state()
    assert await both(pages) == {"unchanged": 2}
    assert pages.step.statistics.coverage.web_parts == {"Events": 1}
    assert pages.state() == before
    server.update_page("Home.aspx", CanvasContent1="<p>New text</p>")
    server.move("Old/Wiki.aspx", "", "Moved.aspx")
    assert await both(pages) == {"processed": 2}

    assert b"<p>New text</p>" in pages.files()["02_embedded/Home.html"]
    assert set(pages.files()) == {
        f"{folder}/{name}.{ending}"
        for folder, ending in (("01_originals", "aspx"), ("02_embedded", "html"))
        for name in ("Home", "Moved")
    }


async def test_pages_that_swap_names_keep_their_texts(pages: SharePointCopies, server: SharePointServer) -> None:
    """Two pages take each other's names: each file has the text of the page that has its name now."""
    await both(pages)
    server.swap("Home.aspx", "Old/Wiki.aspx")
    await both(pages)

    assert b"<h1>Wiki</h1>" in pages.files()["02_embedded/Home.html"]
    assert b"<h1>Home</h1>" in pages.files()["02_embedded/Old/Wiki.html"]
    assert len(pages.files()) == 4
    assert await both(pages) == {"unchanged": 2}


async def test_unreadable_page_is_kept_aside(
    pages: SharePointCopies, server: SharePointServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A page that cannot be read is in 03_failed, its row says where and why, and the next version is read again."""
    await both(pages)
    server.update_page("Home.aspx", CanvasContent1='[{"controlType": 4, "cut')
    assert await both(pages) == {"failed": 1, "unchanged": 1}

    assert set(pages.files()) == {
        "01_originals/Home.aspx",
        "01_originals/Old/Wiki.aspx",
        "02_embedded/Old/Wiki.html",
        "03_failed/Home.html",
    }
    assert pages.paths()["Home.aspx"] == "03_failed\\Home.html"
    assert "begins like JSON" in pages.rows()["Home.aspx"].processing_error
    assert "Processing failed: " in caplog.text
    before = pages.state()
    assert await both(pages) == {"failed": 1, "unchanged": 1}
    assert pages.state() == before
    server.update_page("Home.aspx", CanvasContent1="<p>Whole</p>")
    assert await both(pages) == {"processed": 1, "unchanged": 1}
    assert (pages.rows()["Home.aspx"].processing_error, "03_failed/Home.html" in pages.files()) == ("", False)


async def test_page_whose_embedding_failed_stays_aside(pages: SharePointCopies) -> None:
    """What the embed step put into 03_failed is neither downloaded nor processed again while it is unchanged."""
    await both(pages)
    pages.path("03_failed").mkdir(exist_ok=True)
    pages.path("02_embedded/Home.html").rename(pages.path("03_failed/Home.html"))
    text = pages.map_text().replace("02_embedded\\Home.html", "03_failed\\Home.html")
    pages.path("files_map.csv").write_text(text)
    before = pages.state()
    downloaded = await pages.download()

    assert counted(downloaded.download) == {"listed": 2, "unchanged": 2}
    assert counted((await pages.process()).process) == {"unchanged": 2}
    assert pages.state() == before


async def test_lost_original_of_a_page_is_fetched_again(pages: SharePointCopies) -> None:
    """An original that is gone is asked for by the process step, and brought by the next download."""
    await both(pages)
    before = pages.state()
    pages.path("01_originals/Home.aspx").unlink()
    assert counted((await pages.process()).process) == {"skipped": 1, "unchanged": 1}
    assert pages.paths()["Home.aspx"] == ""
    assert await both(pages) == {"processed": 1, "unchanged": 1}
    assert pages.state() == before


# ── the step ──


async def test_files_of_a_library_are_not_processed(
    server: SharePointServer, settings: Settings, tmp_path: Path
) -> None:
    """A library's files are embedded as they are."""
    server.file("a.txt", b"text")
    copies = SharePointCopies(server, settings, tmp_path)
    await copies.download()
    before = copies.state()

    assert counted((await copies.process()).process) == {}
    assert copies.state() == before


async def test_process_before_any_download_does_nothing(
    pages: SharePointCopies, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a map there is nothing to process, and a line says what to do."""
    assert counted((await pages.process()).process) == {}
    assert "the download step comes first" in caplog.text


async def test_stopped_process_goes_on(tasks: SharePointCopies) -> None:
    """A process step that is stopped leaves the rest as it was; the next one does it."""
    await tasks.download()
    assert counted((await tasks.process(should_stop=after(0))).process) == {}
    assert len(tasks.rows()) == 3
    assert counted((await tasks.process()).process) == {"processed": 3}
