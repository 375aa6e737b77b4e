"""The entries of `files_metadata.json`: what is known of every embedded version of a file, and what people added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from core.sources.sharepoint.map_columns import SharePointRow, VectorStoreRow
from core.sources.sharepoint.stored_source import StoredSource

Entry = dict[str, Any]

STANDARD_FIELDS = (
    *("sharepoint_listitem_id", "sharepoint_unique_file_id", "openai_file_id"),
    *("file_relative_path", "url", "raw_url", "server_relative_url"),
    *("filename", "file_type", "file_size", "last_modified_utc", "last_modified_timestamp"),
    *("embedded_utc", "source_id", "source_type"),
)
"""In the order in which they are written. Other fields of an entry were added by users and are kept."""
_NUMBERS = frozenset(("sharepoint_listitem_id", "file_size", "last_modified_timestamp"))
_OF_THE_LISTING = ("url", "raw_url", "server_relative_url")


def entry_of(source: StoredSource, row: VectorStoreRow, listed: SharePointRow | None) -> Entry:
    """Return the entry of an embedded file; its addresses are those of the listing, which has the same id."""
    texts = {name: getattr(row, name, "") for name in STANDARD_FIELDS}
    texts |= {name: getattr(listed, name, "") for name in _OF_THE_LISTING}
    texts |= {"source_id": source.source_id, "source_type": source.source_type.value}
    return {name: _number(texts[name]) if name in _NUMBERS else texts[name] for name in STANDARD_FIELDS}


def carried_over(entry: Entry, previous: Iterable[Mapping[str, Any]]) -> Entry:
    """Return a new entry with what people added to the newest of the earlier entries of the same item."""
    latest = max(previous, key=lambda one: str(one.get("embedded_utc") or ""), default=None)
    custom = {name: value for name, value in (latest or {}).items() if name not in STANDARD_FIELDS}
    return {**entry, **custom}


def updated(known: Entry, entry: Entry) -> Entry:
    """Return a known entry with the fields of the map files as they are now; an address that is lost stays."""
    lost = {name for name in _OF_THE_LISTING if not entry[name]}
    return {**known, **{name: value for name, value in entry.items() if name not in lost}}


def is_recorded(row: VectorStoreRow) -> bool:
    """Return whether the file of a row is embedded: only then it has an entry."""
    return bool(row.openai_file_id and row.embedded_utc)


def _number(text: str) -> int | float | str:
    """Return the number that a cell holds; text that is none stays."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
