"""A SharePoint site is read whole or not at all, whatever its server does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from core.sources.sharepoint.io import throttle_gate
from core.sources.sharepoint.io.sharepoint_client import SharePointSite
from core.sources.sharepoint.remote_items import DownloadFailed, RemoteItem, SharePointStopped, SharePointUnavailable
from tests.sharepoint_server import (
    COLUMNS,
    CONTEXT,
    DOWNLOAD,
    LISTING,
    Column,
    Reference,
    SharePointServer,
)

DOCUMENTS = "/Shared Documents"
OLD = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for what it does not test."""
    monkeypatch.setattr(throttle_gate, "FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(throttle_gate, "_gates", {})


@pytest.fixture
def sharepoint() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        yield running


@pytest.fixture
def site(sharepoint: SharePointServer, settings: Settings) -> Iterator[SharePointSite]:
    opened = open_site(sharepoint, settings)
    yield opened
    opened.close()


def open_site(sharepoint: SharePointServer, settings: Settings, **changes: Any) -> SharePointSite:
    should_stop = changes.pop("should_stop", never)
    changed = settings.model_copy(update={**sharepoint.settings(), **changes})
    return SharePointSite.open(changed, sharepoint.site_url, should_stop)


def never() -> bool:
    return False


def names(pages: Iterator[list[RemoteItem]]) -> list[str]:
    return [item.row.filename for page in pages for item in page]


def five_files(sharepoint: SharePointServer) -> list[str]:
    """Three pages: two files, two files, one file."""
    sharepoint.page_size(2)
    for number in range(5):
        sharepoint.file(f"{number}.txt", b"12345")
    return [f"{number}.txt" for number in range(5)]


def only_item(site: SharePointSite) -> RemoteItem:
    [[item]] = site.library(DOCUMENTS)
    return item


# ── what is listed ──


def test_row_of_a_file(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """A file has its ids, names, size, both addresses and its time in both forms; folders are left out."""
    item = sharepoint.file("Reports/O'Brien & 100% #1 ünï.DOCX", b"12345", OLD)

    row = only_item(site).row

    assert (row.sharepoint_listitem_id, row.sharepoint_unique_file_id) == (str(item.id), item.unique_id)
    assert (row.filename, row.file_type, row.file_size) == ("O'Brien & 100% #1 ünï.DOCX", "docx", "5")
    assert row.server_relative_url == "/sites/demo/Shared Documents/Reports/O'Brien & 100% #1 ünï.DOCX"
    assert row.raw_url == sharepoint.origin + row.server_relative_url
    encoded = "/sites/demo/Shared%20Documents/Reports/O%27Brien%20%26%20100%25%20%231%20%C3%BCn%C3%AF.DOCX"
    assert row.url == sharepoint.origin + encoded
    assert (row.last_modified_utc, row.last_modified_timestamp) == ("2024-01-15T10:30:00.000000Z", "1705314600")


def test_library_is_found_by_its_path(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """The path decides, not the title; it may begin below the site or at the root of the server."""
    sharepoint.library("Assets of ours", "SiteAssets")
    sharepoint.file("logo.txt")

    assert names(site.library("/SiteAssets")) == names(site.library("/sites/demo/SiteAssets")) == ["logo.txt"]
    with pytest.raises(SharePointUnavailable, match="sharepoint_url_part"):
        names(site.library("/Assets of ours"))


@pytest.mark.parametrize("path", ["/sites/büro", "/sites/my site", "/teams/a/b", ""])
def test_sites_of_every_path(sharepoint: SharePointServer, settings: Settings, path: str, tmp_path: Path) -> None:
    """A site may have letters and blanks of any kind in its path, be below another, or at the root."""
    sharepoint.site(path)
    sharepoint.library("Documents", "Geteilte Dokumente")
    sharepoint.file("ü/a.txt", b"12345")
    site = open_site(sharepoint, settings)

    [[item]] = site.library("/Geteilte Dokumente")
    assert item.row.server_relative_url == f"{path}/Geteilte Dokumente/ü/a.txt"
    sharepoint.fail(404, on="getfilebyid")
    assert site.download(item, tmp_path / "a.part", never) == 5


def test_filter_goes_to_the_server(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """Only items that the filter lets through are listed; the server is asked, in OData."""
    first = sharepoint.file("a.txt")
    sharepoint.file("b.txt")

    assert names(site.library(DOCUMENTS, f"ID eq {first.id}")) == ["a.txt"]


def test_filter_over_the_threshold_says_so(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """A filter that SharePoint refuses for a large list is explained, and not tried again and again."""
    sharepoint.file("a.txt")
    sharepoint.threshold()

    with pytest.raises(SharePointUnavailable, match="index"):
        names(site.library(DOCUMENTS, "Title eq 'x'"))
    assert len(sharepoint.listings) == 1


def test_server_that_cannot_expand_files(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """If the server refuses the file with its item, the columns of the item tell the same."""
    item = sharepoint.file("Reports/a.docx", b"12345", OLD)
    usual = only_item(site)
    sharepoint.fail(400, on=LISTING)

    assert only_item(site) == usual
    assert usual.row.sharepoint_unique_file_id == item.unique_id


def test_list_has_every_visible_column(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """Cells are those that SharePoint shows, of custom columns too, by internal name."""
    extra = [
        Column("Due_x0020_Date", "Due Date", "DateTime"),
        Column("_Odd", "Odd"),
        Column("Owner", "Owner", "User"),
        Column("Secret", "Secret", is_hidden=True),
    ]
    sharepoint.item_list("Project's Tasks", extra)
    row = sharepoint.row(OLD, Title="Buy rope", Due_x0020_Date=OLD, _Odd="1", Owner=Reference(7, "Ada"), Secret="s")

    columns = {column.name: column.title for column in site.list_columns("Project's Tasks")}
    [[item]] = site.list_items("Project's Tasks")

    assert columns.keys() >= {"Title", "Due_x0020_Date", "_Odd", "Owner"}
    assert (columns["Due_x0020_Date"], "Secret" in columns) == ("Due Date", False)
    assert {name: item.values[name] for name in ("Title", "_Odd", "Owner")} == {
        "Title": "Buy rope",
        "_Odd": "1",
        "Owner": "Ada",
    }
    assert "2024" in item.values["Due_x0020_Date"]
    assert item.values.keys() == columns.keys()
    assert (item.row.filename, item.row.file_type, item.row.file_size) == (f"{row.id}.md", "md", "")
    assert item.row.url == f"{sharepoint.site_url}/Lists/Project%27s%20Tasks/DispForm.aspx?ID={row.id}"
    assert item.row.last_modified_utc == "2024-01-15T10:30:00.000000Z"
    assert len(sharepoint.asked(COLUMNS)) == 1


def test_pages_carry_their_text(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """A page comes with its canvas or wiki text, also where the site lacks some of the columns."""
    sharepoint.pages(without=["WikiField"])
    sharepoint.page("News/Home.aspx", "Home", canvas="<div>Hello</div>")

    [[item]] = site.pages("/SitePages")

    assert (item.row.filename, item.row.file_type) == ("Home.aspx", "aspx")
    assert item.row.server_relative_url == "/sites/demo/SitePages/News/Home.aspx"
    assert (item.values["Title"], item.values["CanvasContent1"]) == ("Home", "<div>Hello</div>")
    assert "WikiField" not in item.values


# ── listings that are interrupted ──


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("is_date", [False, True])
def test_throttled_page_is_asked_again_and_no_other(
    sharepoint: SharePointServer, site: SharePointSite, status: int, is_date: bool
) -> None:
    """ "Not now" on page two, in seconds or as a date: each page comes once, and only page two is asked for twice."""
    expected = five_files(sharepoint)
    moment = datetime.now(UTC) + timedelta(seconds=1)
    sharepoint.throttle(moment if is_date else 1, status=status, on=LISTING, page=2)

    assert names(site.library(DOCUMENTS)) == expected
    targets = [request.target for request in sharepoint.listings]
    assert (len(targets), len(set(targets)), targets[1]) == (4, 3, targets[2])


@pytest.mark.parametrize("fault", ["fail", "drop", "cut"])
def test_page_that_fails_is_asked_again_and_no_other(
    sharepoint: SharePointServer, site: SharePointSite, fault: str
) -> None:
    """An error of the server, a broken connection, a page cut short: only this page is asked for again."""
    expected = five_files(sharepoint)
    getattr(sharepoint, fault)(on=LISTING, page=2)

    assert names(site.library(DOCUMENTS)) == expected
    assert len(sharepoint.listings) == 4


@pytest.mark.parametrize("fault", ["fail", "drop", "cut"])
def test_listing_without_its_end_is_an_error(sharepoint: SharePointServer, site: SharePointSite, fault: str) -> None:
    """If a page never comes, the listing ends with an exception, after what came: never as if it were whole."""
    five_files(sharepoint)
    getattr(sharepoint, fault)(on=LISTING, page=2, times=100)
    listing = site.library(DOCUMENTS)

    assert [item.row.filename for item in next(listing)] == ["0.txt", "1.txt"]
    with pytest.raises(SharePointUnavailable, match="next crawl"):
        next(listing)


def test_page_that_takes_too_long_is_asked_again(sharepoint: SharePointServer, settings: Settings) -> None:
    """A page that does not come in time is asked for again."""
    expected = five_files(sharepoint)
    sharepoint.hold(on=LISTING, page=2)
    site = open_site(sharepoint, settings, sharepoint_timeout_seconds=1.0)

    assert names(site.library(DOCUMENTS)) == expected


def test_token_that_expires_in_a_listing(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """A 401 is tried once more; a second one says what to do."""
    expected = five_files(sharepoint)
    sharepoint.expire_token()
    assert names(site.library(DOCUMENTS)) == expected

    sharepoint.fail(401, on=LISTING, times=2)
    with pytest.raises(SharePointUnavailable, match="SHAREPOINT_ACCESS_TOKEN"):
        names(site.library(DOCUMENTS))


def test_digest_that_expires_in_a_listing(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """A form digest that is no longer good is replaced, and the listing goes on where it was."""
    expected = five_files(sharepoint)
    listing = site.library(DOCUMENTS)
    found = [item.row.filename for item in next(listing)]
    sharepoint.expire_digest()

    assert found + names(listing) == expected
    assert len(sharepoint.asked(CONTEXT)) == 2


@pytest.mark.parametrize(("status", "advice"), [(403, "Sites.Selected"), (404, "site_url")])
def test_dead_site_says_what_to_do(
    sharepoint: SharePointServer, site: SharePointSite, status: int, advice: str
) -> None:
    """No permission and no such site are explained, and not tried again."""
    sharepoint.kill_site(status)

    with pytest.raises(SharePointUnavailable, match=advice):
        names(site.library(DOCUMENTS))
    assert len(sharepoint.requests) == 1


def test_user_agent_is_on_every_request(sharepoint: SharePointServer, settings: Settings) -> None:
    """Microsoft throttles clients without a name first: digests and downloads carry it too."""
    sharepoint.file("a.txt", b"12345")
    site = open_site(sharepoint, settings, sharepoint_user_agent="NONISV|Harbour|Test/1.0")
    item = only_item(site)
    site.download(item, settings.persistent_storage_path / "a.part", never)

    assert {request.headers["user-agent"] for request in sharepoint.requests} == {"NONISV|Harbour|Test/1.0"}
    assert sharepoint.asked(CONTEXT)
    assert site.request_count == len(sharepoint.requests)


def test_environment_has_no_say(
    sharepoint: SharePointServer, site: SharePointSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in the environment is not used; that of FETCH_PROXY_URL is."""
    sharepoint.file("a.txt")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")

    assert names(site.library(DOCUMENTS)) == ["a.txt"]


# ── downloads ──


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "download.part"


@pytest.mark.parametrize("content", [b"", b"12345", b"x" * 300_000])
def test_file_is_downloaded_whole(
    sharepoint: SharePointServer, site: SharePointSite, target: Path, content: bytes
) -> None:
    """Every byte arrives, of an empty file too."""
    sharepoint.file("a.bin", content)

    assert site.download(only_item(site), target, never) == len(content)
    assert target.read_bytes() == content


@pytest.mark.parametrize("fault", ["cut", "shorten", "drop", "fail", "throttle"])
def test_download_that_fails_is_tried_again(
    sharepoint: SharePointServer, site: SharePointSite, target: Path, fault: str
) -> None:
    """A body cut short, one of another size, a broken connection: the second try has it all."""
    sharepoint.file("a.bin", b"12345")
    getattr(sharepoint, fault)(on=DOWNLOAD)

    assert site.download(only_item(site), target, never) == 5
    assert (target.read_bytes(), len(sharepoint.downloads)) == (b"12345", 2)


@pytest.mark.parametrize(
    ("fault", "reason"), [("cut", "cut short"), ("shorten", "4 of 5 bytes"), ("drop", "broke"), ("fail", "500")]
)
def test_download_that_always_fails(
    sharepoint: SharePointServer, site: SharePointSite, target: Path, fault: str, reason: str
) -> None:
    """After its tries the download is a failed one, with a reason, and nothing half stays on disk."""
    sharepoint.file("a.bin", b"12345")
    item = only_item(site)
    getattr(sharepoint, fault)(on=DOWNLOAD, times=100)

    with pytest.raises(DownloadFailed, match=reason):
        site.download(item, target, never)
    assert not target.exists()


def test_longer_file_than_listed_is_refused(sharepoint: SharePointServer, site: SharePointSite, target: Path) -> None:
    """A file that grew since it was listed would not be the one that the map describes."""
    sharepoint.file("a.bin", b"12345")
    item = only_item(site)
    sharepoint.update("a.bin", b"1234567")

    with pytest.raises(DownloadFailed, match="changed meanwhile"):
        site.download(item, target, never)
    assert not target.exists()


def test_locked_files(sharepoint: SharePointServer, site: SharePointSite, target: Path) -> None:
    """A file that somebody edits is read all the same; one that stays locked fails with the reason."""
    sharepoint.file("a.bin", b"12345")
    item = only_item(site)
    sharepoint.lock("a.bin")
    assert site.download(item, target, never) == 5

    sharepoint.fail(423, on=DOWNLOAD)
    with pytest.raises(DownloadFailed, match="locked"):
        site.download(item, target, never)


def test_file_that_went_away(sharepoint: SharePointServer, site: SharePointSite, target: Path) -> None:
    """A file that was removed after it was listed is one failed download."""
    sharepoint.file("a.bin", b"12345")
    item = only_item(site)
    sharepoint.delete("a.bin")

    with pytest.raises(DownloadFailed, match="removed since"):
        site.download(item, target, never)


def test_server_that_knows_no_ids(sharepoint: SharePointServer, site: SharePointSite, target: Path) -> None:
    """Where a file cannot be asked for by its id, it is by its path."""
    sharepoint.file("Reports/O'Brien 100% #1.bin", b"12345")
    item = only_item(site)
    sharepoint.fail(404, on="getfilebyid")

    assert site.download(item, target, never) == 5


def test_list_that_does_not_say_where_it_is(sharepoint: SharePointServer, site: SharePointSite) -> None:
    """Where a server does not tell the root of a list, it is where SharePoint puts new lists."""
    sharepoint.item_list("Tasks")
    sharepoint.row(Title="Buy rope")
    sharepoint.fail(404, on="rootfolder")

    [[item]] = site.list_items("Tasks")

    assert item.row.raw_url == f"{sharepoint.site_url}/Lists/Tasks/DispForm.aspx?ID=1"


def test_downloads_share_one_site(sharepoint: SharePointServer, site: SharePointSite, tmp_path: Path) -> None:
    """Several threads download at once; "not now" for one of them is waited for by all."""
    for number in range(12):
        sharepoint.file(f"{number}.bin", str(number).encode() * 1000)
    sharepoint.throttle(1, on=DOWNLOAD, times=2)
    items = [item for page in site.library(DOCUMENTS) for item in page]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda item: site.download(item, tmp_path / item.row.filename, never), items))

    assert all((tmp_path / f"{number}.bin").read_bytes() == str(number).encode() * 1000 for number in range(12))
    assert len(sharepoint.downloads) == 14


# ── stopping ──


def test_wait_for_the_server_can_be_stopped(sharepoint: SharePointServer, settings: Settings) -> None:
    """A server that asks for an hour does not hold up a run that was cancelled."""
    sharepoint.file("a.txt")
    sharepoint.throttle(3600, on=LISTING)
    site = open_site(sharepoint, settings, should_stop=lambda: bool(sharepoint.listings))

    with pytest.raises(SharePointStopped):
        names(site.library(DOCUMENTS))


def test_download_can_be_stopped(sharepoint: SharePointServer, site: SharePointSite, target: Path) -> None:
    """A run that is cancelled does not wait for the end of a large file, and no half file stays."""
    sharepoint.file("a.bin", b"x" * 1_000_000)
    item = only_item(site)
    looks = iter([False, False])

    with pytest.raises(SharePointStopped):
        site.download(item, target, lambda: next(looks, True))
    assert not target.exists()
