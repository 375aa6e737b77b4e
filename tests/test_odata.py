"""What SharePoint sends is read strictly: a row that cannot be understood ends the listing instead of vanishing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.sources.sharepoint import odata
from core.sources.sharepoint.odata import EntityPage
from core.sources.sharepoint.remote_items import ListColumn, SharePointUnavailable
from core.sources.sharepoint.sharepoint_responses import read_file, read_list_item, read_site_page

ORIGIN = "https://contoso.sharepoint.com"
SITE = f"{ORIGIN}/sites/demo"
ASKED = f"{SITE}/_api/Web/getList('/sites/demo/Shared%20Documents')/items?$top=2"
GUID = "0b5fb7e2-1d3c-4f6a-8e9b-2a7c5d4e3f10"
NESTED: Any = json.loads("[" * 50 + "]" * 50)
HOSTILE: tuple[Any, ...] = (
    None,
    "",
    7,
    -1,
    1.5,
    True,
    [],
    {},
    {"__deferred": {}},
    "\ud800",
    "x" * 1_000_000,
    "\0",
    NESTED,
    10**400,
)


def file_entity(**changes: Any) -> dict[str, Any]:
    file = {
        "UniqueId": GUID,
        "Name": "a.docx",
        "Length": "5",
        "ServerRelativeUrl": "/sites/demo/Shared Documents/a.docx",
        "TimeLastModified": "2024-01-15T10:30:00Z",
    }
    return {"ID": 3, "FSObjType": 0, "File": file, **changes}


# ── addresses ──


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Contoso.SharePoint.com/sites/x", "https://contoso.sharepoint.com"),
        ("https://contoso.sharepoint.com:443/", "https://contoso.sharepoint.com"),
        ("http://127.0.0.1:8009/sites/x", "http://127.0.0.1:8009"),
        ("http://[::1]:8009/x", "http://[::1]:8009"),
    ],
)
def test_origin(url: str, origin: str) -> None:
    """Two spellings of one server are the same server."""
    assert odata.origin_of(url) == origin


@pytest.mark.parametrize(
    ("site", "part", "path"),
    [
        (SITE, "/Shared Documents", "/sites/demo/Shared Documents"),
        (SITE, "Shared Documents/", "/sites/demo/Shared Documents"),
        (SITE, "/sites/demo/Shared Documents", "/sites/demo/Shared Documents"),
        (SITE, "/Sites/Demo/Shared Documents", "/Sites/Demo/Shared Documents"),
        (SITE, "/sites/demo2", "/sites/demo/sites/demo2"),
        (ORIGIN, "/Shared Documents", "/Shared Documents"),
        (f"{ORIGIN}/sites/b%C3%BCro", "/a", "/sites/büro/a"),
    ],
)
def test_path_of_a_library(site: str, part: str, path: str) -> None:
    """The path of a library is that below its site, unless it names the site already."""
    assert odata.server_relative(site, part) == path


def test_query_is_encoded() -> None:
    """Signs that would end a value or begin another are encoded; those that OData needs stay."""
    text = odata.query("*,File/Length", "File", "Title eq 'a&b #1+2'", 10)

    assert text == "?$select=*,File/Length&$expand=File&$filter=Title%20eq%20%27a%26b%20%231%2B2%27&$top=10"


LIST_BY_ID = f"{SITE}/_api/Web/Lists(guid'{GUID}')/Items"


@pytest.mark.parametrize(
    ("link", "uri", "is_followed"),
    [
        ("", "", True),
        (f"{SITE}/_api/web/GetList('/sites/demo/Shared%20Documents')/Items?%24skiptoken=2", "", True),
        ("?$skiptoken=2", "", True),
        (f"{LIST_BY_ID}?$skiptoken=2", f"{LIST_BY_ID}(2)", True),
        (f"{LIST_BY_ID}?$skiptoken=2", LIST_BY_ID.replace("0b5f", "1b5f"), False),
        (f"{LIST_BY_ID}?$skiptoken=2", "", True),
        (ASKED.replace("https:", "http:"), "", False),
        (ASKED.replace("contoso", "evil"), "", False),
        (ASKED.replace(".com/", ".com:8443/"), "", False),
        (ASKED.replace("https://", "https://contoso.sharepoint.com@evil.example/"), "", False),
        ("//evil.example/items", "", False),
        (ASKED.replace("Shared%20Documents", "Secret"), "", False),
        ("https://[::1/items", "", False),
        ("https://contoso.sharepoint.com:99999/items", "", False),
    ],
)
def test_next_page_is_of_the_same_list(link: str, uri: str, is_followed: bool) -> None:
    """A link to the next page is followed on the same server and in the same list, and nowhere else."""
    page = EntityPage([{"__metadata": {"uri": uri}}], link)

    if is_followed:
        assert bool(odata.next_address(page, ASKED)) == bool(link)
    else:
        with pytest.raises(SharePointUnavailable, match="next page"):
            odata.next_address(page, ASKED)


# ── answers ──


@pytest.mark.parametrize(
    "answer",
    [
        {"d": {"results": [{"ID": 1}], "__next": "link"}},
        {"value": [{"ID": 1}], "odata.nextLink": "link"},
        {"value": [{"ID": 1}], "@odata.nextLink": "link"},
    ],
)
def test_forms_of_a_page(answer: Any) -> None:
    """The verbose form, which the library asks for, and the light ones, which proxies may send, mean the same."""
    assert odata.read_page(answer) == EntityPage([{"ID": 1}], "link")


@pytest.mark.parametrize(
    "answer", [None, [1], "text", {}, {"d": None}, {"d": {"results": {}}}, {"d": {"results": [1]}}, {"value": "x"}]
)
def test_what_is_no_page(answer: Any) -> None:
    """Anything else is no empty listing: it is an error."""
    with pytest.raises(SharePointUnavailable, match="site_url"):
        odata.read_page(answer)


def test_columns() -> None:
    """Columns have their names, titles and types; hidden ones are left out, nameless ones are an error."""
    rows = [
        {"InternalName": "Due_x0020_Date", "Title": "Due Date", "TypeAsString": "DateTime", "Hidden": False},
        {"InternalName": "Guts", "Title": "Guts", "Hidden": True},
        {"InternalName": "Bare"},
    ]

    assert odata.read_columns(rows) == [
        ListColumn("Due_x0020_Date", "Due Date", "DateTime"),
        ListColumn("Bare", "Bare", ""),
    ]
    with pytest.raises(SharePointUnavailable):
        odata.read_columns([{"Title": "No name"}])


def test_errors_are_read() -> None:
    """An error has a code and one line of text, of whatever form it comes in."""
    message = {"lang": "en-US", "value": "The file\r\n is locked."}

    assert odata.error_of({"error": {"code": "-1, X", "message": message}}) == ("-1, X", "The file is locked.")
    assert odata.error_of({"odata.error": {"code": "c", "message": "m"}}) == ("c", "m")
    nothing: list[Any] = [None, [], {}, {"error": "x"}, {"error": {"message": []}}]
    assert {odata.error_of(one) for one in nothing} == {("", "")}


# ── rows ──


def test_file_without_its_own_object() -> None:
    """Where the file is not expanded, the columns of the item say the same."""
    bare = {
        "Id": 3,
        "FileSystemObjectType": 0,
        "FileRef": "/sites/demo/Shared Documents/a.docx",
        "FileLeafRef": "a.docx",
        "UniqueId": "{" + GUID.upper() + "}",
        "Modified": "2024-01-15T10:30:00Z",
        "File_x0020_Size": "5",
        "File": {"__deferred": {"uri": "…"}},
    }

    assert read_file(bare, ORIGIN) == read_file(file_entity(), ORIGIN) is not None


@pytest.mark.parametrize(
    "kind", [{"FSObjType": 1}, {"FSObjType": "1"}, {"FSObjType": None, "ContentTypeId": "0x012000"}]
)
def test_folders_are_left_out(kind: dict[str, Any]) -> None:
    """A folder is no file, whichever way its row says so."""
    entity = {**file_entity(), **kind, "File": None}

    assert read_file(entity, ORIGIN) is None


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-01-15T10:30:00Z", "2024-01-15T10:30:00.000000Z"),
        ("2024-01-15T10:30:00.123456Z", "2024-01-15T10:30:00.123456Z"),
        ("2024-01-15T12:30:00+02:00", "2024-01-15T10:30:00.000000Z"),
        ("2024-01-15T10:30:00", "2024-01-15T10:30:00.000000Z"),
        ("/Date(1705314600000)/", "2024-01-15T10:30:00.000000Z"),
        ("/Date(1705314600000+0000)/", "2024-01-15T10:30:00.000000Z"),
    ],
)
def test_times(text: str, utc: str) -> None:
    """Times become UTC with microseconds, from every form that SharePoint has had."""
    item = read_file(file_entity(File={**file_entity()["File"], "TimeLastModified": text}), ORIGIN)

    assert item is not None
    assert item.row.last_modified_utc == utc
    assert item.row.last_modified_timestamp == "1705314600"


@pytest.mark.parametrize(
    ("name", "file_type"), [("a.PDF", "pdf"), ("a.tar.gz", "gz"), (".env", ""), ("README", ""), ("a.", "")]
)
def test_types(name: str, file_type: str) -> None:
    """The type is what follows the last dot, in small letters."""
    item = read_file(file_entity(File={**file_entity()["File"], "Name": name}), ORIGIN)

    assert item is not None
    assert item.row.file_type == file_type


def test_cells_in_every_spelling() -> None:
    """A cell is found however its name is spelt, and as text before as a value."""
    columns = [
        ListColumn(name, name, "") for name in ("Title", "Due_x0020_Date", "_Odd", "Count", "Done", "Person", "No")
    ]
    texts = {"Title": "As text", "Due_x005f_x0020_x005f_Date": "1/15/2024", "OData__x005f_Odd": "odd"}
    entity = {
        "ID": 5,
        "GUID": GUID,
        "Modified": "2024-01-15T10:30:00Z",
        "FieldValuesAsText": texts,
        "Title": "as value",
        "Count": 3.0,
        "Done": True,
        "Person": {"Id": 1},
    }

    item = read_list_item(entity, columns, ORIGIN, "/sites/demo/Lists/Project Tasks")

    assert item is not None
    assert list(item.values.values()) == ["As text", "1/15/2024", "odd", "3", "Yes", "", ""]
    assert item.row.sharepoint_unique_file_id == GUID
    assert item.row.url == f"{SITE}/Lists/Project%20Tasks/DispForm.aspx?ID=5"
    assert item.row.server_relative_url == "/sites/demo/Lists/Project Tasks/DispForm.aspx?ID=5"


def test_page_without_a_file_object() -> None:
    """A page whose file is not expanded has the size of its text."""
    entity = {
        "ID": 1,
        "FileRef": "/sites/demo/SitePages/Home.aspx",
        "UniqueId": GUID,
        "Modified": "2024-01-15T10:30:00Z",
        "CanvasContent1": "<p>ü</p>",
        "WikiField": None,
    }

    item = read_site_page(entity, ORIGIN)

    assert item is not None
    assert (item.row.filename, item.row.file_size) == ("Home.aspx", "9")
    assert item.values["CanvasContent1"] == "<p>ü</p>"


def hostile_entities() -> list[dict[str, Any]]:
    """Every field of a file, an item and its file, with every value that it should not have, and missing."""
    found: list[dict[str, Any]] = []
    for value in HOSTILE:
        found += [file_entity(**{name: value}) for name in ("ID", "FSObjType", "File", "GUID", "FieldValuesAsText")]
        found += [file_entity(File={**file_entity()["File"], name: value}) for name in file_entity()["File"]]
        found += [
            {**file_entity(), "GUID": GUID, "Modified": value},
            {"ID": value},
            {"FileRef": value, "UniqueId": GUID},
        ]
    return found


def test_hostile_rows_end_in_sentences() -> None:
    """No value makes a reader crash, and what is read can be written to a file."""
    columns = [ListColumn("Title", "Title", ""), ListColumn("ID", "ID", "")]
    sentences = []
    for entity in hostile_entities():
        for read in (
            lambda one: read_file(one, ORIGIN),
            lambda one: read_site_page(one, ORIGIN),
            lambda one: read_list_item(one, columns, ORIGIN, "/sites/demo/Lists/x"),
        ):
            try:
                item = read(entity)
            except SharePointUnavailable as error:
                sentences.append(str(error))
                continue
            cells = [*item.row.cells(), *item.values.values()] if item else [""]
            assert isinstance("".join(cells).encode(), bytes)
    assert len(sentences) > 100
    assert max(map(len, sentences)) < 600
