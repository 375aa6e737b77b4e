"""The folder of one SharePoint source: whole files in place, nothing outside, whatever somebody put there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest

from core.sources.sharepoint.io.mirror_storage import MirrorStorage
from core.sources.sharepoint.local_paths import LocalPaths
from core.sources.sharepoint.map_columns import FileRow
from core.sources.sharepoint.source_types import SharePointType

PATHS = LocalPaths("D", SharePointType.FILES, "docs", "/r")
BASE = PurePosixPath("D/01_files/docs")
EMBEDDED = BASE / "02_embedded"
MODIFIED = 1705314600.25


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[MirrorStorage]:
    with MirrorStorage(tmp_path, PATHS) as opened:
        yield opened


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious.txt").write_text("precious")
    return folder


def put(storage: MirrorStorage, name: str, text: str = "content") -> PurePosixPath:
    download = storage.new_download()
    download.write_text(text)
    storage.place(download, EMBEDDED / name, MODIFIED)
    return EMBEDDED / name


def files(storage: MirrorStorage) -> dict[str, str]:
    folder = storage.crawler_folder / EMBEDDED
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_folders_are_those_of_the_specification(storage: MirrorStorage, tmp_path: Path) -> None:
    """A library has two folders, its map files beside them, and no other once nobody downloads."""
    folder = tmp_path / "crawler" / "D" / "01_files" / "docs"
    storage.close()

    assert sorted(path.name for path in folder.iterdir()) == ["02_embedded", "03_failed"]
    assert storage.map_path(FileRow) == folder / "files_map.csv"


def test_a_download_is_put_in_place_with_its_time(storage: MirrorStorage) -> None:
    """The file has SharePoint's time of its last change, and nothing is left of the download."""
    path = put(storage, "Reports/Q1 – ‘é😀.docx")
    found = storage.status(path)

    assert (found.size, found.modified_ns, found.is_regular) == (7, 1705314600250000000, True)
    assert storage.open_file(path).read() == b"content"
    assert storage.absolute(path).stat().st_mtime == MODIFIED
    assert list((storage.folder / ".incoming").glob("*/*")) == []


def test_a_download_replaces_the_old_file(storage: MirrorStorage) -> None:
    """Whoever has the old file open reads it to its end; the name has the new one."""
    path = put(storage, "a.txt", "old")
    with storage.open_file(path) as reader:
        put(storage, "a.txt", "new")

        assert reader.read() == b"old"
    assert files(storage) == {"a.txt": "new"}


def test_a_file_becomes_a_folder_and_a_folder_a_file(storage: MirrorStorage) -> None:
    """What is in the way of a download goes."""
    put(storage, "x", "a file")
    put(storage, "x/y/z.txt", "below it")
    assert files(storage) == {"x/y/z.txt": "below it"}

    put(storage, "x/y", "a file again")
    assert files(storage) == {"x/y": "a file again"}


def test_a_file_moves_below_its_own_name(storage: MirrorStorage) -> None:
    """Moving `x` to `x/x` needs a folder where the file is; it works both ways."""
    put(storage, "x", "1")
    storage.move(EMBEDDED / "x", EMBEDDED / "x/x")
    assert files(storage) == {"x/x": "1"}

    storage.move(EMBEDDED / "x/x", EMBEDDED / "x")
    assert files(storage) == {"x": "1"}


def test_a_move_keeps_the_time_and_leaves_no_empty_folder(storage: MirrorStorage) -> None:
    """A moved file is the same file, and folders that nobody needs are gone."""
    path = put(storage, "a/b/c.txt")
    target = BASE / "03_failed" / "a/b/c.txt"
    before = storage.status(path)
    storage.move(path, target)
    after = storage.status(target)

    assert (after.size, after.modified_ns) == (before.size, before.modified_ns)
    assert storage.status(path) is None
    assert list((storage.crawler_folder / EMBEDDED).iterdir()) == []


def test_removing_a_file_removes_empty_folders_above(storage: MirrorStorage) -> None:
    """Folders go up to the first that still has something, never the three themselves."""
    put(storage, "a/b/c/d.txt")
    put(storage, "a/e.txt")

    assert storage.remove(EMBEDDED / "a/b/c/d.txt")
    assert [path.name for path in (storage.crawler_folder / EMBEDDED / "a").iterdir()] == ["e.txt"]
    assert storage.remove(EMBEDDED / "a/e.txt")
    assert (storage.crawler_folder / EMBEDDED).is_dir()
    assert not storage.remove(EMBEDDED / "a/e.txt")


def test_a_folder_is_not_removed_as_a_file(storage: MirrorStorage) -> None:
    """A path that is a folder by now is left alone."""
    put(storage, "a/b.txt")

    assert not storage.remove(EMBEDDED / "a")
    assert storage.status(EMBEDDED / "a") is None
    assert files(storage) == {"a/b.txt": "content"}


def test_scan_sees_every_file_and_follows_no_symlink(storage: MirrorStorage, outside: Path) -> None:
    """Files in all depths are seen, also with names that are no text; a symlink is seen and not entered."""
    put(storage, "a/b/c.txt")
    folder = storage.crawler_folder / EMBEDDED
    (folder / "link").symlink_to(outside)
    (folder / "file-link").symlink_to(outside / "precious.txt")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("no text")
    seen = {str(found.path.relative_to(EMBEDDED)): found.is_regular for found in storage.scan("02_embedded")}

    assert seen == {"a/b/c.txt": True, "link": False, "file-link": False, "\udcff.txt": True}
    for name in seen:
        assert storage.remove(EMBEDDED / name)
    assert list(folder.iterdir()) == []
    assert (outside / "precious.txt").read_text() == "precious"


