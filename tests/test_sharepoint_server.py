"""The SharePoint that tests talk to answers the real client as SharePoint does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msal
import pytest
import requests
from office365.runtime.client_request_exception import ClientRequestException
from office365.sharepoint.client_context import ClientContext
from office365.sharepoint.files.file import File

from sample_sharepoint.model import Column, Reference
from tests.sharepoint_server import CONTEXT, DOWNLOAD, LISTING, TOKEN, SharePointServer, make_certificate

OLD = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
LIBRARY = "/sites/demo/Shared Documents"


@pytest.fixture
def server() -> Iterator[SharePointServer]:
    with SharePointServer() as running:
        yield running


def connect(server: SharePointServer) -> ClientContext:
    token = {"access_token": "T", "token_type": "Bearer", "expires_in": 3600}
    return ClientContext(server.site_url).with_access_token(lambda: token)


def get(server: SharePointServer, path: str, **headers: str) -> requests.Response:
    headers = {"Authorization": "Bearer T", **headers}
    return requests.get(f"{server.site_url}/_api/{path}", headers=headers, timeout=30)


def test_web_and_list_are_found_by_path(server: SharePointServer) -> None:
    """A library is found by its path, whatever its title is."""
    server.file("a.txt")
    web = connect(server).web.get().execute_query()
    found = web.get_list(LIBRARY).get().execute_query()
    assert (web.properties["Title"], found.title, found.item_count) == ("Demo", "Documents", 1)
    with pytest.raises(ClientRequestException) as error:
        web.get_list("/sites/demo/Nothing").get().execute_query()
    assert (error.value.response.status_code, error.value.code) == (404, "-2147024894, System.IO.FileNotFoundException")


def test_items_with_their_files(server: SharePointServer) -> None:
    """One listing gives ids, paths, sizes and times of files in all folders."""
    item = server.file("Reports/O'Brien & 100% #1.docx", b"12345", OLD)
    names = [
        "ID",
        "FileRef",
        "FSObjType",
        "UniqueId",
        "File/UniqueId",
        "File/Length",
        "File/TimeLastModified",
        "File/ETag",
    ]
    items = connect(server).web.get_list(LIBRARY).items.select(names).expand(["File"]).get().execute_query()
    assert [one.properties["FSObjType"] for one in items] == [1, 0]
    file = items[1].file
    assert (file.unique_id, file.length, file.time_last_modified) == (item.unique_id, 5, OLD)
    assert items[1].properties["FileRef"] == f"{LIBRARY}/Reports/O'Brien & 100% #1.docx"
    assert items[1].properties["UniqueId"] == item.unique_id


def test_pages_are_followed(server: SharePointServer) -> None:
    """A listing is as long as it says, page by page, with links that lead to the next."""
    for number in range(5):
        server.file(f"{number}.txt")
    found = connect(server).web.get_list(LIBRARY).items.get_all(2).execute_query()
    assert (len(found), len(server.listings)) == (5, 3)
    assert "$skiptoken=Paged%3DTRUE%26p_ID%3D2" in server.listings[1].target
    server.page_size(4)
    assert len(connect(server).web.get_list(LIBRARY).items.get_all(2000).execute_query()) == 5


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("FSObjType eq 0", ["a.txt", "b's.md"]),
        ("FileLeafRef eq 'B''s.md'", ["b's.md"]),
        ("startswith(FileRef,'/sites/demo/Shared Documents/in/')", ["b's.md"]),
        ("substringof('.TXT',FileLeafRef) or ID gt 2", ["a.txt", "b's.md"]),
        ("Modified lt datetime'2025-01-01T00:00:00Z' and (ID ne 99)", ["a.txt"]),
        ("Modified ge '2025-01-01T00:00:00Z' and FSObjType eq 0", ["b's.md"]),
        ("Title eq null and FSObjType le 0", ["a.txt", "b's.md"]),
        ("AuthorId eq 7 and Author/Title eq 'Ada Sample' and FSObjType eq 1", ["in"]),
    ],
)
def test_filters(server: SharePointServer, text: str, names: list[str]) -> None:
    """Filters select as OData says; text is compared without case."""
    server.file("a.txt", modified=OLD)
    server.file("in/b's.md")
    items = connect(server).web.get_list(LIBRARY).items.select(["FileLeafRef"]).filter(text).get().execute_query()
    assert [one.properties["FileLeafRef"] for one in items] == names


@pytest.mark.parametrize(
    "text", ["Nothing eq 1", "endswith(Title,'x')", "ID eq", "not ID eq 1", "ID eq 1 1", "Modified gt datetime'x'"]
)
def test_refused_filters(server: SharePointServer, text: str) -> None:
    """A filter that SharePoint does not know is an error 400 with its reason."""
    server.file("a.txt")
    with pytest.raises(ClientRequestException) as error:
        connect(server).web.get_list(LIBRARY).items.filter(text).get().execute_query()
    assert error.value.response.status_code == 400
    assert "InvalidClientQueryException" in error.value.code


def test_folders_are_walked(server: SharePointServer) -> None:
    """The client's own walk finds files in folders of folders."""
    server.file("a.txt")
    server.file("x/y/b.txt")
    files = connect(server).web.get_list(LIBRARY).root_folder.get_files(True).execute_query()
    assert sorted(file.name for file in files) == ["a.txt", "b.txt"]
    assert server.asked(r"GetFolderById\('")


