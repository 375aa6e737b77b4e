"""The integrity check: the disk becomes as the maps say, with as few downloads as can be."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from core.sources.sharepoint.integrity import IntegrityCounts
from core.sources.sharepoint.io.integrity_check import IntegrityCheck
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.local_paths import LocalPaths
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.time_stamps import timestamp_of

MODIFIED = "2024-01-15T10:30:00.000000Z"
NOTHING_WRONG = "Integrity check passed: {} files verified"
CORRECTED = "Integrity check corrected: {} missing, {} orphans deleted, {} moved"


@dataclass
class Source:
    """A source with its maps, and a SharePoint that gives the text of each item; None: the download fails."""

    storage: MirrorStorage
    listed: RowTable[SharePointRow]
    rows: RowTable[FileRow]
    texts: dict[str, str | None]
    recorded: list[FileRow]
    brought: list[str]

    @property
    def paths(self) -> LocalPaths:
        return self.storage.paths

    @property
    def base(self) -> Path:
        return self.storage.folder

    def has(self, name: str, text: str | None = "text") -> SharePointRow:
        """SharePoint has an item."""
        item = SharePointRow(
            sharepoint_unique_file_id=f"id-{name}",
            sharepoint_listitem_id=str(len(self.listed) + 1),
            filename=name.rpartition("/")[2],
            file_type=name.rpartition(".")[2],
            file_size=str(len(text or "")),
            server_relative_url=f"/r/{name}",
            last_modified_utc=MODIFIED,
        )
        self.listed.add(item)
        self.texts[item.sharepoint_unique_file_id] = text
        return item

    def downloaded(self, name: str, text: str = "text") -> FileRow:
        """SharePoint has an item and so has the disk."""
        return self.bring_one(self.has(name, text))

    def bring_one(self, item: SharePointRow) -> FileRow:
        row = FileRow.from_cells(dict(zip(item.columns(), item.cells(), strict=True)))
        text = self.texts[item.sharepoint_unique_file_id]
        if text is None:
            row = replace(self.rows.get(item.sharepoint_unique_file_id) or row, sharepoint_error="503")
        else:
            place = self.paths.downloaded(item)
            self.put(str(place.relative_to(self.paths.folder)), text)
            row = replace(row, file_relative_path=self.paths.to_map(place), downloaded_utc="now")
        self.rows.add(row)
        return row

    def put(self, place: str, text: str = "text", modified: str = MODIFIED) -> Path:
        """Put a file into a folder of the source."""
        download = self.storage.new_download()
        download.write_text(text)
        self.storage.place(download, self.paths.folder / place, timestamp_of(modified))
        return self.base / place

    def files(self) -> list[str]:
        found = [self.storage.scan(folder) for folder in ("01_originals", "02_embedded", "03_failed")]
        return sorted(str(one.path.relative_to(self.paths.folder)) for files in found for one in files)

    async def check(self, **options) -> IntegrityCounts:
        self.recorded.clear()
        self.brought.clear()
        return await self.begun(**options).run(self._bring)

    def begun(self, **options) -> IntegrityCheck:
        return IntegrityCheck(self.storage, self.listed, self.rows, self._record, **options)

    async def _bring(self, items: RowTable[SharePointRow]) -> None:
        for item in items:
            self.brought.append(item.server_relative_url)
            self.bring_one(item)
        items.clear()

    def _record(self, row: FileRow) -> None:
        self.recorded.append(row)
        self.rows.add(row)


def opened(tmp_path: Path, source_type: SharePointType, stack: ExitStack) -> Source:
    paths = LocalPaths("D", source_type, "s", "/r", "Tasks")
    storage = stack.enter_context(MirrorStorage(tmp_path, paths))
    listed = stack.enter_context(RowTable(storage.folder, SharePointRow))
    rows = stack.enter_context(RowTable(storage.folder, FileRow))
    return Source(storage, listed, rows, {}, [], [])


@pytest.fixture
def incomplete() -> None:
    """The check leaves something for the next one."""


async def checked_twice(request: pytest.FixtureRequest, source: Source) -> None:
    """Whatever a check corrected, the next one has nothing to do."""
    if "incomplete" not in request.fixturenames:
        counts = await source.check(is_expected=is_expected)
        assert counts.summary.startswith("Integrity check passed"), counts


@pytest_asyncio.fixture
async def files(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Source]:
    with ExitStack() as stack:
        source = opened(tmp_path, SharePointType.FILES, stack)
        yield source
        await checked_twice(request, source)


@pytest_asyncio.fixture
async def pages(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Source]:
    with ExitStack() as stack:
        source = opened(tmp_path, SharePointType.SITE_PAGES, stack)
        yield source
        await checked_twice(request, source)


def is_expected(item: SharePointRow) -> bool:
    return item.file_type != "exe"


# ── nothing wrong ──


async def test_a_source_in_order_is_verified(files: Source) -> None:
    """Files that are where their rows say are counted, and nothing is touched."""
    for name in ("a.md", "Sub/b.md", "Sub/Sub/c.md"):
        files.downloaded(name)

    assert (await files.check()).summary == NOTHING_WRONG.format(3)
    assert (files.recorded, files.brought) == ([], [])


async def test_an_empty_source_is_in_order(files: Source) -> None:
    """Nothing in SharePoint and nothing here is no anomaly."""
    assert (await files.check()).summary == NOTHING_WRONG.format(0)


async def test_skipped_types_are_not_missing(files: Source) -> None:
    """An item of a type that is not embedded has no file and no row, for ever."""
    files.downloaded("a.md")
    files.has("setup.exe")

    assert (await files.check(is_expected=is_expected)).summary == NOTHING_WRONG.format(1)


async def test_a_failed_file_is_where_the_map_says(files: Source) -> None:
    """A file in 03_failed, to which its row points, is neither missing nor an orphan."""
    row = files.downloaded("Sub/a.md")
    place = files.paths.failed(row)
    files.storage.move(files.paths.embedded(row), place)
    files.rows.add(replace(row, file_relative_path=files.paths.to_map(place)))

    assert (await files.check()).summary == NOTHING_WRONG.format(1)
    assert files.files() == ["03_failed/Sub/a.md"]


async def test_a_failed_download_is_known(files: Source) -> None:
    """A row without a path says why; it is no anomaly, and what was there of the item is not deleted."""
    files.texts["id-a.md"] = None
    files.bring_one(files.has("a.md", None))
    files.put("02_embedded/a.md", "older text", "2020-01-01T00:00:00Z")

    assert (await files.check()).summary == NOTHING_WRONG.format(0)
    assert files.files() == ["02_embedded/a.md"]


async def test_originals_belong_to_their_rows(pages: Source) -> None:
    """After a page was processed its row points to the HTML; the original and the HTML both stay."""
    row = pages.downloaded("Team/Home.aspx")
    pages.put("02_embedded/Team/Home.html")
    pages.rows.add(replace(row, file_relative_path=pages.paths.to_map(pages.paths.embedded(row))))

    assert (await pages.check()).summary == NOTHING_WRONG.format(1)
    assert pages.files() == ["01_originals/Team/Home.aspx", "02_embedded/Team/Home.html"]


async def test_a_changed_page_keeps_its_old_html_until_it_is_processed(pages: Source) -> None:
    """The row points to the new original; what was made of the old one is still there."""
    pages.downloaded("Home.aspx")
    pages.put("02_embedded/Home.html")

    assert (await pages.check()).summary == NOTHING_WRONG.format(1)
    assert pages.files() == ["01_originals/Home.aspx", "02_embedded/Home.html"]


async def test_the_export_of_an_empty_list_stays(tmp_path: Path) -> None:
    """A list without rows has an export with a header, which is no orphan."""
    with ExitStack() as stack:
        tasks = opened(tmp_path, SharePointType.LISTS, stack)
        tasks.put("01_originals/Tasks.csv")
        tasks.put("01_originals/Former title.csv")

        assert (await tasks.check()).summary == CORRECTED.format(0, 1, 0)
        assert tasks.files() == ["01_originals/Tasks.csv"]


# ── missing ──


async def test_a_file_that_is_not_in_the_map_is_downloaded(files: Source) -> None:
    """MISSING_IN_MAP: the item gets its file and its row."""
    files.has("a.md")

    counts = await files.check()
    assert (counts.summary, counts.missing_in_map) == (CORRECTED.format(1, 0, 0), 1)
    assert files.files() == ["02_embedded/a.md"]


async def test_a_whole_download_without_a_row_is_not_downloaded_again(files: Source) -> None:
    """After a kill between the rename and the row, the row is written and nothing is downloaded."""
    item = files.has("Sub/a.md")
    files.put("02_embedded/Sub/a.md")

    counts = await files.check()
    assert (counts.summary, files.brought) == (CORRECTED.format(1, 0, 0), [])
    row = files.rows.get(item.sharepoint_unique_file_id)
    assert row == files.recorded[0]
    assert row.file_relative_path == "D\\01_files\\s\\02_embedded\\Sub\\a.md"
    assert (row.filename, row.file_size, row.last_modified_utc) == ("a.md", "4", MODIFIED)
    assert abs(timestamp_of(row.downloaded_utc) - (files.base / "02_embedded/Sub/a.md").stat().st_ctime) < 1


@pytest.mark.parametrize(("text", "modified"), [("other", MODIFIED), ("text", "2023-01-01T00:00:00Z")])
async def test_another_file_at_the_place_is_not_taken(files: Source, text: str, modified: str) -> None:
    """A file of another size or time is not what SharePoint has."""
    files.has("a.md")
    files.put("02_embedded/a.md", text, modified)

    assert (await files.check()).summary == CORRECTED.format(1, 0, 0)
    assert files.brought == ["/r/a.md"]
    assert (files.base / "02_embedded/a.md").read_text() == "text"


async def test_a_file_that_is_not_on_the_disk_is_downloaded(files: Source) -> None:
    """MISSING_ON_DISK: the file comes back, with the folders above it."""
    files.downloaded("Sub/a.md")
    files.storage.remove(files.paths.folder / "02_embedded/Sub/a.md")

    counts = await files.check()
    assert (counts.summary, counts.missing_on_disk) == (CORRECTED.format(1, 0, 0), 1)
    assert files.files() == ["02_embedded/Sub/a.md"]


@pytest.mark.parametrize("damage", ["truncated", "link", "pipe", "folder"])
async def test_a_file_that_is_not_whole_is_downloaded(files: Source, damage: str, tmp_path: Path) -> None:
    """A file cut to nothing, a symlink, a pipe or a folder in its place is not the file."""
    files.downloaded("a.md")
    place = files.base / "02_embedded/a.md"
    place.unlink()
    (tmp_path / "elsewhere").write_text("text")
    {
        "truncated": place.touch,
        "link": lambda: place.symlink_to(tmp_path / "elsewhere"),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }[damage]()

    assert (await files.check()).summary == CORRECTED.format(1, 0, 0)
    assert not place.is_symlink()
    assert place.read_text() == "text"


@pytest.mark.usefixtures("incomplete")
async def test_only_what_was_downloaded_is_counted(files: Source) -> None:
    """A download that fails is not counted as corrected, and its row has no path then."""
    files.downloaded("a.md")
    files.texts["id-a.md"] = None
    files.storage.remove(files.paths.folder / "02_embedded/a.md")

    counts = await files.check()
    assert (counts.summary, counts.not_corrected) == (CORRECTED.format(0, 0, 0), 1)
    row = files.rows.get("id-a.md")
    assert (row.file_relative_path, row.sharepoint_error) == ("", "503")
    assert row in files.recorded


# ── orphans ──


async def test_files_of_nobody_are_deleted(files: Source) -> None:
    """ORPHAN_ON_DISK in any of the folders, symlinks included, with the folders that are empty then."""
    files.downloaded("a.md")
    files.put("01_originals/old.csv")
    files.put("02_embedded/x/y/z.md")
    files.put("03_failed/a.md", "a failed one of long ago")
    (files.base / "02_embedded/link").symlink_to("/")

    assert (await files.check()).summary == CORRECTED.format(0, 4, 0)
    assert files.files() == ["02_embedded/a.md"]
    assert not (files.base / "02_embedded/x").exists()


async def test_a_backslash_is_no_folder(files: Source) -> None:
    """A file whose name is spelt as the path of another is an orphan, not the other."""
    files.downloaded("Sub/a.md")
    (files.base / "02_embedded/Sub\\a.md").write_text("x")

    assert (await files.check()).summary == CORRECTED.format(0, 1, 0)
    assert files.files() == ["02_embedded/Sub/a.md"]


async def test_rows_of_items_that_are_gone_keep_their_files(files: Source) -> None:
    """Removing what SharePoint lost is not the check's task: it may be held back by the loss guard."""
    files.downloaded("a.md")
    files.listed.remove("id-a.md")
    files.downloaded("b.md")

    assert (await files.check()).summary == NOTHING_WRONG.format(1)
    assert files.files() == ["02_embedded/a.md", "02_embedded/b.md"]


