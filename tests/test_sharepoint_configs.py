"""SharePoint sources as people write them: what is taken, in which form, and what is said about mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from core.sources.sharepoint.refusals import RequestRefused, download_advice
from core.sources.sharepoint.source_configs import FileSourceConfig, ListSourceConfig, SitePageSourceConfig

SITE = "https://contoso.sharepoint.com/sites/MyProject"


def library(**fields: Any) -> FileSourceConfig:
    return FileSourceConfig.model_validate({"site_url": SITE, "sharepoint_url_part": "/Shared Documents", **fields})


def items(**fields: Any) -> ListSourceConfig:
    return ListSourceConfig.model_validate({"site_url": SITE, "list_name": "Project Tasks", **fields})


def test_library_list_and_pages() -> None:
    """Each has its site, what is read of it, a filter, and a name of its own."""
    files = library(source_id="docs_main", filter="", interval_seconds=60.0, drive_id="b!abc")
    tasks = items(id="tasks", filter="Status eq 'Active'")
    pages = SitePageSourceConfig(site_url=SITE)

    assert (files.id, files.config()) == (
        "docs_main",
        {
            "site_url": SITE,
            "sharepoint_url_part": "/Shared Documents",
            "filter": "",
            "interval_seconds": 60.0,
            "drive_id": "b!abc",
        },
    )
    assert (tasks.id, tasks.list_name, tasks.filter) == ("tasks", "Project Tasks", "Status eq 'Active'")
    assert pages.sharepoint_url_part == "/SitePages"
    assert [one.title() for one in (files, tasks, pages)] == [
        f"{SITE}/Shared Documents",
        f"{SITE}/Project Tasks",
        f"{SITE}/SitePages",
    ]
    assert [one.derived_id() for one in (files, tasks, pages)] == ["shared-documents", "project-tasks", "sitepages"]


def test_one_form() -> None:
    """Slashes at the end go, percent-encoding is read; letters, quotes and signs of names stay."""
    assert library(site_url=f"{SITE}/").site_url == SITE
    assert library(sharepoint_url_part="/Shared%20Documents/").sharepoint_url_part == "/Shared Documents"
    assert library(sharepoint_url_part="Shared Documents").sharepoint_url_part == "/Shared Documents"
    assert library(sharepoint_url_part="/Ré'sumé & C# 👩‍💻/Q1").sharepoint_url_part == "/Ré'sumé & C# 👩‍💻/Q1"


def test_source_id_is_written_back() -> None:
    """A domain.json that Freshet writes has the key that others know."""
    written = library(source_id="docs").model_dump(mode="json", by_alias=True, exclude_unset=True)

    assert written == {"source_id": "docs", "site_url": SITE, "sharepoint_url_part": "/Shared Documents"}


WRONG: list[tuple[str, str, Any, str]] = [
    ("nothing", "sharepoint_url_part", " ", "names no library"),
    ("up, without a slash", "sharepoint_url_part", "../x", "is not the path of a library"),
    ("a whole URL", "sharepoint_url_part", f"{SITE}/Shared Documents", "is a whole URL; give only the path behind"),
    ("the site alone", "sharepoint_url_part", "/", "names no library"),
    ("a view", "sharepoint_url_part", "/Shared Documents/Forms/AllItems.aspx", "names no library"),
    ("up", "sharepoint_url_part", "/Shared Documents/../x", "is not the path of a library"),
    ("up, encoded", "sharepoint_url_part", "/a/%2e%2e/x", "is not the path of a library"),
    ("two slashes", "sharepoint_url_part", "//host/x", "is not the path of a library"),
    ("a backslash", "sharepoint_url_part", "/a\\b", "is not the path of a library"),
    ("a NUL", "sharepoint_url_part", "/a%00b", "is not the path of a library"),
    ("no URL", "site_url", "contoso.sharepoint.com", "is not a URL; write https://"),
    ("no host", "site_url", "https://", "is not a URL; write https://"),
    ("no port", "site_url", "https://host:x/", "is not a URL; write https://"),
    ("another scheme", "site_url", "ftp://contoso.sharepoint.com/", "is not a URL"),
    ("a page", "site_url", f"{SITE}/SitePages/Home.aspx", "is the address of a page"),
    ("a query", "site_url", f"{SITE}?web=1", "is the address of a page"),
    ("a password", "site_url", "https://me:hunter2@contoso.sharepoint.com/", "holds a user name or password"),
    ("a filter of two lines", "filter", "a\nb", "holds a line break"),
]


@pytest.mark.parametrize(("name", "key", "value", "sentence"), WRONG, ids=[row[0] for row in WRONG])
def test_mistakes_are_sentences(name: str, key: str, value: Any, sentence: str) -> None:
    """Each says what to write instead, and never repeats a secret."""
    with pytest.raises(ValidationError) as caught:
        library(**{key: value})
    [problem] = caught.value.errors(include_url=False, include_input=False)

    assert problem["loc"] == (key,)
    assert problem["msg"].startswith(f"Value error, {sentence}")
    assert "hunter2" not in problem["msg"]


@pytest.mark.parametrize("name", ["", " ", "/Lists/Tasks", f"{SITE}/Lists/Tasks", "a\tb"])
def test_a_list_is_named_by_its_title(name: str) -> None:
    """An address or nothing is no title."""
    with pytest.raises(ValidationError, match="give the title of the list"):
        items(list_name=name)


def test_plain_http_is_for_hosts_that_were_allowed() -> None:
    """A token never goes over an open line, unless a person said that this line is theirs."""
    outside = library(site_url="http://sharepoint.example.org/sites/x")

    assert outside.refusal(()).startswith("site_url: begins with https://")
    assert outside.refusal(("sharepoint.example.org",)) == ""
    assert library(site_url="http://127.0.0.1:8080/sites/x").refusal(()) == ""
    assert library().refusal(()) == ""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("denied", "SharePoint answers 403: denied. The app"),
        ("Access denied.", "SharePoint answers 403: Access denied. The app"),
        ("", "SharePoint answers 403. The app"),
    ],
)
def test_refusals_are_sentences(message: str, told: str) -> None:
    """What the server says ends with a full stop before the advice follows."""
    assert download_advice(RequestRefused(403, "", message)).startswith(told)
