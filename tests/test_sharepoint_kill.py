"""A crawl of SharePoint that is killed anywhere ends, after one more run, like one that was not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.settings import Settings
from core.sources.sharepoint.source_types import SharePointType
from tests import prefork
from tests.sharepoint_copies import SharePointCopies
from tests.sharepoint_server import Column, SharePointServer

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 120.0
FEW_POINTS = 4


@pytest.fixture
def server() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        yield running


def fill(server: SharePointServer, source_type: SharePointType) -> None:
    if source_type is SharePointType.FILES:
        for name in ("a.txt", "b.txt", "Old/c.txt", "gone.txt", "folder.md/d.md"):
            server.file(name, f"text of {name}".encode())
    elif source_type is SharePointType.LISTS:
        server.item_list("Tasks", [Column("Body", "Notes", "Note")])
        for number in range(4):
            server.row(Title=f"Task {number}", Body="one\ntwo")
    else:
        server.pages()
        for name in ("A.aspx", "B.aspx", "Old/C.aspx"):
            server.page(name, name, wiki=f"<p>Text of {name}</p>")


def change(server: SharePointServer, source_type: SharePointType) -> None:
    """Something of everything: added, changed, removed, moved, swapped, a folder that becomes a file."""
    if source_type is SharePointType.FILES:
        server.swap("a.txt", "b.txt")
        server.update("Old/c.txt", b"another text")
        server.delete("gone.txt")
        server.move("folder.md", "Elsewhere")
        server.file("folder.md", b"a file now")
    elif source_type is SharePointType.LISTS:
        first, second, *_ = server.at.items.values()
        server.update_row(first, Body="three\nfour")
        server.delete_row(second)
        server.row(Title="New")
    else:
        server.swap("A.aspx", "B.aspx")
        server.update_page("Old/C.aspx", WikiField="<p>Other</p>")
        server.page("New.aspx", "New", wiki="<p>New</p>")


@pytest.mark.parametrize("source_type", SharePointType)
async def test_killed_crawl_ends_like_an_unkilled_one(
    source_type: SharePointType, server: SharePointServer, settings: Settings, tmp_path: Path, full: bool
) -> None:
    """Killed before any change of the disk, in either mode: one more run, and disk and maps are as without the kill."""
    fill(server, source_type)
    before = copies_at(tmp_path / "before", server, settings, source_type)
    await before.download()
    await before.process()
    change(server, source_type)
    for mode in ("incremental", "full") if full else ("incremental",):
        trials = tmp_path / mode
        await asyncio.to_thread(run_trials, before, trials, mode, 0 if full else FEW_POINTS)
        whole = copies_at(trials / "whole", server, settings, source_type)
        points = sorted(path for path in trials.iterdir() if path.name.isdecimal())
        assert len(points) >= FEW_POINTS
        for point in points:
            killed = copies_at(point, server, settings, source_type)
            await killed.download()
            if source_type.is_processed:
                await killed.process()

            assert killed.state() == whole.state(), point
            for left in killed.folder.glob(".*.scratch"):  # of the moment before it has no name any more
                os.utime(left, (0, 0))
            await killed.download()
            assert {path.name for path in killed.folder.iterdir()} == {path.name for path in whole.folder.iterdir()}
            assert list(killed.folder.glob(".incoming/*")) == []


def copies_at(
    storage: Path, server: SharePointServer, settings: Settings, source_type: SharePointType
) -> SharePointCopies:
    list_name = "Tasks" if source_type is SharePointType.LISTS else ""
    return SharePointCopies(server, settings, storage, source_type, list_name=list_name)


def run_trials(before: SharePointCopies, trials: Path, mode: str, points: int) -> None:
    """Run the steps in processes that kill themselves, each on a copy of the storage."""
    source = before.source
    trials.mkdir()
    places = [str(before.storage.root), str(trials)]
    what = [source.site_url, str(source.source_type), source.list_name, mode, str(points)]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with (trials / "output").open("wb") as log:
        command = ["tests.sharepoint_steps", *places, *what]
        process = prefork.start(command, trials, environment | {"PYTHONPATH": str(ROOT)}, log, log)
        try:
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
    assert code == 0, (trials / "output").read_text(errors="replace")
