"""The files of one source's folders for one check: which are claimed by a row, and which are there. Not in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from core.sources.sharepoint.io.scratch_database import PAGE_ROWS, ScratchDatabase, as_key
from core.sources.sharepoint.local_paths import DiskFile

_SEE = (
    "INSERT INTO files VALUES (?, ?, 0, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET size = excluded.size,"
    " modified_ns = excluded.modified_ns, changed_ts = excluded.changed_ts, is_regular = excluded.is_regular"
)
_CLAIM = "INSERT INTO files (path, name, is_claimed) VALUES (?, ?, 1) ON CONFLICT (path) DO UPDATE SET is_claimed = 1"
_FOUND = "SELECT path, size, modified_ns, changed_ts, is_regular FROM files WHERE size IS NOT NULL AND"


class DiskTable(ScratchDatabase):
    """The files that rows claim, and those that were seen."""

    SCHEMA = (
        "CREATE TABLE files (path BLOB PRIMARY KEY, name BLOB NOT NULL, is_claimed INTEGER NOT NULL,"
        " size INTEGER, modified_ns INTEGER, changed_ts REAL, is_regular INTEGER) WITHOUT ROWID",
        "CREATE INDEX unclaimed ON files (name) WHERE NOT is_claimed",
        "CREATE INDEX unclaimed_alike ON files (size, modified_ns) WHERE NOT is_claimed",
    )

    def claim(self, places: Iterable[PurePosixPath]) -> None:
        """Note that a row claims these places, whether a file is there or not."""
        self._write_all(_CLAIM, ((as_key(str(place)), as_key(place.name)) for place in places))

    def see(self, files: Iterable[DiskFile]) -> None:
        values = (
            (as_key(str(one.path)), as_key(one.path.name), one.size, one.modified_ns, one.changed_ts, one.is_regular)
            for one in files
        )
        self._write_all(_SEE, values)

    def forget(self, place: PurePosixPath) -> None:
        """Note that no file is there any more."""
        self._ask("DELETE FROM files WHERE path = ?", as_key(str(place)))

    def at(self, place: PurePosixPath) -> DiskFile | None:
        found = self._ask(f"{_FOUND} path = ?", as_key(str(place)))
        return _file(found[0]) if found else None

    def unclaimed_named(self, name: str) -> list[DiskFile]:
        """Return the files with a name that no row claims, in order of their places."""
        query = f"{_FOUND} name = ? AND NOT is_claimed ORDER BY path"
        return [_file(values) for values in self._ask(query, as_key(name))]

    def unclaimed_like(self, size: int, earliest_ns: int, latest_ns: int) -> list[DiskFile]:
        """Return the first two files of a size, changed between two times, that no row claims."""
        query = f"{_FOUND} size = ? AND modified_ns BETWEEN ? AND ? AND is_regular AND NOT is_claimed LIMIT 2"
        return [_file(values) for values in self._ask(query, size, earliest_ns, latest_ns)]

    def unclaimed(self) -> Iterator[DiskFile]:
        """Yield the files that no row claims, in order; they may be forgotten meanwhile."""
        last = b""
        query = f"{_FOUND} NOT is_claimed AND path > ? ORDER BY path LIMIT {PAGE_ROWS}"
        while found := self._ask(query, last):
            yield from map(_file, found)
            last = found[-1][0]


def _file(values: tuple[Any, ...]) -> DiskFile:
    path, size, modified_ns, changed_ts, is_regular = values
    place = PurePosixPath(path.decode("utf-8", "surrogatepass"))
    return DiskFile(place, size, modified_ns, changed_ts, bool(is_regular))
