"""Map files on the disk: a kill loses no flushed row, two processes lose none of each other's."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.sources.sharepoint.io import map_files, shared_files
from core.sources.sharepoint.io.map_files import MapFileWriter, load, read_rows, rewrite
from core.sources.sharepoint.io.map_row_table import RowTable
from core.sources.sharepoint.map_columns import FileRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.map_csv import MapFileDamaged, encode_header, encode_row
from core.store import folder_lock

ROOT = Path(__file__).parents[1]
HEADER = encode_header(FileRow)


def row(number: int, error: str = "") -> FileRow:
    return FileRow(
        sharepoint_unique_file_id=f"id-{number}",
        filename=f"{number}.docx",
        server_relative_url=f"/r/{number:06}.docx",
        file_relative_path=f"D\\01_files\\s\\02_embedded\\{number:06}.docx",
        sharepoint_error=error,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "files_map.csv"


def rows_of(path: Path) -> list[FileRow]:
    return list(read_rows(path, FileRow))


def ids(rows: Iterable[FileRow]) -> list[str]:
    return [one.sharepoint_unique_file_id for one in rows]


# ── writing ──


def test_header_is_there_before_the_first_row(path: Path) -> None:
    """A writer begins with the header, whole."""
    MapFileWriter(path, FileRow).start()

    assert path.read_text() == HEADER


def test_first_row_is_flushed_and_then_every_so_many(path: Path) -> None:
    """The first row is in the file at once, the others by fifties, and the last with the end."""
    lines = []
    with MapFileWriter(path, FileRow) as writer:
        writer.start()
        for number in range(120):
            writer.append(row(number))
            lines.append(len(path.read_text().splitlines()) - 1)

    assert [lines[number] for number in (0, 1, 49, 50, 99, 100, 119)] == [1, 1, 1, 51, 51, 101, 101]
    assert len(rows_of(path)) == 120


def test_what_was_appended_is_written_when_the_work_fails(path: Path) -> None:
    """An error or a cancellation within the work loses no row."""

    def fail() -> None:
        with MapFileWriter(path, FileRow) as writer:
            writer.start()
            for number in range(5):
                writer.append(row(number))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(rows_of(path)) == 5


def test_end_writes_one_row_for_each_item_in_order(path: Path) -> None:
    """The last row of an item is kept, those of removed items are not, and the file is sorted by address."""
    with MapFileWriter(path, FileRow) as writer:
        writer.start([row(3, "old"), row(9)])
        for one in (row(2), row(3, "new"), row(1)):
            writer.append(one)
        writer.finish(lambda one: one.filename != "9.docx")

    assert path.read_text() == HEADER + "".join(map(encode_row, (row(1), row(2), row(3, "new"))))


@pytest.mark.parametrize("rows", [[], [row(1), row(2)]])
def test_a_pass_without_changes_leaves_the_file_alone(path: Path, rows: list[FileRow]) -> None:
    """A file that is in order is not written anew; one that a kill left with two rows of an item is."""
    rewrite(path, FileRow, rows)
    before = path.stat().st_ino
    with MapFileWriter(path, FileRow) as writer:
        writer.start()
        writer.finish()
    assert path.stat().st_ino == before

    moved = FileRow(sharepoint_unique_file_id="id-1", server_relative_url="/z")
    path.write_text(path.read_text() + encode_row(row(1)) + encode_row(moved))
    MapFileWriter(path, FileRow).finish()
    assert path.read_text() == HEADER + "".join(map(encode_row, [*rows[1:], moved]))


def test_starting_keeps_what_the_file_has(path: Path) -> None:
    """A second pass begins with the rows of the first; nothing is lost if it goes no further."""
    rewrite(path, FileRow, [row(1), row(2)])
    before = path.stat().st_ino
    MapFileWriter(path, FileRow).start()

    assert (ids(rows_of(path)), path.stat().st_ino) == (["id-1", "id-2"], before)


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (HEADER + encode_row(row(1)) + "id-2,to", ["id-1"]),
        (HEADER + encode_row(row(1)) + 'id-2,"torn\n', ["id-1"]),
        ("new," + HEADER + "x," + encode_row(row(1)), ["id-1"]),
        ("damaged", []),
        ("", []),
    ],
)
def test_starting_makes_a_file_that_can_be_appended_to(path: Path, content: str, kept: list[str]) -> None:
    """After a torn row, the header of another version, or damage, rows are appended to a whole file."""
    path.write_text(content)
    with MapFileWriter(path, FileRow) as writer:
        writer.start()
        writer.append(row(5))

    assert ids(rows_of(path)) == [*kept, "id-5"]
    assert path.read_text().startswith(HEADER)


def test_a_file_that_is_removed_meanwhile_begins_anew(path: Path) -> None:
    """Rows that come after the removal have a header."""
    with MapFileWriter(path, FileRow) as writer:
        writer.start()
        writer.append(row(1))
        path.unlink()
        writer.append(row(2))

    assert ids(rows_of(path)) == ["id-2"]


def test_threads_share_a_writer(path: Path) -> None:
    """Rows from several downloads at once are all there, none torn."""
    with MapFileWriter(path, FileRow, every_lines=3) as writer:
        writer.start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: writer.append(row(number)), range(100)))

    assert len(rows_of(path)) == 100


def test_other_map_files_are_the_same(tmp_path: Path) -> None:
    """Rows of the two other files are written, sorted and read in the same way."""
    for row_class, name in ((SharePointRow, "server_relative_url"), (VectorStoreRow, "file_relative_path")):
        rows = [row_class(sharepoint_unique_file_id=str(number), **{name: f"/{9 - number}"}) for number in range(3)]
        rewrite(tmp_path / row_class.file_name, row_class, rows)

        assert list(read_rows(tmp_path / row_class.file_name, row_class)) == rows[::-1]


# ── reading ──


def test_a_missing_file_is_told(path: Path) -> None:
    """No file is another thing than a damaged one."""
    with pytest.raises(FileNotFoundError):
        rows_of(path)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_damaged(path: Path, tmp_path: Path, kind: str) -> None:
    """A symlink, a pipe or a folder in the place of a map file is not read, and is replaced if it can be."""
    (tmp_path / "elsewhere").write_text(HEADER + encode_row(row(1)))
    kinds = {"link": lambda: path.symlink_to(tmp_path / "elsewhere"), "pipe": lambda: os.mkfifo(path)}
    kinds.get(kind, path.mkdir)()

    with pytest.raises(MapFileDamaged, match="not a regular file"):
        rows_of(path)
    if kind != "folder":
        MapFileWriter(path, FileRow).start()
        assert rows_of(path) == []
    assert (tmp_path / "elsewhere").read_text().endswith(encode_row(row(1)))


def test_a_reader_sees_whole_rows_while_another_writes(path: Path) -> None:
    """Whenever it is read, the file has rows from the first on, without a gap and without a half."""
    is_done = threading.Event()

    def write() -> None:
        with MapFileWriter(path, FileRow, every_lines=1) as writer:
            for number in range(60):
                writer.append(row(number, "long " * 200))
                if number % 20 == 19:
                    writer.finish()
        is_done.set()

    MapFileWriter(path, FileRow).start()
    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not is_done.is_set():
        found = rows_of(path)
        assert found == [row(number, "long " * 200) for number in range(len(found))]
        assert len(found) >= seen
        seen = len(found)
    thread.join()
    assert len(rows_of(path)) == 60


# ── trouble that passes ──


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], list[int]]:
    """Make a call of the system fail so many times; the number of calls is in the list."""
    monkeypatch.setattr(shared_files, "FIRST_PAUSE_SECONDS", 0.0)

    def fail(name: str, code: int, times: int) -> list[int]:
        calls, real = [], getattr(os, name)

        def failing(*arguments, **options):
            calls.append(1)
            if len(calls) <= times:
                if name == "pwrite":
                    real(arguments[0], bytes(arguments[1])[:7], arguments[2])
                raise OSError(code, os.strerror(code))
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, failing)
        return calls

    return fail


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("name", ["pwrite", "fsync"])
def test_a_write_is_tried_again(path: Path, trouble, name: str, code: int) -> None:
    """What another process causes for a moment is waited for; half a row that was written before is taken back."""
    rewrite(path, FileRow, [row(1)])
    calls = trouble(name, code, 3)
    with MapFileWriter(path, FileRow) as writer:
        writer.append(row(2))

    assert len(calls) >= 4
    assert path.read_text() == HEADER + encode_row(row(1)) + encode_row(row(2))


def test_a_rewrite_that_is_tried_again_has_every_row(path: Path, trouble) -> None:
    """The second try begins at the first row, also where the rows come from an iterator."""
    calls = trouble("fsync", errno.EBUSY, 2)
    rewrite(path, FileRow, (row(number) for number in range(700)))

    assert (len(rows_of(path)), len(calls)) == (700, 4)
    assert sorted(one.name for one in path.parent.iterdir()) == ["files_map.csv"]


@pytest.mark.parametrize(("code", "times"), [(errno.ENOSPC, 1), (errno.EACCES, 99)])
def test_trouble_that_stays_is_told_and_damages_nothing(path: Path, trouble, code: int, times: int) -> None:
    """A full disk is an error at once, others after some tries; the file is as it was, and the row can still come."""
    rewrite(path, FileRow, [row(1)])
    writer = MapFileWriter(path, FileRow)
    with pytest.MonkeyPatch.context():
        trouble("pwrite", code, times)
        with pytest.raises(OSError, match=os.strerror(code)):
            writer.append(row(2))

    assert path.read_text() == HEADER + encode_row(row(1))


def test_reading_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is locked for a moment, or stale on a network disk, is read a moment later."""
    rewrite(path, FileRow, [row(1)])
    monkeypatch.setattr(shared_files, "FIRST_PAUSE_SECONDS", 0.0)
    real = os.open
    calls: list[Path] = []

    def failing(name, *arguments, **options):
        if name == path and len(calls) < 3:
            calls.append(name)
            raise OSError(errno.ESTALE, "stale")
        return real(name, *arguments, **options)

    monkeypatch.setattr(os, "open", failing)
    with RowTable(path.parent, FileRow) as table:
        load(path, table, FileRow)
        assert (len(table), len(calls)) == (1, 3)


