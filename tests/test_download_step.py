"""The copies of a library follow SharePoint, whatever happens there or on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.settings import Settings
from core.sources.sharepoint.io import item_downloads
from core.sources.sharepoint.io.download_step import FULL
from core.sources.sharepoint.step_results import DownloadCounts
from tests.sharepoint_copies import SharePointCopies, after, quick
from tests.sharepoint_server import DOWNLOAD, LISTING, SharePointServer

__all__ = ["quick"]

PATIENCE_SECONDS = 60.0
OLD = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        running.file("Reports/Q1.docx", b"first quarter")
        running.file("Reports/Q2.docx", b"second quarter")
        running.file("plan.txt", b"plan", modified=OLD)
        running.file("photo.jpg", b"\xff\xd8")
        yield running


@pytest.fixture
def copies(server: SharePointServer, settings: Settings, tmp_path: Path) -> SharePointCopies:
    return SharePointCopies(server, settings, tmp_path)


def counted(counts: DownloadCounts) -> dict[str, int]:
    """The counters that are not zero, but for those of every run."""
    shown = {name: getattr(counts, name) for name in counts.__slots__ if name not in ("listed", "skipped_types")}
    return {name: count for name, count in shown.items() if count}


# ── the first download ──


async def test_first_download_copies_the_library(copies: SharePointCopies, caplog: pytest.LogCaptureFixture) -> None:
    """Folders, names, contents and SharePoint's times are as there; a type that is not embedded is only listed."""
    statistics = await copies.download()

    assert copies.files() == {
        "02_embedded/Reports/Q1.docx": b"first quarter",
        "02_embedded/Reports/Q2.docx": b"second quarter",
        "02_embedded/plan.txt": b"plan",
    }
    assert copies.path("02_embedded/plan.txt").stat().st_mtime == OLD.timestamp()
    assert set(copies.listed()) == {"Reports/Q1.docx", "Reports/Q2.docx", "plan.txt", "photo.jpg"}
    assert copies.paths()["plan.txt"] == "02_embedded\\plan.txt"
    row = copies.rows()["plan.txt"]
    assert (row.file_size, row.last_modified_utc) == ("4", "2024-01-15T10:30:00.000000Z")
    assert row.downloaded_utc.startswith("1970-01-01T00:")
    assert counted(statistics.download) == {"added": 3, "downloaded": 3}
    assert (statistics.download.listed, statistics.download.skipped_types) == (4, 1)
    assert statistics.coverage.file_types == {"jpg": 1}
    assert "Not embedded: file types: jpg (1) → s" in caplog.text


async def test_second_download_changes_nothing(copies: SharePointCopies, server: SharePointServer) -> None:
    """Without news there is one listing and no download, and no byte of a map is another."""
    await copies.download()
    state, maps = copies.state(), copies.map_text()
    server.forget()
    statistics = await copies.download()

    assert (len(server.listings), len(server.downloads)) == (1, 0)
    assert counted(statistics.download) == {"unchanged": 3}
    assert (copies.state(), copies.map_text()) == (state, maps)


# ── what may happen in SharePoint ──


def replace_restored(server: SharePointServer) -> None:
    server.restore(server.delete("plan.txt"))


