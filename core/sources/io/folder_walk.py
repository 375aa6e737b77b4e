"""The walk of the folder source: every file below a root, in order, and why some are refused.

Synchronous, to be run in a thread. Holds the names of one folder at a time; follows no symlink.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from core.models import Ref, RejectedUrl
from core.urls.path_patterns import PathPatterns, is_hidden

YOUNG_SECONDS = 2.0
"""FAT keeps mtime in steps of 2 s: until then an edit may leave mtime and size as they were."""

_NOT_UTF8 = "its name is not UTF-8"


class FolderWalk:
    def __init__(self, root: Path, patterns: PathPatterns, clock: Callable[[], float]) -> None:
        self._root = root
        self._patterns = patterns
        self._clock = clock
        self._started = clock()
        self._real_root = root
        self.problem = ""
        """The first reason why absence means nothing."""
        self.problem_count = 0

    def __iter__(self) -> Iterator[Ref | RejectedUrl | None]:
        """Yield files and refusals; None after each folder, so that a long way without files gives others a turn."""
        inode = self._enter()
        waiting = [""] if inode else []
        while waiting:
            folder = waiting.pop()
            names, folders = self._entries(folder)
            above = f"{folder}/" if folder else ""
            for name in filter(self._is_wanted, names):
                yield self._classify(above + name)
            inner = [above + name for name in folders if self._is_wanted(name)]
            inner = [path for path in inner if not self._patterns.excludes_folder(path)]
            yield from (RejectedUrl(printable_path(self._full(path)), _NOT_UTF8) for path in inner if not is_utf8(path))
            waiting += filter(is_utf8, inner)
            yield None
        if inode and self._enter() != inode:
            self._note(f"the folder {self._root} was exchanged while it was listed")

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path)  # noqa: PTH118 – a million times, and a Path costs ten times as much

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem
        self.problem_count += 1

    def _enter(self) -> tuple[int, int] | None:
        """Return device and inode of the root; None, and a problem, if it is no folder."""
        try:
            self._real_root = self._root.resolve(strict=True)
            status = self._real_root.stat()
        except (OSError, RuntimeError) as error:
            self._note(f"the folder {self._root} cannot be read: {getattr(error, 'strerror', 'a symlink loop')}")
            return None
        if not stat.S_ISDIR(status.st_mode):
            self._note(f"{self._root} is no folder")
            return None
        return status.st_dev, status.st_ino

    def _entries(self, folder: str) -> tuple[list[str], list[str]]:
        """Return names of files in order, of folders from last to first, as a stack wants them."""
        names: list[str] = []
        folders: list[str] = []
        try:
            with os.scandir(self._full(folder)) as entries:
                for entry in entries:
                    (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
        except OSError as error:
            if not folder or error.errno not in (errno.ENOENT, errno.ENOTDIR):  # else it went since its parent was read
                self._note(f"the folder {self._full(folder)} cannot be read: {error.strerror}")
        return sorted(names), sorted(folders, reverse=True)

    def _is_wanted(self, name: str) -> bool:
        return not is_hidden(name) or self._patterns.spells_out(name)

    def _classify(self, path: str) -> Ref | RejectedUrl | None:
        """Return a file that is taken, why it is refused, or None if no pattern includes it."""
        full = self._full(path)
        try:
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                reason = self._link_reason(path, Path(full))
                return RejectedUrl(printable_path(full), reason) if reason else None
            if not self._patterns.matches(path):
                return None
            if not stat.S_ISREG(status.st_mode):
                return RejectedUrl(printable_path(full), "no regular file (a device, a pipe or a socket)")
            if not is_utf8(full):
                return RejectedUrl(printable_path(full), _NOT_UTF8)
            if not os.access(full, os.R_OK, effective_ids=True):
                return RejectedUrl(full, "unreadable")
        except OSError as error:
            if error.errno != errno.ENOENT:
                self._note(f"{printable_path(full)} cannot be read: {error.strerror}")
            return None
        return Ref(full, "file", path.count("/"), self._version(status))

    def _link_reason(self, path: str, link: Path) -> str:
        """Return why a symlink is not followed; empty where it would not be taken anyway."""
        try:
            target = link.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # a loop is a RuntimeError until Python 3.12
            return "symlink to nothing" if isinstance(error, FileNotFoundError) else "symlink loop, or one without end"
        is_folder = target.is_dir()
        if self._patterns.excludes_folder(path) if is_folder else not self._patterns.matches(path):
            return ""
        if not target.is_relative_to(self._real_root):
            return "symlink that leaves the folder"
        if is_folder:
            return "symlink to a folder"
        inside = target.relative_to(self._real_root)
        is_listed = self._patterns.matches(inside.as_posix()) and all(map(self._is_wanted, inside.parts))
        return "symlink to a file that is listed itself" if is_listed else "symlink to a file that is not taken"

    def _version(self, status: os.stat_result) -> str:
        """Return a version that no other listing has while the file is young: it is visited, and the hash decides."""
        return f"{version(status)}:{self._started:.6f}" if is_young(status, self._clock()) else version(status)


# ── files and names ─────────────────────────────────────────────────────────────────────────────


def is_young(status: os.stat_result, now: float) -> bool:
    """Return whether an edit may still be hidden by the resolution of mtime.

    True as well for a future mtime, which does not tell when the file was written.
    """
    return status.st_mtime > now - YOUNG_SECONDS


def version(status: os.stat_result) -> str:
    """Return what the metadata says about the content."""
    return f"{status.st_mtime_ns}:{status.st_size}"


def is_utf8(name: str) -> bool:
    """Can the name be stored in Redis, where everything is UTF-8?"""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def printable_path(path: str) -> str:
    """Return the path with bytes that are not UTF-8 written as `\\udcff`, fit for logs and Redis."""
    return path.encode("utf-8", "backslashreplace").decode()
