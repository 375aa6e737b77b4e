"""`state.json`: the state of a knowledge base as a file, for people and programs without a Redis client.

Written whole or not at all. A lock on the folder makes sure that of two processes the one that read last writes last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from core.store import folder_lock, private_files

FOLDER = "knowledge_bases"
FILE = "state.json"
LOCK_SECONDS = 2.0


class StateFiles:
    """The files of all knowledge bases below PERSISTENT_STORAGE_PATH."""

    def __init__(self, storage: Path) -> None:
        self._root = storage / FOLDER

    def path(self, kb_id: str) -> Path:
        """Return where the file of a knowledge base is; raise ValueError if its id cannot be a folder's name."""
        if not is_file_name(kb_id):
            raise ValueError(f"{kb_id!r} cannot be the name of a folder")
        return self._root / kb_id / FILE

    def kb_ids(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(path.name for path in self._root.iterdir() if path.is_dir() and is_file_name(path.name))
        return []

    @contextlib.contextmanager
    def lock(self, kb_id: str) -> Iterator[None]:
        """Hold the folder of a knowledge base; raises OSError if it cannot be made or another process keeps it."""
        descriptor = self.acquire(kb_id)
        try:
            yield
        finally:
            os.close(descriptor)

    def acquire(self, kb_id: str) -> int:
        """Take the lock and return its descriptor; closing that releases it."""
        folder = self.path(kb_id).parent
        self._root.mkdir(parents=True, exist_ok=True, mode=private_files.FOLDER_MODE)
        folder.mkdir(exist_ok=True, mode=private_files.FOLDER_MODE)
        return folder_lock.acquire(folder, LOCK_SECONDS)

    def write(self, kb_id: str, text: str) -> None:
        """Write the file; the caller holds the lock. What a killed process left half written is removed."""
        path = self.path(kb_id)
        private_files.remove_left(path)
        private_files.write(path, text + "\n", is_durable=True)

    def read(self, kb_id: str) -> str | None:
        """Return the text of the file, None without one."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return self.path(kb_id).read_text(encoding="utf-8")
        return None

    def remove(self, kb_id: str) -> None:
        path = self.path(kb_id)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()


def is_file_name(name: str) -> bool:
    """Return whether a name can be one folder's or file's."""
    is_plain = name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"} and name.isprintable()
    return is_plain and len(name.encode("utf-8", "surrogateescape")) <= 200
