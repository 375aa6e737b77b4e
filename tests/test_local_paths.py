"""Local paths of SharePoint items: found from the address alone, never shared, never outside."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.sources.sharepoint.local_paths import LocalPaths, PathRefused
from core.sources.sharepoint.map_columns import SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import timestamp_of, timestamp_text, utc_text

FILES = LocalPaths("DOMAIN01", SharePointType.FILES, "docs", "/sites/demo/Shared Documents")
LISTS = LocalPaths("DOMAIN01", SharePointType.LISTS, "tasks", "/sites/demo/Lists/Tasks", "Project Tasks")
PAGES = LocalPaths("DOMAIN01", SharePointType.SITE_PAGES, "pages", "/sites/demo/SitePages")
ROOTS = {FILES: "/sites/demo/Shared Documents/", PAGES: "/sites/demo/SitePages/"}

letters = st.sampled_from(["a", "A", "é", "e\u0301", "😀", "%20", " ", ".", "~", "&", ".aspx", ".htm", ".html"])
names = st.lists(letters, min_size=1, max_size=5).map("".join)
long_names = st.builds(lambda name, count: name + "x" * count, names, st.integers(230, 260))
paths = st.lists(names | long_names, min_size=1, max_size=3).map("/".join)
hostile = st.lists(st.sampled_from(["..", ".", "", "/", "\\", "\0", "\ud800", "a", "~"]), max_size=8).map("".join)


def at(place: str, number: str = "5") -> SharePointRow:
    return SharePointRow(server_relative_url=place, sharepoint_listitem_id=number)


def every_path(paths_of: LocalPaths, row: SharePointRow) -> set[PurePosixPath]:
    return {paths_of.original(row), paths_of.embedded(row), paths_of.failed(row), paths_of.downloaded(row)}


def accepted(paths_of: LocalPaths, place: str) -> set[PurePosixPath]:
    try:
        return every_path(paths_of, at(ROOTS[paths_of] + place))
    except PathRefused:
        return set()


# ── as the specification draws them ──


def test_files_are_below_the_embedded_folder() -> None:
    """A file of a library keeps its path below the library's root."""
    row = at("/sites/demo/Shared Documents/Reports/Q1.docx")

    assert str(FILES.downloaded(row)) == "DOMAIN01/01_files/docs/02_embedded/Reports/Q1.docx"
    assert str(FILES.failed(row)) == "DOMAIN01/01_files/docs/03_failed/Reports/Q1.docx"
    assert FILES.to_map(FILES.embedded(row)) == "DOMAIN01\\01_files\\docs\\02_embedded\\Reports\\Q1.docx"


def test_lists_are_one_export_and_a_file_for_each_row() -> None:
    """All rows of a list come from one CSV; each becomes a Markdown file with its ID as the name."""
    row = at("/sites/demo/Lists/Tasks/5_.000", "5")

    assert str(LISTS.downloaded(row)) == "DOMAIN01/02_lists/tasks/01_originals/Project Tasks.csv"
    assert str(LISTS.embedded(row)) == "DOMAIN01/02_lists/tasks/02_embedded/5.md"
    assert str(LISTS.failed(row)) == "DOMAIN01/02_lists/tasks/03_failed/5.md"


def test_pages_become_html() -> None:
    """A page keeps its name in the originals and is .html when it is processed."""
    row = at("/sites/demo/SitePages/Team/Home.aspx")

    assert str(PAGES.downloaded(row)) == "DOMAIN01/03_sitepages/pages/01_originals/Team/Home.aspx"
    assert str(PAGES.embedded(row)) == "DOMAIN01/03_sitepages/pages/02_embedded/Team/Home.html"


@pytest.mark.parametrize("title", ["", "..", "a/b", "a\\b", "a\0b", "\ud800", "x" * 300])
def test_a_title_of_any_kind_names_one_file(title: str) -> None:
    """Whatever the title of a list is, its export is one file in the folder of originals."""
    path = LocalPaths("D", SharePointType.LISTS, "s", "/l", title).original(at("/l/1"))

    assert path.parent == PurePosixPath("D/02_lists/s/01_originals")
    assert path.suffix == ".csv"
    assert len(path.name.encode()) <= 255


@pytest.mark.parametrize("root", ["/sites/demo/shared documents", "sites/Demo/Shared Documents/"])
def test_the_root_has_no_case(root: str) -> None:
    """SharePoint knows a library in any spelling; below it names are kept as they are."""
    paths_of = LocalPaths("D", SharePointType.FILES, "s", root)

    assert str(paths_of.embedded(at("/sites/demo/Shared Documents/A.md"))) == "D/01_files/s/02_embedded/A.md"


# ── never shared, never outside ──


@given(paths, paths, st.sampled_from([FILES, PAGES]))
def test_two_addresses_never_have_one_path(first: str, second: str, paths_of: LocalPaths) -> None:
    """Names that differ in case, in Unicode form, in escapes or at the end only have different files."""
    assume(first != second)

    assert not accepted(paths_of, first) & accepted(paths_of, second)


def test_a_shortened_name_is_nobody_elses() -> None:
    """A file that somebody gave the name that another got because its own is too long does not meet it."""
    long = at("/sites/demo/Shared Documents/" + "x" * 300 + ".docx")
    taken = FILES.embedded(long).name
    copy = at(f"/sites/demo/Shared Documents/{taken}")

    assert str(FILES.embedded(long)).startswith("DOMAIN01/01_files/docs/03_failed/xxx")
    assert taken.endswith(".docx")
    assert FILES.is_too_long(long)
    assert not every_path(FILES, long) & every_path(FILES, copy)


