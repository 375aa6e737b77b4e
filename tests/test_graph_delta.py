"""A library with a drive is listed only if Microsoft Graph tells of a change; any doubt means a listing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from core.sources.sharepoint.io.download_step import FULL
from core.sources.sharepoint.io.graph_delta import DriveState, drive_state
from core.sources.sharepoint.map_columns import SharePointRow
from core.sources.sharepoint.refusals import RequestRefused
from core.sources.sharepoint.remote_items import SharePointUnavailable
from tests.sharepoint_copies import SharePointCopies, quick
from tests.sharepoint_server import DELTA, LISTING, SharePointServer

__all__ = ["quick"]


@pytest.fixture
def server() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        running.file("Reports/Q1.docx", b"first quarter")
        running.file("plan.txt", b"plan")
        yield running


@pytest.fixture
def copies(server: SharePointServer, settings: Settings, tmp_path: Path) -> SharePointCopies:
    return SharePointCopies(server, settings, tmp_path, drive_id=server.documents.drive_id)


async def downloaded_twice(copies: SharePointCopies, between: Callable[[], Any]) -> None:
    """Download, let something happen, and download again with requests counted from there."""
    await copies.download()
    between()
    copies.server.forget()
    await copies.download()


async def test_unchanged_library_is_not_listed(copies: SharePointCopies, server: SharePointServer) -> None:
    """Without a change one request to Graph is all, every time, and everything stays as it was."""
    await copies.download()
    state = copies.state()
    for _ in range(2):
        server.forget()
        statistics = await copies.download()

        assert len(server.requests) == len(server.asked(DELTA)) == 1
        assert copies.state() == state
        assert (statistics.download.listed, statistics.download.unchanged) == (2, 2)


CHANGES: dict[str, Callable[[SharePointServer], Any]] = {
    "added": lambda server: server.file("new.txt", b"new"),
    "updated": lambda server: server.update("plan.txt", b"another plan"),
    "renamed": lambda server: server.rename("plan.txt", "plans.txt"),
    "moved": lambda server: server.move("plan.txt", "Reports"),
    "removed": lambda server: server.delete("plan.txt"),
    "folder renamed": lambda server: server.rename("Reports", "Papers"),
    "forgotten": lambda server: (server.update("plan.txt", b"another plan"), server.forget_deltas()),
    "refused": lambda server: (server.update("plan.txt", b"another plan"), server.fail(403, on=DELTA, times=9)),
    "broken": lambda server: (server.update("plan.txt", b"another plan"), server.drop(on=DELTA, times=99)),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_every_change_is_seen(
    copies: SharePointCopies, server: SharePointServer, change: str, tmp_path: Path
) -> None:
    """After any change, a forgotten point and trouble with Graph the copies are as without Graph; nothing is wiped."""
    await downloaded_twice(copies, lambda: CHANGES[change](server))

    assert server.asked(LISTING)
    plain = SharePointCopies(server, copies.settings, tmp_path / "plain")
    await plain.download()
    assert (copies.files(), copies.listed()) == (plain.files(), plain.listed())


async def test_forgotten_point_is_replaced(copies: SharePointCopies, server: SharePointServer) -> None:
    """After a 410 the library is compared once, and from then on Graph is asked again."""
    await downloaded_twice(copies, server.forget_deltas)
    assert server.asked(LISTING)
    server.service.oldest_delta_token = 0
    server.forget()
    await copies.download()

    assert not server.asked(LISTING)


async def test_map_that_is_not_the_one_noted(copies: SharePointCopies, server: SharePointServer) -> None:
    """A map that was edited, or written before the link was noted, is no listing: the library is."""
    path = copies.path(SharePointRow.file_name)
    await downloaded_twice(copies, lambda: path.write_text(path.read_text().replace("plan.txt", "plan.md")))

    assert server.asked(LISTING)
    assert set(copies.listed()) == {"Reports/Q1.docx", "plan.txt"}


async def test_notes_of_others_are_not_believed(copies: SharePointCopies, server: SharePointServer) -> None:
    """A note that leads elsewhere, or is none, sends no token anywhere and means a listing."""
    note = copies.path("graph_delta.json")
    await copies.download()
    good = json.loads(note.read_text())
    for bad in ("", "[]", "{}", json.dumps({**good, "link": 7}), json.dumps({**good, "link": "http://127.0.0.1:9/x"})):
        note.write_text(bad)
        server.forget()
        await copies.download()
        assert server.asked(LISTING)


async def test_full_download_and_other_filters_list(copies: SharePointCopies, server: SharePointServer) -> None:
    """A full download asks SharePoint itself, and so does a source whose filter is another than before."""
    await copies.download()
    server.forget()
    await copies.download(FULL)
    assert server.asked(LISTING)

    other = SharePointCopies(
        server, copies.settings, copies.storage.root, drive_id=server.documents.drive_id, filter="ID gt 0"
    )
    server.forget()
    await other.download()
    assert server.asked(LISTING)


# ── what Graph may answer ──

GRAPH = "https://graph.example"
DRIVE = f"{GRAPH}/v1.0/drives/b!1/root/delta"
LINK = f"{DRIVE}?token=1"
ROOT = {"id": "r", "root": {}}


def ask(answers: dict[str, Any]) -> Callable[[str], Any]:
    def answer(url: str) -> Any:
        found = answers[url]
        if isinstance(found, Exception):
            raise found
        return found

    return answer


LATEST = {f"{DRIVE}?token=latest": {"value": [], "@odata.deltaLink": f"{DRIVE}?token=2"}}
NEXT = f"{DRIVE}?page=2"


@pytest.mark.parametrize(
    ("answers", "is_unchanged"),
    [
        ({LINK: {"value": [], "@odata.deltaLink": LINK}}, True),
        ({LINK: {"value": [ROOT], "@odata.deltaLink": LINK}}, True),
        ({LINK: {"value": [ROOT], "@odata.nextLink": NEXT}, NEXT: {"value": [], "@odata.deltaLink": LINK}}, True),
        ({LINK: {"value": [ROOT], "@odata.nextLink": NEXT}, NEXT: {"value": [{"id": "x"}]}}, False),
        ({LINK: {"value": [], "@odata.nextLink": LINK}}, False),
        ({LINK: {"value": [], "@odata.nextLink": "https://evil.example/delta"}}, False),
        ({LINK: {"value": [{"id": "x", "deleted": {}}], "@odata.deltaLink": LINK}}, False),
        ({LINK: {"value": []}}, False),
        ({LINK: {"value": {}}}, False),
        ({LINK: None}, False),
        ({LINK: RequestRefused(410, "resyncRequired", "")}, False),
    ],
)
def test_what_counts_as_unchanged(answers: dict[str, Any], is_unchanged: bool) -> None:
    """Only an answer that is whole, of this drive and without entries means that nothing has changed."""
    link = LINK if is_unchanged else f"{DRIVE}?token=2"

    assert drive_state(ask({**answers, **LATEST}), GRAPH, "b!1", LINK) == DriveState(is_unchanged, link)


@pytest.mark.parametrize("error", [RequestRefused(403, "", "no"), SharePointUnavailable("no")])
def test_graph_that_does_not_answer(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Trouble with Graph is told, and means that the library is listed."""
    assert drive_state(ask({LINK: error}), GRAPH, "b!1", LINK) == DriveState(False, "")
    assert "the library is listed" in caplog.text
