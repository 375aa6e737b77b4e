"""A file on this disk, as a scan of a source's folders sees it."""

from __future__ import annotations

from pathlib import PurePosixPath

from core.value_class import value_class


@value_class
class DiskFile:
    path: PurePosixPath
    """Relative to the crawler's folder."""
    size: int
    modified_ns: int
    changed_ts: float
    """When it was put where it is."""
    is_regular: bool = True
    """Whether it is not a symlink, pipe or device."""