# ── wrong paths ──


async def test_a_file_at_another_place_is_moved(files: Source) -> None:
    """WRONG_PATH: somebody moved the file; it is put back without a download, with its time."""
    files.downloaded("Sub/a.md")
    files.storage.move(files.paths.folder / "02_embedded/Sub/a.md", files.paths.folder / "02_embedded/Other/a.md")

    assert (await files.check()).summary == CORRECTED.format(0, 0, 1)
    assert (files.files(), files.brought) == (["02_embedded/Sub/a.md"], [])
    assert (files.base / "02_embedded/Sub/a.md").stat().st_mtime == timestamp_of(MODIFIED)


async def test_an_embedding_that_was_killed_is_undone(files: Source) -> None:
    """A file that went to 03_failed before any map said so goes back."""
    row = files.downloaded("a.md")
    files.storage.move(files.paths.embedded(row), files.paths.failed(row))

    assert (await files.check()).summary == CORRECTED.format(0, 0, 1)
    assert files.files() == ["02_embedded/a.md"]


@pytest.mark.parametrize("said", ["D\\01_files\\s\\02_embedded\\Wrong\\a.md", "C:\\a.md", "..\\..\\a.md"])
async def test_a_wrong_path_in_the_map_is_corrected(files: Source, said: str) -> None:
    """A map that says something else about a file in its right place is corrected, whatever it says."""
    row = files.downloaded("Sub/a.md")
    files.rows.add(replace(row, file_relative_path=said))

    assert (await files.check()).summary == CORRECTED.format(0, 0, 1)
    assert (files.rows.get("id-Sub/a.md"), files.brought) == (row, [])


