"""The rows of the three map files; the fields of each class are the columns of its file, in order.

Values are text, as in the file: an empty number is an empty cell, and what was read is written back as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar, Self

from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRow:
    """One row of a map file."""

    file_name: ClassVar[str]
    """The name of the map file."""

    @classmethod
    @cache
    def columns(cls) -> tuple[str, ...]:
        return tuple(one.name for one in fields(cls))

    @classmethod
    def from_cells(cls, cells: dict[str, str]) -> Self:
        """Return the row with these cells; those that are missing are empty, others are left out."""
        return cls(**{name: cells.get(name, "") for name in cls.columns()})

    def cells(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in self.columns())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePointRow(MapRow):
    """An item as SharePoint lists it."""

    file_name: ClassVar[str] = CFG.SHAREPOINT_MAP_CSV

    sharepoint_listitem_id: str = ""
    sharepoint_unique_file_id: str = ""
    filename: str = ""
    file_type: str = ""
    file_size: str = ""
    url: str = ""
    raw_url: str = ""
    server_relative_url: str = ""
    last_modified_utc: str = ""
    last_modified_timestamp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow(MapRow):
    """An item as it is on this disk."""

    file_name: ClassVar[str] = CFG.FILE_MAP_CSV

    sharepoint_listitem_id: str = ""
    sharepoint_unique_file_id: str = ""
    filename: str = ""
    file_type: str = ""
    server_relative_url: str = ""
    file_relative_path: str = ""
    """With backslashes, below the crawler's folder; empty if the download failed."""
    file_size: str = ""
    last_modified_utc: str = ""
    last_modified_timestamp: str = ""
    downloaded_utc: str = ""
    downloaded_timestamp: str = ""
    sharepoint_error: str = ""
    processing_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreRow(MapRow):
    """An item as it is in the vector store."""

    file_name: ClassVar[str] = CFG.VECTOR_STORE_MAP_CSV

    openai_file_id: str = ""
    vector_store_id: str = ""
    file_relative_path: str = ""
    sharepoint_listitem_id: str = ""
    sharepoint_unique_file_id: str = ""
    filename: str = ""
    file_type: str = ""
    file_size: str = ""
    last_modified_utc: str = ""
    last_modified_timestamp: str = ""
    downloaded_utc: str = ""
    downloaded_timestamp: str = ""
    uploaded_utc: str = ""
    uploaded_timestamp: str = ""
    embedded_utc: str = ""
    embedded_timestamp: str = ""
    sharepoint_error: str = ""
    processing_error: str = ""
    embedding_error: str = ""
