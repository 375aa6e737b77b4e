"""The entries of `files_metadata.json`: what is known of every embedded version of a file, and what people added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from core.outputs.vector_store.store_files import FileStatus, StoredFile
from core.sources.sharepoint.item_urls import item_url
from core.sources.sharepoint.map_rows import FileRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.stored_source import StoredSource

Entry = dict[str, Any]

STANDARD_FIELDS = (
    *("sharepoint_listitem_id", "sharepoint_unique_file_id", "openai_file_id"),
    *("file_relative_path", "url", "raw_url", "server_relative_url"),
    *("filename", "file_type", "file_size", "last_modified_utc", "last_modified_timestamp"),
    *("embedded_utc", "source_id", "source_type"),
)
"""In the order in which they are written. Any other field of an entry is somebody's own, and is kept."""
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


MOST_VALUE_CHARS = 512
"""OpenAI takes 16 pairs, names of 64 and texts of 512 characters."""
_LIVE = (FileStatus.COMPLETED, FileStatus.IN_PROGRESS)


def attributes_of(source: StoredSource, file: FileRow, url: str, content_hash: str, generation: int) -> dict[str, str]:
    """Return the attributes of a version of a file; `url` is the first that fits of those it has."""
    return {
        "domain": source.domain_id,
        "source_id": source.source_id,
        "source_type": source.source_type.value,
        "unique_id": file.sharepoint_unique_file_id,
        "content_hash": content_hash,
        "generation": str(generation),
        "filename": file.filename[:MOST_VALUE_CHARS],
        "url": url[:MOST_VALUE_CHARS],
    }


def is_of(source: StoredSource, attributes: Mapping[str, str]) -> bool:
    """Did we upload this file for this source?"""
    is_named = attributes.get("domain") == source.domain_id and attributes.get("source_id") == source.source_id
    # Sources of two types may have one id.
    return is_named and attributes.get("source_type", source.source_type.value) == source.source_type.value


def generation_of(attributes: Mapping[str, str]) -> int:
    """Return which upload of its item this is, from 1; 0 if it does not say."""
    text = attributes.get("generation", "").removesuffix(".0")
    return int(text) if text.isascii() and text.isdigit() else 0


def next_generation(files: Iterable[StoredFile]) -> int:
    """Return the generation of the next upload of an item that has these files in the store."""
    return 1 + max((generation_of(one.attributes) for one in files), default=0)


def newest_live(files: Iterable[StoredFile], content_hash: str = "") -> StoredFile | None:
    """Return the newest file that is embedded or about to be, of these bytes if a hash is given."""
    live = [one for one in files if one.status in _LIVE]
    same = [one for one in live if content_hash in ("", one.attributes.get("content_hash"))]
    return max(same, key=lambda one: (generation_of(one.attributes), one.embedded_ts, one.file_id), default=None)


def url_of(source: StoredSource, file: FileRow, listed: SharePointRow | None) -> str:
    """Return the address of an item; made of its place on the server if the listing is not there."""
    if listed is not None and listed.url:
        return listed.url
    place = file.server_relative_url
    return item_url(source.site_url, source.source_type, place) if place else ""


def attribute_url(source: StoredSource, file: FileRow, listed: SharePointRow | None) -> str:
    """Return the address that an attribute can hold: the encoded one, or a shorter form of it."""
    encoded = url_of(source, file, listed)
    forms = (encoded, listed.raw_url if listed else "", file.server_relative_url)
    return next((one for one in forms if 0 < len(one) <= MOST_VALUE_CHARS), encoded)