async def test_a_file_where_only_the_map_says_is_moved(files: Source) -> None:
    """A file that is where the map says, and belongs elsewhere by its address, is moved there."""
    row = files.downloaded("Sub/a.md")
    wrong = files.paths.folder / "02_embedded/Wrong/b.md"
    files.storage.move(files.paths.embedded(row), wrong)
    files.rows.add(replace(row, file_relative_path=files.paths.to_map(wrong)))

    assert (await files.check()).summary == CORRECTED.format(0, 0, 1)
    assert files.files() == ["02_embedded/Sub/a.md"]


async def test_nobody_takes_the_file_of_another(files: Source) -> None:
    """Two files of one name, size and time: the one that is missing is downloaded, the other stays."""
    first = files.downloaded("A/a.md")
    files.downloaded("B/a.md")
    files.rows.add(replace(first, file_relative_path="D\\01_files\\s\\02_embedded\\B\\a.md"))
    files.storage.remove(files.paths.folder / "02_embedded/A/a.md")

    assert (await files.check()).summary == CORRECTED.format(1, 0, 0)
    assert files.files() == ["02_embedded/A/a.md", "02_embedded/B/a.md"]


async def test_a_file_with_another_name_is_moved_back(files: Source) -> None:
    """WRONG_PATH: of its size and time there is one row and one file; others of another size or time do not matter."""
    files.downloaded("Sub/a.md")
    files.downloaded("b.md", "longer text")
    files.storage.move(files.paths.folder / "02_embedded/Sub/a.md", files.paths.folder / "02_embedded/x/moved.txt")
    files.put("02_embedded/older.md", "text", "2020-01-01T00:00:00Z")

    assert (await files.check()).summary == CORRECTED.format(0, 1, 1)
    assert (files.files(), files.brought) == (["02_embedded/Sub/a.md", "02_embedded/b.md"], [])


