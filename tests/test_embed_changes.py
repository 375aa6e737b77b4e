"""What has to happen to each item in the vector store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.outputs.vector_store.embed_changes import (
    EmbedChange,
    change_of,
    embedded_row,
    failed_row,
    renamed_row,
    subfolder_of,
    uploaded_since,
)
from core.outputs.vector_store.file_attributes import (
    attribute_url,
    attributes_of,
    generation_of,
    is_of,
    newest_live,
    next_generation,
    url_of,
)
from core.outputs.vector_store.protocol import FileStatus, StoredFile
from core.sources.sharepoint.map_columns import FileRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.source_types import SharePointType
from core.sources.sharepoint.stored_source import StoredSource

EMBEDDED = "D\\01_files\\s\\02_embedded\\Reports\\Q1.docx"
FAILED = "D\\01_files\\s\\03_failed\\Reports\\Q1.docx"
FILE = FileRow(
    sharepoint_listitem_id="7",
    sharepoint_unique_file_id="u1",
    filename="Q1.docx",
    file_type="docx",
    server_relative_url="/sites/demo/Shared Documents/Reports/Q1.docx",
    file_relative_path=EMBEDDED,
    file_size="10",
    last_modified_utc="2024-01-15T10:30:00.000000Z",
    last_modified_timestamp="1705314600",
    downloaded_utc="2024-01-16T10:30:00.000000Z",
    downloaded_timestamp="1705401000",
)
STORED = StoredFile("file-1", FileStatus.COMPLETED, uploaded_ts=1_705_487_400, embedded_ts=1_705_487_460)
ROW = embedded_row(FILE, STORED, "vs_1")
SOURCE = StoredSource("D", "s", SharePointType.FILES, "https://e.sharepoint.com/sites/demo", "/Shared Documents")


@pytest.mark.parametrize(
    ("file", "row", "expected"),
    [
        (FILE, None, EmbedChange.ADDED),
        (FILE, ROW, EmbedChange.UNCHANGED),
        (FILE, replace(ROW, openai_file_id=""), EmbedChange.ADDED),
        (replace(FILE, file_size="11"), ROW, EmbedChange.CHANGED),
        (replace(FILE, last_modified_utc="2023-01-15T10:30:00.000000Z"), ROW, EmbedChange.CHANGED),
        (replace(FILE, filename="Q2.docx"), ROW, EmbedChange.RENAMED),
        (replace(FILE, file_relative_path=EMBEDDED.replace("Reports", "Old")), ROW, EmbedChange.RENAMED),
        (replace(FILE, filename="Q2.docx", file_size="11"), ROW, EmbedChange.CHANGED),
        (replace(FILE, file_relative_path=""), ROW, EmbedChange.WAITING),
        (replace(FILE, file_relative_path=""), None, EmbedChange.WAITING),
        (replace(FILE, file_relative_path=EMBEDDED.replace("02_embedded", "01_originals")), ROW, EmbedChange.WAITING),
        (replace(FILE, file_relative_path=FAILED), None, EmbedChange.FAILED),
        (replace(FILE, file_relative_path=FAILED), failed_row(FILE, "No."), EmbedChange.FAILED),
        (replace(FILE, file_relative_path=FAILED, processing_error="No."), ROW, EmbedChange.REMOVED),
    ],
)
def test_change_of(file: FileRow, row: VectorStoreRow | None, expected: EmbedChange) -> None:
    """Size and time tell a new version, name and place a rename; 03_failed is left alone, and no file is no removal."""
    assert change_of(file, row) is expected


@pytest.mark.parametrize(
    ("file", "row", "expected"),
    [
        (FILE, None, EmbedChange.ADDED),
        (FILE, ROW, EmbedChange.CHANGED),
        (replace(FILE, file_relative_path=FAILED), failed_row(FILE, "No."), EmbedChange.ADDED),
        (replace(FILE, file_relative_path=FAILED, processing_error="x"), failed_row(FILE, "No."), EmbedChange.FAILED),
        (replace(FILE, file_relative_path=FAILED), None, EmbedChange.FAILED),
        (replace(FILE, file_relative_path=""), ROW, EmbedChange.WAITING),
    ],
)
def test_full_mode(file: FileRow, row: VectorStoreRow | None, expected: EmbedChange) -> None:
    """Everything is uploaded again, and what only failed to be embedded is tried again."""
    assert change_of(file, row, is_full=True) is expected


def test_rows() -> None:
    """A row copies the file's cells; what is of the store is empty if it could not be embedded."""
    assert (ROW.openai_file_id, ROW.vector_store_id) == ("file-1", "vs_1")
    assert (ROW.uploaded_utc, ROW.uploaded_timestamp) == ("2024-01-17T10:30:00.000000Z", "1705487400")
    assert (ROW.embedded_utc, ROW.embedded_timestamp) == ("2024-01-17T10:31:00.000000Z", "1705487460")
    assert (ROW.downloaded_utc, ROW.file_relative_path) == (FILE.downloaded_utc, EMBEDDED)
    failed = failed_row(replace(FILE, file_relative_path=FAILED), "No text.")
    assert (failed.embedding_error, failed.file_relative_path) == ("No text.", FAILED)
    assert {failed.openai_file_id, failed.vector_store_id, failed.uploaded_utc, failed.embedded_timestamp} == {""}
    renamed = renamed_row(replace(FILE, filename="Q2.docx"), replace(ROW, embedding_error="old"))
    assert (renamed.filename, renamed.openai_file_id, renamed.embedded_utc) == ("Q2.docx", "file-1", ROW.embedded_utc)
    assert renamed.embedding_error == ""


