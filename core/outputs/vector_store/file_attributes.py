"""The attributes of a file in a vector store: whose it is, which version, and where it came from.

They alone are enough to tell our files from those of others, and to write a lost `vectorstore_map.csv` again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.outputs.vector_store.protocol import FileStatus, StoredFile
from core.sources.sharepoint.item_urls import item_url
from core.sources.sharepoint.map_columns import FileRow, SharePointRow
from core.sources.sharepoint.stored_source import StoredSource

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
