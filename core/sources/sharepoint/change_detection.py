"""What has changed in SharePoint since the last download: compared by the immutable id, then by four fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class ItemChange(StrEnum):
    """What became of an item."""

    ADDED = "ADDED"
    CHANGED = "CHANGED"
    REMOVED = "REMOVED"
    UNCHANGED = "UNCHANGED"


class ComparedFields(Protocol):
    """The fields that both sides have."""

    @property
    def filename(self) -> str: ...
    @property
    def server_relative_url(self) -> str: ...
    @property
    def file_size(self) -> str: ...
    @property
    def last_modified_utc(self) -> str: ...


def is_changed(sp_file: ComparedFields, local_file: ComparedFields) -> bool:
    """Does the item in SharePoint differ from what was downloaded: name, place, size or time?"""
    return (
        sp_file.filename != local_file.filename
        or sp_file.server_relative_url != local_file.server_relative_url
        or sp_file.file_size != local_file.file_size
        or sp_file.last_modified_utc != local_file.last_modified_utc
    )