async def test_of_two_rows_nobody_knows_whose_file_it_is(files: Source) -> None:
    """Two files of one size and time are missing: neither gets a file of another name, both are downloaded."""
    for name in ("a.md", "b.md"):
        files.downloaded(name, name)
        files.storage.remove(files.paths.folder / "02_embedded" / name)
    files.put("02_embedded/moved.md", "b.md")

    assert (await files.check()).summary == CORRECTED.format(2, 1, 0)
    assert [(files.base / "02_embedded" / name).read_text() for name in ("a.md", "b.md")] == ["a.md", "b.md"]


async def test_of_two_files_nobody_knows_which_it_was(files: Source) -> None:
    """Two files of one size and time, neither of the name: the missing one is downloaded."""
    files.downloaded("a.md")
    files.storage.remove(files.paths.folder / "02_embedded/a.md")
    files.put("02_embedded/x.md", "TEXT")
    files.put("02_embedded/y.md", "text")

    assert (await files.check()).summary == CORRECTED.format(1, 2, 0)
    assert (files.base / "02_embedded/a.md").read_text() == "text"


@pytest.mark.parametrize(("second", "summary", "text"), [("text", (0, 1, 1), "text"), ("TEXT", (1, 2, 0), "text")])
async def test_of_several_candidates_the_hash_decides(files: Source, second: str, summary: tuple, text: str) -> None:
    """Files that are equal are one as good as the other; if they differ, only SharePoint knows."""
    files.downloaded("a.md")
    files.storage.remove(files.paths.folder / "02_embedded/a.md")
    files.put("02_embedded/X/a.md", "text")
    files.put("02_embedded/Y/a.md", second)

    assert (await files.check()).summary == CORRECTED.format(*summary)
    assert files.files() == ["02_embedded/a.md"]
    assert (files.base / "02_embedded/a.md").read_text() == text