def test_content_by_id_and_by_path(server: SharePointServer) -> None:
    """A file's bytes come by its id, by its path with any signs, and from a place within it."""
    name = "Ünï 100% 'quoted' #1 & more+.docx"
    item = server.file(f"a b/{name}", b"0123456789")
    context = connect(server)
    assert context.web.get_file_by_id(item.unique_id).get_content().execute_query().value == b"0123456789"
    assert File.open_binary(context, f"{LIBRARY}/a b/{name}").content == b"0123456789"
    target = io.BytesIO()
    context.web.get_file_by_server_relative_path(f"{LIBRARY}/a b/{name}").download(target).execute_query()
    assert target.getvalue() == b"0123456789"
    target = io.BytesIO()
    context.web.get_file_by_id(item.unique_id).download_session(target).execute_query()
    assert target.getvalue() == b"0123456789"
    part = get(server, f"Web/GetFileById('{item.unique_id}')/$value", Range="bytes=4-6")
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (206, b"456", "bytes 4-6/10")


def test_lists_have_all_visible_columns(server: SharePointServer) -> None:
    """Custom columns of every type come as values and as text; hidden ones are known as such."""
    own = [
        Column("Status", "Status", "Choice"),
        Column("Due_x0020_Date", "Due Date", "DateTime"),
        Column("Owner", "Owner", "User"),
        Column("Body", "Notes", "Note"),
        Column("Secret", "Secret", "Text", is_hidden=True),
        Column("Tags", "Tags", "MultiChoice"),
    ]
    server.item_list("Project Tasks", own)
    server.row(Title="One", Status="Active", Due_x0020_Date=OLD, Owner=Reference(3, "Bo"), Tags=["x", "y"])
    server.row(Title="Two", Status="Done")
    tasks = connect(server).web.lists.get_by_title("project tasks")
    fields = tasks.fields.filter("Hidden eq false").get().execute_query()
    assert {"Status", "Due_x0020_Date", "Owner", "Body", "Tags"} <= {one.internal_name for one in fields}
    assert "Secret" not in {one.internal_name for one in fields}
    items = tasks.items.select(["*", "FieldValuesAsText"]).expand(["FieldValuesAsText"]).filter("Status eq 'active'")
    (row,) = items.get().execute_query()
    assert (row.properties["OwnerId"], row.properties["Tags"]) == (3, {0: "x", 1: "y"})
    texts = row.properties["FieldValuesAsText"].properties
    assert (texts["Owner"], texts["Tags"], texts["Due_x005f_x0020_x005f_Date"]) == ("Bo", "x, y", "1/15/2024 10:30 AM")
    with pytest.raises(ClientRequestException, match="'Note' cannot be used"):
        tasks.items.filter("Body eq 'x'").get().execute_query()