@given(paths | hostile, st.sampled_from([FILES, PAGES]))
def test_no_path_leaves_its_source(place: str, paths_of: LocalPaths) -> None:
    """Whatever an address is, its paths are below the folders of the source, in names that a disk takes."""
    for path in accepted(paths_of, place):
        assert path.parts[:3] == paths_of.folder.parts
        assert path.parts[3] in ("01_originals", "02_embedded", "03_failed")
        assert len(path.parts) > 4
        assert not {"..", ".", ""} & set(path.parts)
        assert max(len(part.encode()) for part in path.parts) <= 255
        assert len(str(path).encode()) < 3_600


@pytest.mark.parametrize(
    "place", ["a/../b", "../x", "a//b", "a/./b", "a\\b", "a\0", "", "a/", "\ud800.md", "..", ".", "/etc/passwd"]
)
def test_hostile_names_are_refused(place: str) -> None:
    """A name that could lead elsewhere is refused with a sentence."""
    with pytest.raises(PathRefused, match="cannot be kept as a file"):
        FILES.embedded(at(ROOTS[FILES] + place))


@pytest.mark.parametrize("place", ["/sites/other/x.md", "/sites/demo/Shared Documents2/x.md", "", "x.md"])
def test_other_libraries_are_refused(place: str) -> None:
    """What is not below the library's root has no path."""
    with pytest.raises(PathRefused, match="is not below"):
        FILES.embedded(at(place))


@pytest.mark.parametrize("number", ["", "../5", "5/6", "-5", "٥", "5 "])
def test_list_items_have_a_number(number: str) -> None:
    """The ID of a list item is digits, or it has no file."""
    with pytest.raises(PathRefused, match="not the ID"):
        LISTS.embedded(at("/x", number))


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b"])
def test_ids_are_names(name: str) -> None:
    """An id that could lead elsewhere is refused before any path is made."""
    for ids in ((name, "s"), ("d", name)):
        with pytest.raises(PathRefused):
            LocalPaths(ids[0], SharePointType.FILES, ids[1], "/r")


# ── map files and URLs ──


@given(paths, st.sampled_from([FILES, PAGES]))
def test_map_text_names_the_path(place: str, paths_of: LocalPaths) -> None:
    """Every path is found again from its text in the map."""
    for path in accepted(paths_of, place):
        assert paths_of.from_map(paths_of.to_map(path)) == path


@given(hostile)
def test_map_text_leads_nowhere_else(text: str) -> None:
    """A map file that somebody edited names a file of the source or none."""
    for prefix in ("", "DOMAIN01\\01_files\\docs\\02_embedded\\"):
        path = FILES.from_map(prefix + text)

        assert path is None or (path.parts[:4] == (*FILES.folder.parts, "02_embedded") and ".." not in path.parts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DOMAIN01\\01_files\\docs\\files_map.csv",
        "DOMAIN01\\01_files\\docs\\02_embedded",
        "DOMAIN01\\01_files\\other\\02_embedded\\a",
        "DOMAIN01/01_files/docs/02_embedded/a",
        "DOMAIN01\\01_files\\docs\\02_embedded\\..\\..\\a",
        "\\etc\\passwd",
    ],
)
def test_other_text_is_no_path(text: str) -> None:
    """Other sources, the map files themselves and ways out are no paths of files."""
    assert FILES.from_map(text) is None


@given(paths)
def test_a_url_finds_its_file(place: str) -> None:
    """The encoded URL of an item leads to the same files as its row."""
    row = at(ROOTS[FILES] + place)
    url = "https://contoso.sharepoint.com" + quote(row.server_relative_url)
    assume(accepted(FILES, place))

    assert (FILES.embedded_of_url(url), FILES.failed_of_url(url)) == (FILES.embedded(row), FILES.failed(row))


def test_urls_of_lists_and_strangers() -> None:
    """A list item is found by its form's address; an address of something else has no file."""
    form = "https://contoso.sharepoint.com/sites/demo/Lists/Tasks/DispForm.aspx?ID=7"

    assert str(LISTS.embedded_of_url(form)) == "DOMAIN01/02_lists/tasks/02_embedded/7.md"
    assert LISTS.embedded_of_url("https://contoso.sharepoint.com/x") is None
    assert FILES.embedded_of_url("https://contoso.sharepoint.com/sites/demo/Shared%20Documents/..%2Fx") is None
    assert FILES.embedded_of_url("https://contoso.sharepoint.com/sites/demo/Shared%20Documents/%FF") is None


# ── times ──


def test_times_are_written_as_the_map_files_want_them() -> None:
    """UTC with microseconds and a Z; whole seconds."""
    assert utc_text(1705314600) == "2024-01-15T10:30:00.000000Z"
    assert utc_text(1705314600.25) == "2024-01-15T10:30:00.250000Z"
    assert (timestamp_text(1705314600.9), timestamp_text(-0.5)) == ("1705314600", "-1")
    assert timestamp_of("2024-01-15T10:30:00.250000Z") == 1705314600.25
    assert timestamp_of("2024-01-15T10:30:00") == 1705314600
    assert timestamp_of("soon") is None
