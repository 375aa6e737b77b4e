"""Note uploads that are under way beside the map files, so that the run after a kill cleans up after them.

Between upload and attachment a file has no attributes that say whose it is. Blocks; use threads.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from core.outputs.vector_store.protocol import BegunUpload
from core.store import private_files

NOTE_NAME = ".uploads_begun.json"


class BegunUploads:
    def __init__(self, folder: Path) -> None:
        self._path = folder / NOTE_NAME

    def read(self) -> tuple[str, list[BegunUpload]]:
        """Return the mark and the uploads behind it; nothing if there is no note."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(self._path.read_bytes())
            return str(note["mark"]), [BegunUpload(str(name), int(size)) for name, size in note["uploads"]]
        return "", []

    def add(self, mark: str, uploads: Sequence[BegunUpload]) -> None:
        """Note uploads before they begin, beside those of an earlier note and behind its mark."""
        first, before = self.read()
        pairs = sorted({(one.filename, one.size_bytes) for one in (*before, *uploads)})
        private_files.write(self._path, json.dumps({"mark": first or mark, "uploads": pairs}), is_durable=True)

    def clear(self) -> None:
        """Remove the note, and one that a killed process was writing: all of them are attached, or deleted."""
        self._path.unlink(missing_ok=True)
        private_files.remove_left(self._path)