def test_site_pages(server: SharePointServer) -> None:
    """Pages carry their text in columns; a column that a site lacks cannot be selected."""
    server.pages(without=["WikiField"])
    server.page("Home.aspx", "Home", canvas="<div>Hi</div>")
    pages = connect(server).web.get_list("/sites/demo/SitePages")
    (page,) = pages.items.select(["*", "EncodedAbsUrl", "FileRef"]).get().execute_query()
    assert page.properties["CanvasContent1"] == "<div>Hi</div>"
    assert page.properties["EncodedAbsUrl"] == f"{server.site_url}/SitePages/Home.aspx"
    with pytest.raises(ClientRequestException, match="'WikiField' does not exist"):
        pages.items.select(["WikiField"]).get().execute_query()
    assert len(connect(server).site_pages.pages.get().execute_query()) == 1


def test_no_token_no_answer(server: SharePointServer) -> None:
    """Without a bearer token everything is 401; an expired one is refused once."""
    assert get(server, "Web", Authorization="").status_code == 401
    context = connect(server)
    context.web.get().execute_query()
    server.expire_token()
    with pytest.raises(ClientRequestException) as error:
        context.web.get().execute_query()
    assert error.value.response.status_code == 401
    context.web.get().execute_query()


def test_digests_expire(server: SharePointServer) -> None:
    """A digest that has expired is refused with 403 until a new one is asked for; the client asks by itself."""
    context = connect(server)
    context.web.get().execute_query()
    digest = server.requests[-1].headers["x-requestdigest"]
    server.expire_digest()
    refused = get(server, "Web", **{"X-RequestDigest": digest})
    assert (refused.status_code, "security validation" in refused.text) == (403, True)
    context.web.get().execute_query()
    assert len(server.asked(CONTEXT)) == 2


def test_throttled_page(server: SharePointServer) -> None:
    """A page can be refused with Retry-After in seconds or as a date; others are not."""
    for number in range(4):
        server.file(f"{number}.txt")
    server.throttle(7, on=LISTING, page=2)
    server.throttle(OLD, status=503, on=LISTING, page=2)
    first = get(server, f"Web/getList('{LIBRARY}')/items?$top=2").json()["d"]
    headers = {"Authorization": "Bearer T"}
    answers = [requests.get(first["__next"], headers=headers, timeout=30) for _ in range(3)]
    assert [one.status_code for one in answers] == [429, 503, 200]
    assert [one.headers.get("Retry-After") for one in answers] == ["7", "Mon, 15 Jan 2024 10:30:00 GMT", None]


def test_broken_answers(server: SharePointServer) -> None:
    """Connections can be closed before and within an answer, and lengths be wrong."""
    item = server.file("a.txt", b"0123456789")
    path = f"Web/GetFileById('{item.unique_id}')/$value"
    for fault in (server.drop, server.cut, lambda: server.wrong_length(20)):
        fault()
        with pytest.raises(requests.RequestException):
            get(server, path)
    server.shorten(4)
    assert [get(server, path).content for _ in range(2)] == [b"012345", b"0123456789"]
    server.fail(500, on=DOWNLOAD)
    assert get(server, path).json()["error"]["message"]["value"] == "Something went wrong."


def test_held_answers(server: SharePointServer) -> None:
    """A held answer lasts longer than a client waits, and comes when it is released."""
    hold = server.hold(on="Web$")
    with pytest.raises(requests.Timeout):
        requests.get(f"{server.site_url}/_api/Web", headers={"Authorization": "Bearer T"}, timeout=0.2)
    assert hold.reached.is_set()
    hold.release()
    assert get(server, "Web").status_code == 200


