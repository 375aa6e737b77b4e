"""A dry run of a SharePoint source says what a download would do, and leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.settings import Settings
from core.sources.sharepoint.io.download_preview import DownloadPreview, preview
from core.sources.sharepoint.io.download_step import FULL, INCREMENTAL
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.remote_items import SharePointUnavailable
from core.sources.sharepoint.source_types import SharePointType
from tests.sharepoint_copies import SharePointCopies
from tests.sharepoint_server import LISTING, SharePointServer


@pytest.fixture
def server() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        for name in ("a.txt", "b.txt", "c.txt", "photo.jpg"):
            running.file(name, f"text of {name}".encode())
        yield running


@pytest.fixture
def copies(server: SharePointServer, settings: Settings, tmp_path: Path) -> SharePointCopies:
    return SharePointCopies(server, settings, tmp_path / "storage")


async def look(copies: SharePointCopies, mode: str = INCREMENTAL) -> DownloadPreview:
    site = SharePointSite.open(copies.settings, copies.source.site_url)
    try:
        return await preview(site, copies.storage, copies.source, "jb_7", mode)
    finally:
        await asyncio.to_thread(site.close)


def everything(copies: SharePointCopies) -> dict[str, tuple[bytes, int]]:
    """Every file and folder of the storage."""
    places = sorted(copies.storage.root.rglob("*"))
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns if path.is_file() else 0)
        for path in places
    }


async def test_preview_of_a_new_source(copies: SharePointCopies, server: SharePointServer) -> None:
    """Everything would be added; it says how many bytes, and not even a folder is there afterwards."""
    found = await look(copies)

    assert (found.counts.added, found.counts.listed, found.counts.skipped_types) == (3, 4, 1)
    assert (found.bytes_to_download, found.requests_to_download) == (3 * len("text of a.txt"), 3)
    assert found.requests == len(server.requests) > 0
    assert found.coverage.file_types == {"jpg": 1}
    assert not copies.storage.root.exists()
    assert server.downloads == []


async def test_preview_says_what_a_download_then_does(copies: SharePointCopies, server: SharePointServer) -> None:
    """The counts are those of the download that follows, the changes are named, and the disk is as it was."""
    await copies.download()
    server.update("a.txt", b"other")
    server.delete("b.txt")
    server.file("New/d.md", b"new")
    before = everything(copies)
    found = await look(copies)

    assert everything(copies) == before
    changes = {(str(change), url.rpartition("/")[2]) for change, url in found.changes}
    assert changes == {("CHANGED", "a.txt"), ("REMOVED", "b.txt"), ("ADDED", "d.md")}
    assert found.bytes_to_download == len(b"other") + len(b"new")
    done = (await copies.download()).download
    names = ("listed", "added", "changed", "removed", "unchanged", "skipped_types")
    assert [getattr(found.counts, name) for name in names] == [getattr(done, name) for name in names]


async def test_preview_of_a_full_download(copies: SharePointCopies) -> None:
    """A full download would bring everything again."""
    await copies.download()

    assert (await look(copies)).counts.unchanged == 3
    assert (await look(copies, FULL)).counts.changed == 3


async def test_temporary_maps_are_there_meanwhile_and_go_on_errors(
    copies: SharePointCopies, server: SharePointServer
) -> None:
    """A listing that fails leaves nothing behind either."""
    await copies.download()
    before = everything(copies)
    server.page_size(2)
    server.fail(403, on=LISTING, page=2, times=50)
    with pytest.raises(SharePointUnavailable):
        await look(copies)

    assert everything(copies) == before


@pytest.mark.parametrize("source_type", [SharePointType.LISTS, SharePointType.SITE_PAGES])
async def test_rows_and_pages_cost_no_download(
    source_type: SharePointType, server: SharePointServer, settings: Settings, tmp_path: Path
) -> None:
    """Rows and pages come with the listing, so that nothing else would be asked for."""
    if source_type is SharePointType.LISTS:
        server.item_list("Tasks")
        server.row(Title="One")
        copies = SharePointCopies(server, settings, tmp_path, source_type, list_name="Tasks")
    else:
        server.pages()
        server.page("Home.aspx", "Home", wiki="<p>x</p>")
        copies = SharePointCopies(server, settings, tmp_path, source_type)
    found = await look(copies)

    assert (found.counts.added, found.bytes_to_download, found.requests_to_download) == (1, 0, 0)


async def test_id_that_leads_elsewhere_is_refused(copies: SharePointCopies) -> None:
    """The id of a dry run is a part of a file's name and nothing else."""
    site = SharePointSite.open(copies.settings, copies.source.site_url)
    with pytest.raises(ValueError, match="part of a file"):
        await preview(site, copies.storage, copies.source, "../../x")
