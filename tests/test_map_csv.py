"""The text of the map files: exact for every cell, harmless in a spreadsheet, strict about damage."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.sources.sharepoint.map_columns import FileRow, MapRow, SharePointRow, VectorStoreRow
from core.sources.sharepoint.map_csv import (
    MapFileDamaged,
    RowEnds,
    decode,
    encode_header,
    encode_row,
    has_exact_header,
    is_executed,
)

anything = st.text(st.characters(exclude_categories=()), max_size=20)
signs = st.text(st.sampled_from("='+-@\t\r\n\"\\,; \0a1\ud800＝"), max_size=8)


def file_of(*rows: MapRow) -> bytes:
    return (encode_header(type(rows[0])) + "".join(map(encode_row, rows))).encode()


def read(data: bytes, row_class: type[MapRow] = FileRow) -> list:
    return list(decode(io.BytesIO(data), row_class))


ROW = FileRow(sharepoint_unique_file_id="1", filename="a.docx", file_size="5")
OTHER = FileRow(sharepoint_unique_file_id="2", filename='b, "c"\n.docx', file_size="6")


# ── exact ──


@given(st.lists(anything | signs, min_size=13, max_size=13))
@example(["'", "''", "'='", "'\"", "=1+1", "-5", "-5a", "\r", "\n", "\0", "\ud800", '\'"x"', " =1"])
def test_every_cell_is_read_as_it_was(cells: list[str]) -> None:
    """Whatever the cells are, line breaks, NUL and half characters included, reading gives what was written."""
    row = FileRow(**dict(zip(FileRow.columns(), cells, strict=True)))

    assert read(file_of(row, ROW)) == [row, ROW]


@given(anything | signs)
def test_no_cell_is_executed(cell: str) -> None:
    """A program that knows nothing of us reads no cell that a spreadsheet would take for a formula."""
    row = FileRow(sharepoint_unique_file_id="1", filename=cell, sharepoint_error=cell)
    [_, cells] = csv.reader(io.StringIO(file_of(row).decode(), newline=""))

    assert [text for text in cells if is_executed(text)] == []
    assert len(cells) == len(FileRow.columns())


@pytest.mark.parametrize("cell", ["=1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1"])
def test_formulas_are_known(cell: str) -> None:
    """These begin as a formula does; they get a sign before them."""
    line = encode_row(FileRow(filename=cell))

    assert is_executed(cell)
    assert f"'{cell}" in line


@pytest.mark.parametrize("cell", ["-5", "-5.25", "1-2", "a=b", "", "'quoted'", "O'Brien.docx", "–1"])
def test_what_is_harmless_is_left_alone(cell: str) -> None:
    """Numbers before 1970 and names with an apostrophe are written as they are."""
    assert encode_row(FileRow(sharepoint_listitem_id=cell)).startswith(f"{cell},")


@pytest.mark.parametrize("row_class", [SharePointRow, FileRow, VectorStoreRow])
def test_header_has_the_columns_in_order(row_class: type[MapRow]) -> None:
    """The header is the names of the columns, and a file of nothing else has no rows."""
    header = encode_header(row_class).encode()

    assert header.decode() == ",".join(row_class.columns()) + "\n"
    assert has_exact_header(header, row_class)
    assert read(header, row_class) == []


def test_a_cell_of_any_length_can_be_read() -> None:
    """A cell that is longer than a reader takes is cut, not the file lost."""
    [row] = read(file_of(FileRow(sharepoint_unique_file_id="1", sharepoint_error="x" * 200_000)))

    assert row.sharepoint_error == "x" * 100_000


# ── torn ──


@pytest.mark.parametrize("last", [ROW, OTHER, FileRow(sharepoint_unique_file_id="3", filename="Ü=\0")])
def test_a_torn_last_row_is_left_out(last: FileRow) -> None:
    """Wherever a kill cut the file within its last row, the rows before are read and nothing else is."""
    whole, data = file_of(OTHER, ROW), file_of(OTHER, ROW, last)

    for length in range(len(whole), len(data)):
        assert read(data[:length]) == [OTHER, ROW], data[:length]
    assert read(data) == [OTHER, ROW, last]


def test_zeros_of_a_power_cut_are_a_torn_row() -> None:
    """Zeros at the end, which a file system leaves after a power cut, are no row."""
    assert read(file_of(ROW) + b"\0" * 500) == [ROW]


@given(st.binary(max_size=60))
def test_end_of_the_last_whole_row_is_found(rest: bytes) -> None:
    """What is counted as whole rows is what reading gives, and the rest is the rest."""
    data = file_of(OTHER, ROW) + rest.replace(b"\n", b"").replace(b'"', b"")
    ends = RowEnds()
    for line in io.BytesIO(data):
        ends.add(line)

    assert (data[: ends.length], ends.rest) == (file_of(OTHER, ROW), len(data) - ends.length)


# ── damaged ──


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no header"),
        (b"\n", "no header"),
        (b"filename,file", "no header"),
        (b"a;b\n", "lacks the column sharepoint_listitem_id"),
        (file_of(SharePointRow(filename="x")), "lacks the column file_relative_path"),
        (encode_header(FileRow).encode()[:-1] + b",filename\n", "twice"),
        (file_of(ROW) + b"1,2\n", "line 3 has 2 cells instead of 13"),
        (file_of(ROW) + b"\xff" * 13 + b"\n", "line 3 is not UTF-8"),
        (file_of(ROW).replace(b"a.docx", b"a\0docx"), "line 2 has a NUL"),
        (file_of(ROW).replace(b"a.docx", b'"a"x'), "line 2 is not CSV"),
        (file_of(ROW).replace(b"a.docx", b"""'""x"""), "not JSON"),
        ("\ufeff".encode("utf-16") + file_of(ROW), "not UTF-8"),
        (file_of(ROW).replace(b"a.docx", b'"a.docx') + file_of(*[ROW] * 60_000), "not CSV"),
    ],
)
def test_damage_is_told(data: bytes, why: str) -> None:
    """A file that is not ours to understand is damaged, and the message says where."""
    with pytest.raises(MapFileDamaged, match=why):
        read(data)


def test_what_a_spreadsheet_saves_is_read() -> None:
    """A byte order mark, CRLF, quotes around every cell and empty lines at the end change nothing."""
    data = file_of(ROW).decode().replace("\n", "\r\n").replace("a.docx", '"a.docx"')

    assert read(f"\ufeff{data}\r\n".encode()) == [ROW]


def test_columns_go_by_their_names() -> None:
    """A file of a later version, with more columns and in another order, is read; ours are all that is taken."""
    header, line = encode_header(FileRow).strip(), encode_row(ROW).strip()

    assert read(f"new,{header}\nx,{line}\n".encode()) == [ROW]