def test_a_lock_that_another_keeps_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written beside another process that holds the folder."""
    monkeypatch.setattr(map_files, "LOCK_SECONDS", 0.0)
    with folder_lock.held(path.parent, 0.0), pytest.raises(BlockingIOError):
        rewrite(path, FileRow, [row(1)])

    assert not path.exists()


# ── real processes ──

WRITE = """
import sys
from pathlib import Path
from tests.test_map_files import row
from core.sources.sharepoint.io.map_files import MapFileWriter
from core.sources.sharepoint.map_columns import FileRow
path, first, count, every = Path(sys.argv[1]), *map(int, sys.argv[2:])
writer = MapFileWriter(path, FileRow, every)
writer.start()
for number in range(first, first + count):
    writer.append(row(number, "line\\nbreak " * 50))
    if (number - first) % every == 0:
        print(number, flush=True)
    if (number - first) % 40 == 39:
        writer.finish()
writer.finish()
"""


def writing(path: Path, first: int, count: int, every: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITE, str(path), str(first), str(count), str(every)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})


@pytest.mark.parametrize("after", [1, 25, 60])
def test_a_killed_process_loses_no_flushed_row(path: Path, after: int) -> None:
    """After kill -9 at any moment the file is read, with every row that was flushed, and the next pass goes on."""
    with writing(path, 0, 1_000_000, 3) as process:
        told = [int(next(process.stdout)) for _ in range(after)]
        process.kill()

    found = rows_of(path)
    assert len(found) >= told[-1] + 1
    assert found == [row(number, "line\nbreak " * 50) for number in range(len(found))]
    with MapFileWriter(path, FileRow) as writer:
        writer.start()
        writer.append(row(999_999))
        writer.finish()
    assert rows_of(path) == [*found, row(999_999)]
    assert [one.name for one in path.parent.iterdir()] == ["files_map.csv"]


def test_two_processes_lose_none_of_each_others_rows(path: Path) -> None:
    """Two that append to one file and write it anew, again and again, end with the rows of both."""
    with writing(path, 0, 130, 7) as one, writing(path, 500, 130, 5) as other:
        for process in (one, other):
            process.communicate()

    assert (one.returncode, other.returncode) == (0, 0)
    assert len(rows_of(path)) == 260


# ── tables ──


def test_a_table_finds_rows_by_id_and_path(tmp_path: Path) -> None:
    """A later row replaces an earlier one of its id, in every way to find it."""
    with RowTable(tmp_path, FileRow) as table:
        table.add_all([row(1), row(2)])
        moved = FileRow(sharepoint_unique_file_id="id-1", file_relative_path="elsewhere")
        table.add(moved)

        assert (table.get("id-1"), table.get("id-3"), len(table)) == (moved, None, 2)
        assert "id-2" in table
        assert (table.with_path("elsewhere"), table.with_path(row(1).file_relative_path)) == ([moved], [])
        table.remove("id-1")
        assert ids(table) == ["id-2"]
        table.clear()
        assert list(table) == []


def test_a_table_is_read_in_order_while_it_is_changed(tmp_path: Path) -> None:
    """Rows come by address, in pages; rows that go meanwhile are not missed and others do not come twice."""
    with RowTable(tmp_path, FileRow) as table:
        table.add_all(row(number) for number in reversed(range(1_200)))
        seen = []
        for one in table:
            seen.append(one.sharepoint_unique_file_id)
            table.remove(one.sharepoint_unique_file_id)

        assert seen == [f"id-{number}" for number in range(1_200)]
        assert len(table) == 0


def test_tables_are_compared(tmp_path: Path) -> None:
    """What one table has and another lacks, in order."""
    with RowTable(tmp_path, FileRow) as here, RowTable(tmp_path, SharePointRow) as there:
        here.add_all(row(number) for number in (3, 1, 2))
        there.add(SharePointRow(sharepoint_unique_file_id="id-2"))

        assert ids(here.missing_from(there)) == ["id-1", "id-3"]


def test_a_table_keeps_every_text(tmp_path: Path) -> None:
    """Half characters and NUL in ids, addresses and paths are kept."""
    odd = FileRow(**{name: f"{name}\0\ud800'" for name in FileRow.columns()})
    with RowTable(tmp_path, FileRow) as table:
        table.add(odd)

        assert table.get(odd.sharepoint_unique_file_id) == odd
        assert list(table) == table.with_path(odd.file_relative_path) == [odd]


def test_a_table_leaves_nothing_behind(tmp_path: Path) -> None:
    """The file of a table has no name from the start, so that a kill leaves none."""
    (tmp_path / ".killed.scratch").touch()
    with RowTable(tmp_path, FileRow) as table:
        table.add(row(1))

        assert list(tmp_path.iterdir()) == []