CHANGES: dict[str, tuple[Callable[[SharePointServer], object], dict[str, int]]] = {
    "A1_added": (lambda server: server.file("new.md", b"new"), {"added": 1}),
    "A2_removed": (lambda server: server.delete("plan.txt"), {"removed": 1}),
    "A3_content_updated": (lambda server: server.update("plan.txt", b"other plan"), {"changed": 1}),
    "A4_renamed": (lambda server: server.rename("plan.txt", "idea.txt"), {"changed": 1}),
    "A5_moved": (lambda server: server.move("plan.txt", "Deep/er"), {"changed": 1}),
    "A6_renamed_moved": (lambda server: server.move("plan.txt", "Deep", "idea.txt"), {"changed": 1}),
    "A7_renamed_updated": (
        lambda server: (server.rename("plan.txt", "idea.txt"), server.update("idea.txt", b"idea")),
        {"changed": 1},
    ),
    "A8_moved_updated": (
        lambda server: (server.move("plan.txt", "Deep"), server.update("Deep/plan.txt", b"idea")),
        {"changed": 1},
    ),
    "A9_renamed_moved_updated": (
        lambda server: (server.move("plan.txt", "Deep", "idea.txt"), server.update("Deep/idea.txt", b"idea")),
        {"changed": 1},
    ),
    "A10_restored": (replace_restored, {}),
    "A11_version_rollback": (
        lambda server: server.roll_back("Reports/Q1.docx", b"first quarter", OLD),
        {"changed": 1},
    ),
    "A12_copied": (lambda server: server.copy("plan.txt", "plan copy.txt"), {"added": 1}),
    "A13_replaced": (lambda server: server.replace("plan.txt", b"another plan"), {"added": 1, "removed": 1}),
    "A14_check_in": (lambda server: server.check_in("plan.txt"), {}),
    "A15_folder_renamed": (lambda server: server.rename("Reports", "Numbers"), {"changed": 2}),
    "A16_folder_moved": (lambda server: server.move("Reports", "Archive/2025"), {"changed": 2}),
    "file_becomes_folder": (
        lambda server: (server.delete("plan.txt"), server.file("plan.txt/part.txt", b"part")),
        {"added": 1, "removed": 1},
    ),
    "folder_becomes_file": (
        lambda server: (server.move("notes.md", "Other"), server.file("notes.md", b"notes")),
        {"added": 1, "changed": 1},
    ),
    "names_swapped": (lambda server: server.swap("Reports/Q1.docx", "plan.txt"), {"changed": 2}),
    "type_not_embedded_any_more": (lambda server: server.rename("plan.txt", "plan.png"), {"removed": 1}),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_change_is_followed(name: str, copies: SharePointCopies, server: SharePointServer) -> None:
    """After one run the copies are what SharePoint has, only what changed was downloaded, and a second run rests."""
    change, expected = CHANGES[name]
    server.file("notes.md/one.md", b"a file in a folder that has the name of one")
    await copies.download()
    change(server)
    server.forget()
    statistics = await copies.download()

    wanted = {path: content for path, content in library(server).items() if not path.endswith((".jpg", ".png"))}
    assert copies.files() == {f"02_embedded/{path}": content for path, content in wanted.items()}
    assert copies.paths() == {path: "02_embedded\\" + path.replace("/", "\\") for path in wanted}
    assert set(copies.listed()) == set(library(server))
    downloads = expected.get("added", 0) + expected.get("changed", 0)
    unchanged = {"unchanged": len(wanted) - downloads} if len(wanted) - downloads else {}
    assert counted(statistics.download) == expected | ({"downloaded": downloads} if downloads else {}) | unchanged
    assert len(server.downloads) == downloads
    assert not any(row.sharepoint_error for row in copies.rows().values())
    state, maps = copies.state(), copies.map_text()
    server.forget()
    again = await copies.download()
    assert (copies.state(), copies.map_text(), len(server.downloads)) == (state, maps, 0)
    assert counted(again.download) == {"unchanged": len(wanted)}


def library(server: SharePointServer) -> dict[str, bytes]:
    """What the server's library has, by path."""
    root = server.documents.root
    items = [item for item in root.below() if not item.is_folder]
    return {item.path.removeprefix(f"{root.path}/"): item.content or b"" for item in items}


# ── downloads that fail ──


async def test_failed_download_is_tried_again_in_the_next_batch(
    copies: SharePointCopies, server: SharePointServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails in the first batch is tried again in the second, and is an ordinary download then."""
    server.fail(410, on=DOWNLOAD)
    statistics = await copies.download()

    assert counted(statistics.download) == {"added": 3, "downloaded": 3, "retried": 1}
    assert len(copies.files()) == 3
    assert "Batch 2 tries 1 failed downloads again → s" in caplog.text
    assert not any(row.sharepoint_error for row in copies.rows().values())


async def test_one_batch_is_no_retry(copies: SharePointCopies, server: SharePointServer) -> None:
    """With one batch a failure stays one: a row without a path that says why, and ADDED again in the next run."""
    server.fail(410, on=DOWNLOAD)
    first = await copies.download(retry_batches=1)
    failed = [name for name, row in copies.rows().items() if row.sharepoint_error]

    assert counted(first.download) == {"added": 2, "downloaded": 2, "failed": 1}
    assert len(failed) == 1
    assert copies.paths()[failed[0]] == ""
    second = await copies.download(retry_batches=1)
    assert counted(second.download) == {"added": 1, "downloaded": 1, "unchanged": 2}
    assert copies.rows()[failed[0]].sharepoint_error == ""


async def test_failed_change_keeps_the_old_copy(
    copies: SharePointCopies, server: SharePointServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A changed item that cannot be downloaded keeps its copy and its fields, so that it is changed next time too."""
    await copies.download()
    before = copies.rows()["plan.txt"]
    server.update("plan.txt", b"longer plan")
    server.fail(410, on=DOWNLOAD, times=2)
    failed = await copies.download()

    assert counted(failed.download) == {"failed": 1, "retried": 1, "unchanged": 2}
    assert copies.files()["02_embedded/plan.txt"] == b"plan"
    row = copies.rows()["plan.txt"]
    assert row.cells()[:-2] == before.cells()[:-2]
    assert "410" in row.sharepoint_error
    assert "Download failed: " in caplog.text
    assert counted((await copies.download()).download) == {"changed": 1, "downloaded": 1, "unchanged": 2}
    assert copies.files()["02_embedded/plan.txt"] == b"longer plan"
    assert copies.rows()["plan.txt"].sharepoint_error == ""


async def test_swap_with_a_failed_half_mixes_nothing_up(copies: SharePointCopies, server: SharePointServer) -> None:
    """Of two files that swapped names one fails: no path holds the other's content, and the next run completes it."""
    await copies.download()
    server.swap("Reports/Q1.docx", "plan.txt")
    server.fail(410, on=DOWNLOAD, times=1)
    await copies.download(retry_batches=1, downloads_at_once=1)

    owners = {row.file_relative_path: row for row in copies.rows().values() if row.file_relative_path}
    for path, content in copies.files().items():
        row = owners["D\\01_files\\s\\" + path.replace("/", "\\")]
        assert row.file_size == str(len(content))
    await copies.download()
    assert copies.files() == {f"02_embedded/{path}": text for path, text in library(server).items() if path[-1] != "g"}


@pytest.mark.parametrize("fault", ["cut", "shorten"])
async def test_half_a_file_is_never_a_copy(fault: str, copies: SharePointCopies, server: SharePointServer) -> None:
    """A download that ends early is a failure, however the server puts it."""
    await copies.download()
    server.update("plan.txt", b"0123456789")
    getattr(server, fault)(3, times=20)
    await copies.download()

    assert copies.files()["02_embedded/plan.txt"] == b"plan"
    assert list(copies.folder.glob(".incoming/*/*")) == []


async def test_name_that_is_no_name_here_is_refused(copies: SharePointCopies, server: SharePointServer) -> None:
    """An item whose name cannot be a file is not asked for; its row says why, and the others are copied."""
    server.file("bad\\name.txt", b"x")
    first = await copies.download()
    server.forget()
    second = await copies.download()

    assert counted(first.download) == {"added": 3, "downloaded": 3, "failed": 1}
    assert counted(second.download) == {"unchanged": 3, "failed": 1}
    assert "cannot be kept" in copies.rows()["bad\\name.txt"].sharepoint_error
    assert (copies.paths()["bad\\name.txt"], len(server.downloads)) == ("", 0)


async def test_name_too_long_is_kept_by_a_shorter_one(
    copies: SharePointCopies, server: SharePointServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A name longer than the file system takes is kept in 03_failed, and not downloaded again while unchanged."""
    name = "ü" * 130 + ".txt"
    server.file(name, b"long")
    await copies.download()
    server.forget()
    second = await copies.download()

    [kept] = [path for path in copies.files() if path.startswith("03_failed/")]
    assert copies.files()[kept] == b"long"
    assert copies.paths()[name] == kept.replace("/", "\\")
    assert "longer than this file system takes" in copies.rows()[name].sharepoint_error
    assert "longer than this file system takes" in caplog.text
    assert (counted(second.download), len(server.downloads)) == ({"unchanged": 4}, 0)


async def test_strange_names_and_empty_files_are_copied(copies: SharePointCopies, server: SharePointServer) -> None:
    """Unicode, quotes, blanks and percent signs stay as they are, and a file may be empty."""
    names = ["Ünï 😀 'q' & co/a%20b.txt", "שלום.md", "=cmd.txt", "empty.txt"]
    for name in names:
        server.file(name, b"" if name == "empty.txt" else name.encode())
    await copies.download()

    assert {name: copies.files()[f"02_embedded/{name}"] for name in names[:3]} == {n: n.encode() for n in names[:3]}
    assert copies.files()["02_embedded/empty.txt"] == b""
    assert set(names) < set(copies.rows())


# ── listings that are not whole, and losses ──


@pytest.mark.parametrize("fault", ["cut listing", "dead site"])
async def test_listing_that_is_not_whole_changes_nothing(
    fault: str, copies: SharePointCopies, server: SharePointServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A listing that breaks off, or a site that is gone, leaves copies and maps as they were, with an error line."""
    server.page_size(2)
    await copies.download()
    before = copies.state()
    server.delete("plan.txt")
    if fault == "dead site":
        server.kill_site(403)
    else:
        server.fail(403, on=LISTING, page=2, times=50)
    statistics = await copies.download()

    assert copies.state() == before
    assert counted(statistics.download) == {}
    assert (statistics.status, bool(statistics.error)) == ("skipped", True)
    assert "Skipped, nothing was changed: " in caplog.text


async def test_refused_loss_keeps_everything(copies: SharePointCopies, server: SharePointServer) -> None:
    """Where the loss guard refuses, nothing is removed, and what is new is downloaded all the same."""
    asked: list[tuple[int, int]] = []

    async def refuse(removed: int, known: int) -> str:
        asked.append((removed, known))
        return "2 of 4 would go."

    await copies.download()
    for name in ("plan.txt", "Reports/Q1.docx"):
        server.delete(name)
    server.file("new.md", b"new")
    statistics = await copies.download(on_removal=refuse)

    assert asked == [(2, 4)]
    assert counted(statistics.download) == {"added": 1, "downloaded": 1, "unchanged": 1, "held": 2}
    assert len(copies.files()) == len(copies.rows()) == 4
    assert counted((await copies.download()).download) == {"removed": 2, "unchanged": 2}


# ── full ──


async def test_full_downloads_over_what_is_there(copies: SharePointCopies, server: SharePointServer) -> None:
    """Full mode downloads everything again, deletes nothing first, and removes what is gone at the end."""
    await copies.download()
    server.delete("plan.txt")
    seen: list[set[str]] = []

    async def look(_done: int, _total: int, _message: str) -> None:
        seen.append(set(copies.files()))

    statistics = await copies.download(FULL, on_progress=look)

    assert counted(statistics.download) == {"changed": 2, "downloaded": 2, "removed": 1}
    assert seen == [{f"02_embedded/{name}" for name in ("Reports/Q1.docx", "Reports/Q2.docx", "plan.txt")}] * 2
    assert set(copies.files()) == {"02_embedded/Reports/Q1.docx", "02_embedded/Reports/Q2.docx"}


async def test_full_that_fails_keeps_the_copies(copies: SharePointCopies, server: SharePointServer) -> None:
    """If no download of a full run succeeds, every copy is still there."""
    await copies.download()
    before = copies.files()
    server.fail(410, on=DOWNLOAD, times=50)
    statistics = await copies.download(FULL)

    assert copies.files() == before
    assert counted(statistics.download) == {"failed": 3, "retried": 3}


@pytest.mark.parametrize("damage", ["missing", "damaged", "torn"])
async def test_lost_map_means_full(
    damage: str, copies: SharePointCopies, server: SharePointServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a map that can be read everything is downloaded, with a warning; a torn last line is no loss."""
    await copies.download()
    before, path = copies.state(), copies.path("files_map.csv")
    if damage == "missing":
        path.unlink()
    elif damage == "damaged":
        path.write_bytes(b"\xff\xfe" + path.read_bytes())
    else:
        path.write_bytes(path.read_bytes() + b'1,"half a ro')
    caplog.clear()
    statistics = await copies.download()

    assert copies.state() == before
    expected = {"unchanged": 3} if damage == "torn" else {"added": 3, "downloaded": 3}
    assert counted(statistics.download) == expected
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ["everything is downloaded" in line for line in warnings] == ([] if damage == "torn" else [True])


# ── pause, cancel, kill ──


async def test_stopped_run_goes_on_where_it_was(copies: SharePointCopies, server: SharePointServer) -> None:
    """A full run that is paused and continued downloads each file once, and ends as if it had not been paused."""
    await copies.download()
    server.forget()
    is_paused = False

    async def pause(_done: int, _total: int, _message: str) -> None:
        nonlocal is_paused
        is_paused = True

    step = copies.new_step(downloads_at_once=1, on_progress=pause, should_stop=lambda: is_paused)
    stopped = await copies.continue_download(step, FULL)
    assert stopped.status == "stopped"
    assert (len(server.downloads), len(copies.rows())) == (1, 3)
    step.should_stop = lambda: False
    await copies.continue_download(step, FULL)

    asked = [request.path for request in server.downloads]
    assert len(asked) == len(set(asked)) == 3


@pytest.mark.parametrize("looks", [0, 1, 3])
async def test_stop_loses_nothing(looks: int, copies: SharePointCopies, server: SharePointServer) -> None:
    """Wherever a run is stopped, every row and every copy stays, and the next run completes it."""
    await copies.download()
    before = copies.files()
    for name in ("Reports/Q1.docx", "plan.txt"):
        server.update(name, b"new " + name.encode())
    server.delete("Reports/Q2.docx")
    await copies.download(should_stop=after(looks))

    assert set(copies.files()) == set(before)
    assert len(copies.rows()) == 3
    await copies.download()
    assert set(copies.files()) == {"02_embedded/Reports/Q1.docx", "02_embedded/plan.txt"}
    assert copies.files()["02_embedded/plan.txt"] == b"new plan.txt"


# ── many at once ──


async def test_downloads_run_at_once(copies: SharePointCopies, server: SharePointServer) -> None:
    """As many files are under way at once as are allowed, and no more."""
    for number in range(6):
        server.file(f"many/{number}.txt", b"x")
    holds = [server.hold(on=DOWNLOAD) for _ in range(3)]
    running = asyncio.create_task(copies.download(downloads_at_once=3))
    for hold in holds:
        assert await asyncio.to_thread(hold.reached.wait, PATIENCE_SECONDS)
    assert len(server.downloads) == 3
    for hold in holds:
        hold.release()
    statistics = await running

    assert counted(statistics.download) == {"added": 9, "downloaded": 9}


async def test_throttled_downloads_all_arrive(copies: SharePointCopies, server: SharePointServer) -> None:
    """A server that throttles gets its pause, and every file is there at the end."""
    server.throttle(0, on=DOWNLOAD, times=2)
    statistics = await copies.download()

    assert counted(statistics.download) == {"added": 3, "downloaded": 3}


async def test_cancelled_step_leaves_everything_whole(copies: SharePointCopies, server: SharePointServer) -> None:
    """A step whose task is cancelled ends its threads and leaves nothing half done; the next run completes it."""
    hold = server.hold(on=DOWNLOAD)
    running = asyncio.create_task(copies.download(downloads_at_once=1))
    assert await asyncio.to_thread(hold.reached.wait, PATIENCE_SECONDS)
    running.cancel()
    hold.release()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list(copies.folder.glob(".incoming/*")) == []
    await copies.download()

    assert len(copies.files()) == 3


async def test_two_downloads_of_one_source_lose_nothing(copies: SharePointCopies, server: SharePointServer) -> None:
    """Two processes that download the same source at once end with every file and one row for each."""
    other = SharePointCopies(server, copies.settings, copies.storage.root)
    await asyncio.gather(copies.download(), other.download())

    assert len(copies.rows()) == len(copies.files()) == 3
    assert copies.map_text().count("\n") == 4


async def test_dead_server_is_not_asked_for_every_file(
    copies: SharePointCopies,
    server: SharePointServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After some downloads in a row that nobody answered the rest waits for the next run, and nothing is removed."""
    monkeypatch.setattr(item_downloads, "MOST_UNAVAILABLE", 2)
    await copies.download()
    for number in range(20):
        server.file(f"many/{number:02}.txt", b"x")
    server.delete("plan.txt")
    server.drop(on=DOWNLOAD, times=1000)
    statistics = await copies.download(downloads_at_once=1)

    assert (statistics.status, statistics.download.failed) == ("incomplete", 2)
    assert "downloads in a row failed" in statistics.error
    assert statistics.error in caplog.text
    assert set(copies.files()) == {f"02_embedded/{n}" for n in ("Reports/Q1.docx", "Reports/Q2.docx", "plan.txt")}
    server.heal()
    assert counted((await copies.download()).download) == {"added": 20, "downloaded": 20, "unchanged": 2, "removed": 1}
