"""Folders below a root, walked name by name without following a symlink, so that no path leads out of them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from core.store.private_files import FOLDER_MODE

NO_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP})
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GuardedFolders:
    """The folders below a root that exists; they are named by their parts."""

    def __init__(self, root: Path, fixed_depth: int) -> None:
        """`fixed_depth`: so many folders are never replaced or removed; below, what is in the way of one may be."""
        self._root = root
        self._fixed_depth = fixed_depth

    @contextlib.contextmanager
    def opened(self, parts: tuple[str, ...], *, is_made: bool = False) -> Iterator[int]:
        """Open a folder; give its descriptor. `is_made`: make it, and those above it, where they are missing."""
        descriptor = self._open(parts, is_made=is_made)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def make(self, parts: tuple[str, ...]) -> None:
        os.close(self._open(parts, is_made=True))

    def _open(self, parts: tuple[str, ...], *, is_made: bool = False) -> int:
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for depth, name in enumerate(parts):
            may_clear = is_made and depth >= self._fixed_depth
            try:
                inner = self._step(at, name, is_made=is_made, may_clear=may_clear)
            finally:
                os.close(at)
            at = inner
        return at

    def _step(self, at: int, name: str, *, is_made: bool, may_clear: bool) -> int:
        try:
            return os.open(name, _FLAGS, dir_fd=at)
        except OSError as error:
            is_in_the_way = error.errno in NO_FOLDER and may_clear
            if not is_made or not (is_in_the_way or error.errno == errno.ENOENT):
                raise
        if is_in_the_way:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=at)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=at)
        return os.open(name, _FLAGS, dir_fd=at)

    def remove_empty(self, parts: tuple[str, ...]) -> None:
        """Remove a folder and those above it, while they are empty; never one of the fixed, or right below."""
        while len(parts) > self._fixed_depth + 1:
            try:
                with self.opened(parts[:-1]) as above:
                    os.rmdir(parts[-1], dir_fd=above)
            except OSError:  # not empty, or gone
                return
            parts = parts[:-1]
