"""A file on this disk, as a scan of a source's folders sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class DiskFile:
    """Where it is, how large, how old."""

    path: PurePosixPath
    """Relative to the crawler's folder."""
    size: int
    modified_ns: int
    changed_ts: float
    """When it was put where it is."""
    is_regular: bool = True
    """No symlink, pipe or device that somebody put there."""
