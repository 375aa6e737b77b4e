"""Detect what has changed in SharePoint since the last download: by the immutable id, then by four fields."""

from __future__ import annotations

from enum import StrEnum

from core.sources.sharepoint.map_columns import FileRow, SharePointRow


class ItemChange(StrEnum):
    ADDED = "ADDED"
    CHANGED = "CHANGED"
    REMOVED = "REMOVED"
    UNCHANGED = "UNCHANGED"


def is_changed(sp_file: SharePointRow, local_file: FileRow) -> bool:
    """Return whether the item in SharePoint differs from what was downloaded: name, place, size or time."""
    return (
        sp_file.filename != local_file.filename
        or sp_file.server_relative_url != local_file.server_relative_url
        or sp_file.file_size != local_file.file_size
        or sp_file.last_modified_utc != local_file.last_modified_utc
    )


def detect(sp_file: SharePointRow, local_file: FileRow | None, *, is_forced: bool) -> ItemChange:
    """Return what became of an item that SharePoint has.

    Args:
        local_file: what was downloaded; None if nothing was, or if it is not on the disk any more.
        is_forced: download it whatever the fields say.
    """
    if local_file is None:
        return ItemChange.ADDED
    return ItemChange.CHANGED if is_forced or is_changed(sp_file, local_file) else ItemChange.UNCHANGED
