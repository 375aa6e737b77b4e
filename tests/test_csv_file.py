"""Tables in CSV and TSV, regular and not."""

from __future__ import annotations

import pytest

from core.pages.documents.csv_file import MAX_CELL_CHARS, MAX_COLUMNS, MAX_ROWS, read_csv
from core.pages.documents.file_type import FileKind


def markdown(text: str | bytes, kind: FileKind = FileKind.CSV) -> str:
    return read_csv(text if isinstance(text, bytes) else text.encode(), "t.csv", "", kind).markdown


TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("commas", "a,b\n1,2\n", TABLE),
        ("semicolons", "a;b\r\n1;2\r\n", TABLE),
        ("bars", "a|b\n1|2\n", TABLE),
        ("tabs", "a\tb\n1\t2\n", TABLE),
        ("byte order mark", "\ufeffa,b\n1,2\n", TABLE),
        ("quotes", 'a,b\n1,"2, or ""3""\nmore"', '| a | b |\n| --- | --- |\n| 1 | 2, or "3" more |'),
        ("decimal commas", "a;b\n1,5;2,5\n", "| a | b |\n| --- | --- |\n| 1,5 | 2,5 |"),
        ("uneven", "a,b\n1\n1,2,3", "| a | b |  |\n| --- | --- | --- |\n| 1 |  |  |\n| 1 | 2 | 3 |"),
        ("formulas", "a,b\n=1+1,-5\n@x,+y", "| a | b |\n| --- | --- |\n| =1+1 | -5 |\n| @x | +y |"),
        ("Markdown in it", "a,b\nx|y,<b>", "| a | b |\n| --- | --- |\n| x\\|y | \\<b> |"),
        ("NUL", "a\x00,b\n1,2", TABLE),
        ("one column", "a\n1", "| a |\n| --- |\n| 1 |"),
        ("an open quote", 'a,b\n1,"2', TABLE),
        ("empty", "\n\n", ""),
    ],
)
def test_tables(name: str, text: str, expected: str) -> None:
    """One Markdown table with a header row; cells are text and stay as they are."""
    assert markdown(text) == expected


def test_tsv() -> None:
    """In TSV only a tab separates."""
    assert markdown("a,x\tb\n1\t2", FileKind.TSV) == "| a,x | b |\n| --- | --- |\n| 1 | 2 |"


def test_old_encoding() -> None:
    """A table from an old Windows is read by the letters it has."""
    assert "Größe" in markdown("Maß;Größe\nschön;groß\n".encode("cp1252"))


def test_limits() -> None:
    """So many rows, columns and characters of a cell; and the text says so."""
    long = markdown("a,b\n" + "1,2\n" * 6_000)
    assert long.count("\n| 1 | 2 |") == MAX_ROWS
    assert long.endswith("[… Only the first 5,000 rows are kept.]")
    wide = markdown("x," * 100_000).split("\n")[0]
    assert wide.count("x") == MAX_COLUMNS
    assert wide.endswith("| … |")
    assert len(markdown("a,b\n" + "x" * 10_000_000 + ",2\n")) < 3 * MAX_CELL_CHARS
