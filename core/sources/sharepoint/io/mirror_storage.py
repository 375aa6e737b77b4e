"""The folder of one source on this disk: downloads are put in place whole, with the time that SharePoint gives.

Every path is walked name by name from the crawler's folder and no symlink is followed, so that nothing is read, written
or removed outside, whatever somebody puts into the folder. Blocks: to be called in threads; several may at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Self

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.io.guarded_folders import NO_FOLDER, GuardedFolders
from core.sources.sharepoint.local_paths import SUBFOLDERS, DiskFile, LocalPaths
from core.sources.sharepoint.map_columns import MapRow
from core.store import folder_lock
from core.store.private_files import FOLDER_MODE

INCOMING = ".incoming"
"""Where downloads are until they are whole; on the same file system, so that a rename puts them in place."""
LOCK_SECONDS = 60.0
PLACE_TRIES = 5

# O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = frozenset({errno.ENOENT, *NO_FOLDER, errno.ENAMETOOLONG})
_IS_FOLDER = frozenset({errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST})


class MirrorStorage:
    """Use it as a context manager: its place for downloads is cleared at the end, and by others after a kill."""

    def __init__(self, storage: Path, paths: LocalPaths) -> None:
        """`storage` is PERSISTENT_STORAGE_PATH."""
        self.paths = paths
        self.crawler_folder = storage / CFG.PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER
        self.folder = self.crawler_folder / paths.folder
        self._folders = GuardedFolders(self.crawler_folder, len(paths.folder.parts))
        self._own_incoming = self.folder / INCOMING / secrets.token_hex(8)
        self._lock = -1

    def __enter__(self) -> Self:
        self.prepare()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> None:
        """Make the folders of the source, and remove the downloads that killed processes left."""
        self.crawler_folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        parts = self.paths.folder.parts
        for name in self.paths.source_type.subfolders:
            self._folders.make((*parts, name))
        with folder_lock.held(self.folder, LOCK_SECONDS):
            self._folders.make((*parts, INCOMING))
            _remove_unlocked(self.folder / INCOMING)
            self._own_incoming.mkdir(mode=FOLDER_MODE)
            self._lock = folder_lock.acquire(self._own_incoming, 0.0)

    def close(self) -> None:
        """Remove what was downloaded and not put in place."""
        if self._lock >= 0:
            shutil.rmtree(self._own_incoming, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1
            with contextlib.suppress(OSError), folder_lock.held(self.folder, LOCK_SECONDS):
                (self.folder / INCOMING).rmdir()  # unless others download

    # ── names ──

    def map_path(self, row_class: type[MapRow]) -> Path:
        return self.folder / row_class.file_name

    def absolute(self, path: PurePosixPath) -> Path:
        """Return a path as others can open it. They follow symlinks: prefer `open_file`."""
        return self.crawler_folder.joinpath(*self._checked(path))

    def new_download(self) -> Path:
        """Return a path for a download: unused, and given to no other caller."""
        return self._own_incoming / secrets.token_hex(8)

    # ── reading ──

    def status(self, path: PurePosixPath) -> DiskFile | None:
        """Return what is at a path, None if nothing or a folder is."""
        *folders, name = self._checked(path)
        try:
            with self._folders.opened(tuple(folders)) as folder:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise
        return None if stat.S_ISDIR(found.st_mode) else _disk_file(path, found)

    def open_file(self, path: PurePosixPath) -> BufferedReader:
        """Open a regular file for reading. Raises OSError for anything else."""
        *folders, name = self._checked(path)
        with self._folders.opened(tuple(folders)) as folder:
            descriptor = os.open(name, _FLAGS, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return os.fdopen(descriptor, "rb")

    def scan(self, subfolder: str) -> Iterator[DiskFile]:
        """Yield every file below one of the three folders; what was yielded may be moved or removed meanwhile."""
        waiting = [(*self.paths.folder.parts, subfolder)]
        while waiting:
            parts = waiting.pop()
            with (
                contextlib.suppress(FileNotFoundError),
                self._folders.opened(parts) as folder,
                os.scandir(folder) as entries,
            ):
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((*parts, entry.name))
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        yield _disk_file(PurePosixPath(*parts, entry.name), entry.stat(follow_symlinks=False))

    # ── changing ──

    def place(self, download: Path, path: PurePosixPath, modified_ts: float) -> None:
        """Put a download at its path, instead of what is there, with SharePoint's time of its last change.

        What is in the way goes: a file where a folder is needed, a folder where the file belongs, a symlink.
        """
        descriptor = os.open(download, _FLAGS)
        try:
            modified_ns = round(modified_ts * 1_000_000) * 1_000
            os.utime(descriptor, ns=(modified_ns, modified_ns))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._put(download, self._checked(path))

    def move(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Move a file to another path of the source, with its time, and remove folders that are empty then."""
        *folders, name = self._checked(source)
        target_parts = self._checked(target)
        if source == target:
            return
        # By way of the downloads: the file may itself be in the way of the folder that it goes to.
        between = self.new_download()
        with self._folders.opened(tuple(folders)) as folder:
            os.rename(name, between, src_dir_fd=folder)
        self._folders.remove_empty(tuple(folders))
        self._put(between, target_parts)

    def remove(self, path: PurePosixPath) -> bool:
        """Remove a file, and the folders above it that are empty then; False if there was no file."""
        *folders, name = self._checked(path)
        try:
            with self._folders.opened(tuple(folders)) as folder:
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    return False
                os.unlink(name, dir_fd=folder)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return False
            raise
        self._folders.remove_empty(tuple(folders))
        return True

    # ── parts ──

    def _checked(self, path: PurePosixPath) -> tuple[str, ...]:
        """Return the parts of a path. Raises ValueError if it names no file in the three folders."""
        depth = len(self.paths.folder.parts)
        is_inside = path.parts[:depth] == self.paths.folder.parts and len(path.parts) > depth + 1
        if not is_inside or path.parts[depth] not in SUBFOLDERS or ".." in path.parts or "\0" in str(path):
            raise ValueError(f"{str(path)!r} is not a file of {self.paths.folder}")
        return path.parts

    def _put(self, download: Path, parts: tuple[str, ...]) -> None:
        for number in range(PLACE_TRIES):
            try:
                with self._folders.opened(parts[:-1], is_made=True) as folder:
                    self._rename(download, folder, parts[-1])
                return
            except FileNotFoundError:
                # Another thread removed the folder, which was empty until now.
                if number == PLACE_TRIES - 1 or not download.exists():
                    raise

    def _rename(self, download: Path, folder: int, name: str) -> None:
        try:
            os.rename(download, name, dst_dir_fd=folder)
        except OSError as error:
            if error.errno not in _IS_FOLDER:
                raise
            in_the_way = self.new_download()
            os.rename(name, in_the_way, src_dir_fd=folder)
            os.rename(download, name, dst_dir_fd=folder)
            shutil.rmtree(in_the_way)


def _disk_file(path: PurePosixPath, status: os.stat_result) -> DiskFile:
    return DiskFile(path, status.st_size, status.st_mtime_ns, status.st_ctime, stat.S_ISREG(status.st_mode))


def _remove_unlocked(incoming: Path) -> None:
    """Remove the downloads of processes that are gone: the lock of their folder is free."""
    for left in list(incoming.iterdir()):
        if left.is_symlink() or not left.is_dir():
            left.unlink(missing_ok=True)
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError), folder_lock.held(left, 0.0):
            shutil.rmtree(left)