# ── together ──


async def test_everything_at_once(files: Source) -> None:
    """All four anomalies in one check, each counted by what was done."""
    for name in ("kept.md", "moved.md", "lost.md"):
        files.downloaded(name)
    files.has("new.md")
    files.storage.move(files.paths.folder / "02_embedded/moved.md", files.paths.folder / "02_embedded/X/moved.md")
    files.storage.remove(files.paths.folder / "02_embedded/lost.md")
    files.put("02_embedded/orphan.md", "whose?")

    counts = await files.check()
    assert counts == IntegrityCounts(1, 1, 1, 1, 1, 0)
    assert counts.summary == CORRECTED.format(2, 1, 1)
    assert files.files() == [f"02_embedded/{name}.md" for name in ("kept", "lost", "moved", "new")]


async def test_settling_before_a_crawl_only_moves_and_adopts(files: Source) -> None:
    """Before a crawl decides what to download, what is here is put in order; nothing is deleted or downloaded."""
    files.downloaded("a.md")
    files.storage.move(files.paths.folder / "02_embedded/a.md", files.paths.folder / "02_embedded/X/a.md")
    files.has("b.md")
    files.put("02_embedded/b.md")
    files.has("c.md")
    files.put("02_embedded/orphan.md", "x")
    check = files.begun()
    check.settle()

    assert files.files() == [f"02_embedded/{name}.md" for name in ("a", "b", "orphan")]
    assert check.counts.summary == CORRECTED.format(1, 0, 1)
    await check.run(files._bring)
    assert check.counts.summary == CORRECTED.format(2, 1, 1)
    assert files.brought == ["/r/c.md"]


@pytest.mark.usefixtures("incomplete")
async def test_a_stop_deletes_and_downloads_nothing(files: Source) -> None:
    """A crawl that is cancelled during the check leaves everything as it is."""
    files.has("a.md")
    files.put("02_embedded/orphan.md")

    await files.check(should_stop=lambda: True)
    assert (files.files(), files.brought) == (["02_embedded/orphan.md"], [])


async def test_names_that_are_refused_or_too_long(files: Source) -> None:
    """A name that no disk takes has its content in 03_failed, by a shorter one; a hostile one has a row and no file."""
    long = files.downloaded("x" * 300 + ".md")
    hostile = files.has("../a.md")
    files.rows.add(FileRow(sharepoint_unique_file_id=hostile.sharepoint_unique_file_id, sharepoint_error="refused"))

    assert (await files.check()).summary == NOTHING_WRONG.format(1)
    assert files.files() == [str(files.paths.failed(long).relative_to(files.paths.folder))]
