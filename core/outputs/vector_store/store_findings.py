"""The kinds of differences between the map files of a domain and its vector store."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from core.outputs.vector_store.embed_changes import EmbedChange, change_of, embedded_row
from core.outputs.vector_store.protocol import FileStatus, StoredFile
from core.sources.sharepoint.map_columns import FileRow, VectorStoreRow
from core.value_class import value_class

_GONE = (FileStatus.MISSING, FileStatus.FAILED, FileStatus.CANCELLED)


class StoreProblem(StrEnum):
    """A sentence about each."""

    NO_MAP = "a source whose vectorstore_map.csv is lost, although the vector store has files of it"
    ROW_WITHOUT_FILE = "a row of vectorstore_map.csv whose file is not in the vector store"
    OLD_VERSION = "an old version of a file in the vector store"
    UNRECORDED = "a file of ours in the vector store that its map does not name"
    UNNAMED = "a file of ours in the vector store, of something that there is no longer"


@value_class
class StoreFinding:
    problem: StoreProblem
    name: str
    """The id of a file, or of a source."""
    is_healed: bool = False


def row_problem(row: VectorStoreRow, stored: StoredFile | None, store_id: str) -> StoreProblem | None:
    """Tell what is wrong with a row, by the file that it names."""
    if not row.openai_file_id:
        return None
    is_there = stored is not None and stored.status not in _GONE and row.vector_store_id == store_id
    return None if is_there else StoreProblem.ROW_WITHOUT_FILE


def file_problem(stored: StoredFile, row: VectorStoreRow | None, file: FileRow | None) -> StoreProblem | None:
    """Tell what is wrong with a file of ours in the store, by the rows of its item."""
    if file is not None and stored.status is FileStatus.IN_PROGRESS:
        return None  # a run was too early for it; the next one writes it down
    if row is not None and row.openai_file_id:
        return None if row.openai_file_id == stored.file_id else StoreProblem.OLD_VERSION
    if file is None or stored.status in _GONE or change_of(file, row) is EmbedChange.FAILED:
        return StoreProblem.UNNAMED
    return StoreProblem.UNRECORDED


def rebuilt_row(stored: StoredFile, file: FileRow | None, store_id: str, *, is_same_content: bool) -> VectorStoreRow:
    """Return the row of a file in the store from its attributes and the row of the local file.

    Without the local file, or if that has other bytes, size and time stay empty: the next embed step compares both.
    """
    known = file or FileRow(
        sharepoint_unique_file_id=stored.attributes.get("unique_id", ""),
        filename=stored.attributes.get("filename", ""),
        file_type=stored.attributes.get("filename", "").rpartition(".")[2],
    )
    row = embedded_row(known, stored, store_id)
    return row if is_same_content else replace(row, file_size="", last_modified_utc="", last_modified_timestamp="")