def test_uploaded_since() -> None:
    """A resumed run knows what it uploaded; without a time it knows nothing."""
    assert uploaded_since(ROW, 1_705_487_400)
    assert not uploaded_since(ROW, 1_705_487_400.3)
    assert not uploaded_since(ROW, 0)
    assert not uploaded_since(replace(ROW, uploaded_utc=""), 1)


def test_subfolder_of() -> None:
    """Only a path with a file below one of the three folders has one."""
    assert [subfolder_of(one) for one in (EMBEDDED, FAILED, "", "D\\01_files\\s\\02_embedded")] == [
        *("02_embedded", "03_failed", "", "")
    ]


def test_attributes() -> None:
    """They say whose a file is, and fit into what OpenAI takes."""
    listed = SharePointRow(url="https://e.sharepoint.com/" + "%20" * 300, raw_url="https://e.sharepoint.com/ x")
    url = attribute_url(SOURCE, FILE, listed)
    attributes = attributes_of(SOURCE, replace(FILE, filename="x" * 600), url, "h", 3)
    assert url == listed.raw_url
    assert len(attributes) <= 16
    assert max(map(len, attributes.values())) == 512
    assert is_of(SOURCE, attributes)
    assert not is_of(replace(SOURCE, source_id="other"), attributes)
    assert not is_of(replace(SOURCE, source_type=SharePointType.LISTS), attributes)
    assert not is_of(SOURCE, {})
    assert [generation_of(one) for one in (attributes, {"generation": "4.0"}, {"generation": "x"}, {})] == [3, 4, 0, 0]


def test_url_without_a_listing() -> None:
    """Where the listing is lost, the address is made of the item's place on the server."""
    expected = "https://e.sharepoint.com/sites/demo/Shared%20Documents/Reports/Q1.docx"
    assert url_of(SOURCE, FILE, None) == expected
    assert url_of(SOURCE, FILE, SharePointRow(url="https://other/")) == "https://other/"


def test_newest_live() -> None:
    """Of several versions the newest that can be found counts, of certain bytes if asked for."""

    def version(file_id: str, generation: int, status: FileStatus, content_hash: str) -> StoredFile:
        return StoredFile(file_id, status, attributes={"generation": str(generation), "content_hash": content_hash})

    files = [
        version("a", 1, FileStatus.COMPLETED, "x"),
        version("b", 2, FileStatus.IN_PROGRESS, "y"),
        version("c", 10, FileStatus.FAILED, "y"),
    ]
    assert [newest_live(files).file_id, newest_live(files, "x").file_id, newest_live(files, "z")] == ["b", "a", None]
    assert (next_generation(files), next_generation([])) == (11, 1)