# ── nothing outside ──


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "D/01_files/docs/files_map.csv",
        "D/01_files/docs/02_embedded",
        "D/01_files/other/02_embedded/x",
        "D/01_files/docs/02_embedded/../../x",
        "D/01_files/docs/.incoming/x",
        "D/01_files/docs/02_embedded/\0",
    ],
)
def test_paths_outside_are_refused(storage: MirrorStorage, path: str) -> None:
    """Nothing but files in the three folders of the source can be read, placed, moved or removed."""
    inside, wrong = put(storage, "a.txt"), PurePosixPath(path)
    download = storage.new_download()
    download.touch()

    for attempt in (
        lambda: storage.place(download, wrong, MODIFIED),
        lambda: storage.move(inside, wrong),
        lambda: storage.move(wrong, inside),
        lambda: storage.remove(wrong),
        lambda: storage.status(wrong),
        lambda: storage.open_file(wrong),
    ):
        with pytest.raises(ValueError, match="is not a file of"):
            attempt()
    assert files(storage) == {"a.txt": "content"}


def test_a_planted_folder_link_is_replaced_and_not_followed(storage: MirrorStorage, outside: Path) -> None:
    """A symlink in the place of a folder leads no download out; it goes."""
    (storage.crawler_folder / EMBEDDED / "a").symlink_to(outside)

    assert storage.status(EMBEDDED / "a/precious.txt") is None
    assert not storage.remove(EMBEDDED / "a/precious.txt")
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        storage.open_file(EMBEDDED / "a/precious.txt")
    put(storage, "a/precious.txt", "ours")
    assert (outside / "precious.txt").read_text() == "precious"
    assert files(storage) == {"a/precious.txt": "ours"}


def test_a_planted_file_link_is_replaced_and_not_followed(storage: MirrorStorage, outside: Path) -> None:
    """A symlink or a pipe in the place of a file is neither read nor written through."""
    link = storage.crawler_folder / EMBEDDED / "a.txt"
    link.symlink_to(outside / "precious.txt")
    os.mkfifo(storage.crawler_folder / EMBEDDED / "pipe")

    for name in ("a.txt", "pipe"):
        assert not storage.status(EMBEDDED / name).is_regular
        with pytest.raises(OSError, match=r"symbolic|regular"):
            storage.open_file(EMBEDDED / name)
    put(storage, "a.txt", "ours")
    assert (outside / "precious.txt").read_text() == "precious"
    assert not link.is_symlink()


@pytest.mark.parametrize("linked", ["02_embedded", ".incoming"])
def test_the_three_folders_are_no_links(tmp_path: Path, outside: Path, linked: str) -> None:
    """A symlink in the place of a folder of the source is replaced by a folder."""
    folder = tmp_path / "crawler" / BASE
    folder.mkdir(parents=True)
    (folder / linked).symlink_to(outside)
    with MirrorStorage(tmp_path, PATHS) as storage:
        put(storage, "a.txt")

    assert not (folder / linked).is_symlink()
    assert [path.name for path in outside.iterdir()] == ["precious.txt"]


def test_a_source_that_is_a_link_is_refused(tmp_path: Path, outside: Path) -> None:
    """The folder of a source itself is never replaced: somebody may mean it."""
    (tmp_path / "crawler/D/01_files").mkdir(parents=True)
    (tmp_path / "crawler" / BASE).symlink_to(outside)

    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        MirrorStorage(tmp_path, PATHS).prepare()
    assert [path.name for path in outside.iterdir()] == ["precious.txt"]


def test_a_name_that_is_too_long_changes_nothing(storage: MirrorStorage) -> None:
    """The system's own answer is given to the caller; the download is still there."""
    download = storage.new_download()
    download.touch()

    with pytest.raises(OSError, match="too long"):
        storage.place(download, EMBEDDED / ("x" * 300), MODIFIED)
    assert download.exists()
    assert storage.status(EMBEDDED / ("x" * 300)) is None
    assert not storage.remove(EMBEDDED / ("x" * 300))


# ── together with others ──


def test_downloads_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
    """Whoever starts removes what killed processes left, and nothing of a process that still downloads."""
    with MirrorStorage(tmp_path, PATHS) as living:
        mine = living.new_download()
        mine.touch()
        left = living.folder / ".incoming" / "dead" / "half"
        left.parent.mkdir()
        left.touch()
        (living.folder / ".incoming" / "stray").touch()
        with MirrorStorage(tmp_path, PATHS) as second:
            second.new_download().touch()

            assert mine.exists()
            assert not left.parent.exists()
    assert not (living.folder / ".incoming").exists()


def test_threads_place_and_remove_in_one_folder(storage: MirrorStorage) -> None:
    """A folder that one thread removes because it is empty does not fail another that puts a file there."""

    def back_and_forth(number: int) -> None:
        for _ in range(20):
            assert storage.remove(put(storage, f"a/b/{number}.txt"))
        put(storage, f"a/b/{number}.txt")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(back_and_forth, range(4)))

    assert len(files(storage)) == 4
