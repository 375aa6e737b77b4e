"""Decide what to do with each item in the vector store: `files_map.csv` compared with `vectorstore_map.csv`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from core.outputs.vector_store.protocol import StoredFile
from core.sources.sharepoint.crawler_config import CRAWLER_HARDCODED_CONFIG as CFG
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.sources.sharepoint.time_stamps import timestamp_of, timestamp_text, utc_text

_OF_THE_STORE = (
    *("openai_file_id", "vector_store_id", "uploaded_utc", "uploaded_timestamp"),
    *("embedded_utc", "embedded_timestamp"),
)
_SUBFOLDER_PLACE = 3
"""`<domain>\\<type>\\<source>\\<subfolder>\\…`"""


class EmbedChange(StrEnum):
    ADDED = "ADDED"
    CHANGED = "CHANGED"
    REMOVED = "REMOVED"
    RENAMED = "RENAMED"
    """Only its name, place or time differs: the file in the store stays, and its attributes change."""
    UNCHANGED = "UNCHANGED"
    FAILED = "FAILED"
    """It is in `03_failed`, and stays out of the store until it changes or everything is embedded again."""
    WAITING = "WAITING"
    """It has no file to embed now; what the store has of it stays until then."""


def change_of(file: FileRow, row: VectorStoreRow | None, *, is_full: bool = False) -> EmbedChange:
    """Return what has to happen to an item; `row` is None without one, or if the store has lost its file."""
    subfolder = subfolder_of(file.file_relative_path)
    is_embedded = row is not None and bool(row.openai_file_id)
    if subfolder == CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER:
        if is_full and may_be_tried_again(file, row):
            return EmbedChange.ADDED
        return EmbedChange.REMOVED if is_embedded else EmbedChange.FAILED
    if subfolder != CFG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER:
        return EmbedChange.WAITING
    if row is None or not is_embedded:
        return EmbedChange.ADDED
    if is_full or has_new_version(file, row):
        return EmbedChange.CHANGED
    return EmbedChange.RENAMED if has_moved(file, row) else EmbedChange.UNCHANGED


def has_new_version(file: FileRow, row: VectorStoreRow) -> bool:
    return file.file_size != row.file_size or file.last_modified_utc != row.last_modified_utc


def has_moved(file: FileRow, row: VectorStoreRow) -> bool:
    return file.filename != row.filename or file.file_relative_path != row.file_relative_path


def may_be_tried_again(file: FileRow, row: VectorStoreRow | None) -> bool:
    """Did only the embedding of a file in `03_failed` fail? One that is damaged or too long cannot be embedded."""
    is_sound = not file.sharepoint_error and not file.processing_error
    return is_sound and row is not None and bool(row.embedding_error)


def subfolder_of(file_relative_path: str) -> str:
    """Return `02_embedded` and the like; empty for no path."""
    parts = file_relative_path.split("\\")
    return parts[_SUBFOLDER_PLACE] if len(parts) > _SUBFOLDER_PLACE + 1 else ""


def failed_folder_sentence(count: int) -> str:
    """Return a sentence: how many files cannot be found by searching, where it says why, and what to do."""
    files = "1 file is" if count == 1 else f"{count} files are"
    return (
        f"{files} in {CFG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER}; {VectorStoreRow.file_name} says why. What changes "
        "in SharePoint is tried again, and everything with --mode full; see docs/sharepoint.md."
    )


# ── rows ──


def embedded_row(file: FileRow, stored: StoredFile, store_id: str) -> VectorStoreRow:
    return replace(
        _copied(file),
        openai_file_id=stored.file_id,
        vector_store_id=store_id,
        **_stamps("uploaded", stored.uploaded_ts or stored.embedded_ts),
        **_stamps("embedded", stored.embedded_ts),
    )


def failed_row(file: FileRow, error: str) -> VectorStoreRow:
    """Return the row of a file that could not be uploaded or embedded; `file` says where it is now."""
    return replace(_copied(file), embedding_error=error)


def renamed_row(file: FileRow, row: VectorStoreRow) -> VectorStoreRow:
    """Return the row of a file that stays in the store under another name, place or time."""
    return replace(_copied(file), **{name: getattr(row, name) for name in _OF_THE_STORE})


def uploaded_since(row: VectorStoreRow, ts: float) -> bool:
    uploaded = timestamp_of(row.uploaded_utc)
    return uploaded is not None and 0 < ts <= uploaded


def _copied(file: FileRow) -> VectorStoreRow:
    """Return a row with everything that both map files have."""
    common = set(FileRow.columns()) & set(VectorStoreRow.columns())
    return VectorStoreRow(**{name: getattr(file, name) for name in common})


def _stamps(name: str, ts: float) -> dict[str, str]:
    return {f"{name}_utc": utc_text(ts), f"{name}_timestamp": timestamp_text(ts)} if ts else {}