def test_locks_thresholds_and_dead_sites(server: SharePointServer) -> None:
    """A locked file is 423 unless the lock is bypassed; a large list refuses filters; a site can be gone."""
    item = server.file("a.txt")
    server.lock("a.txt")
    path = f"Web/GetFileById('{item.unique_id}')/$value"
    assert get(server, path).status_code == 423
    assert get(server, path, Prefer="bypass-shared-lock").content == b"text"
    server.threshold()
    refused = get(server, f"Web/getList('{LIBRARY}')/items?$filter=ID gt 0").json()["error"]
    assert "SPQueryThrottledException" in refused["code"]
    assert get(server, f"Web/getList('{LIBRARY}')/items").status_code == 200
    for status in (404, 403):
        server.kill_site(status)
        assert get(server, "Web").status_code == status


def test_changes_keep_what_sharepoint_keeps(server: SharePointServer) -> None:
    """Renaming and moving keep id and time, restoring brings both back, replacing makes another id."""
    item = server.file("a.txt", b"1", OLD)
    server.file("in/b.txt", b"2")
    assert server.rename("a.txt", "c.txt") is item
    server.move("c.txt", "x/y")
    assert (item.path, item.modified) == (f"{LIBRARY}/x/y/c.txt", OLD)
    server.rename("x", "z")
    assert item.path == f"{LIBRARY}/z/y/c.txt"
    server.move("z", "in")
    assert item.path == f"{LIBRARY}/in/z/y/c.txt"
    server.swap("in/z/y/c.txt", "in/b.txt")
    assert (item.path, server.item("in/z/y/c.txt").content) == (f"{LIBRARY}/in/b.txt", b"2")
    deleted = server.delete("in/b.txt")
    server.restore(deleted)
    assert server.item("in/b.txt").unique_id == item.unique_id
    assert server.replace("in/b.txt", b"3").unique_id != item.unique_id
    version = server.check_in("in/b.txt").version
    assert version == 2
    assert server.copy("in/b.txt", "copy.txt").content == b"3"


def test_tokens_by_certificate(server: SharePointServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MSAL gets a token for a certificate; a form without one is refused."""
    certificate = make_certificate(tmp_path)
    authority = server.authority_url(certificate.public, certificate.private)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.public))
    credential = {"private_key": certificate.private.read_text(), "thumbprint": certificate.thumbprint}
    app = msal.ConfidentialClientApplication(
        "app", authority=f"{authority}/contoso", client_credential=credential, instance_discovery=False
    )
    assert app.acquire_token_for_client([f"{server.origin}/.default"])["access_token"] == "sample-token"
    (asked,) = server.asked(TOKEN)
    assert b"client_assertion_type=urn" in asked.body
    refused = requests.post(f"{server.origin}/contoso/oauth2/v2.0/token", data={"client_id": "app"}, timeout=30)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_request")


def test_graph_delta(server: SharePointServer) -> None:
    """A delta lists everything, then only what changed and what is gone; an old link is 410 with where to begin."""
    for number in range(3):
        server.file(f"{number}.txt")
    server.page_size(2)
    drive = f"{server.origin}/v1.0/drives/{server.documents.drive_id}/root/delta"

    def ask(url: str) -> requests.Response:
        return requests.get(url, headers={"Authorization": "Bearer T"}, timeout=30)

    def listing(url: str) -> tuple[list[str], str]:
        names: list[str] = []
        while True:
            page = ask(url).json()
            names += [one.get("name") or one["deleted"]["state"] for one in page["value"]]
            if "@odata.deltaLink" in page:
                return names, page["@odata.deltaLink"]
            url = page["@odata.nextLink"]

    names, link = listing(drive)
    assert names == ["root", "0.txt", "1.txt", "2.txt"]
    server.update("1.txt", b"new")
    server.delete("0.txt")
    names, link = listing(link)
    assert names == ["root", "1.txt", "deleted"]
    server.forget_deltas()
    gone = ask(link)
    assert (gone.status_code, gone.headers["Location"]) == (410, drive)
