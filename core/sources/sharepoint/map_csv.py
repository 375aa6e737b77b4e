"""The text of a map file: CSV in UTF-8, one line for each row, a later row of an item instead of an earlier one.

A cell that a spreadsheet would execute is written with `'` before it, and read without: whatever a cell is, it is read
as it was. A row that a kill cut short is left out. A file with more columns, or in another order, is read by the names
in its header; one that lacks a column is damaged, as what was there is not known.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from core.sources.sharepoint.map_columns import MapRow

Row = TypeVar("Row", bound=MapRow)

MOST_CELL_CHARACTERS = 100_000
"""What is longer is cut. Python's csv reads cells of 131,072."""
MOST_TORN_BYTES = 1_000_000
"""More than this at the end without the end of a row is no torn row: a quote is missing somewhere."""

_EXECUTED = re.compile(r"\s*[=+\-@\t\r\n＝＋－＠]")
"""Spreadsheets take these for a formula: https://owasp.org/www-community/attacks/CSV_Injection"""
_NEGATIVE_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
"""No text file can have these; such a cell is written as JSON."""
_NOT_PLAIN = re.compile(r"[\"'\r\n\x00\ud800-\udfff]|(?:^|,)[\s=+\-@＝＋－＠]|\s(?:,|$)")
"""A row without these needs neither signs nor quotes."""
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')


class MapFileDamaged(Exception):
    """A map file cannot be read; the message says where. The source is downloaded in full."""


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def encode_header(row_class: type[MapRow]) -> str:
    return ",".join(row_class.columns()) + "\n"


def encode_row(row: MapRow) -> str:
    """Return the line of a row; a cell may have line breaks."""
    cells = row.cells()
    plain = ",".join(cells)
    if plain.count(",") == len(cells) - 1 and len(plain) <= MOST_CELL_CHARACTERS and not _NOT_PLAIN.search(plain):
        return plain + "\n"  # most rows of most libraries
    return ",".join(map(_quoted, cells)) + "\n"


def _quoted(cell: str) -> str:
    safe = neutralised(cell[:MOST_CELL_CHARACTERS])
    return '"' + safe.replace('"', '""') + '"' if _NEEDS_QUOTES.search(safe) else safe


def neutralised(cell: str) -> str:
    """Return the cell as no spreadsheet executes it."""
    if _NO_TEXT.search(cell):
        return f"'{json.dumps(cell)}"
    is_like_neutralised = cell[:1] == "'" and (cell[1:2] in ("'", '"') or is_executed(cell[1:]))
    return f"'{cell}" if is_like_neutralised or is_executed(cell) else cell


def is_executed(cell: str) -> bool:
    """Return whether a spreadsheet would take the cell for a formula; a negative number is not one."""
    return bool(_EXECUTED.match(cell)) and not _NEGATIVE_NUMBER.fullmatch(cell)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def restored(cell: str) -> str:
    """Return the cell as it was before it was neutralised. Raises MapFileDamaged."""
    if cell[:1] != "'":
        return cell
    if cell[1:2] == '"':
        return _from_json(cell[1:])
    return cell[1:] if cell[1:2] == "'" or is_executed(cell[1:]) else cell


def decode(lines: Iterable[bytes], row_class: type[Row]) -> Iterator[Row]:
    """Yield the rows of a map file, as they come, of an item perhaps several. Raises MapFileDamaged.

    `lines` are its lines with their ends, as an open file gives them.
    """
    whole = _WholeLines(lines)
    reader = csv.reader(whole, strict=True)
    try:
        names = _header(next(reader, []), row_class)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(names):
                raise MapFileDamaged(f"line {reader.line_num} has {len(cells)} cells instead of {len(names)}")
            yield row_class.from_cells(dict(zip(names, map(restored, cells), strict=True)))
    except csv.Error as error:
        if not whole.is_torn:
            raise MapFileDamaged(f"line {reader.line_num} is not CSV: {error}") from None


def has_exact_header(line: bytes, row_class: type[MapRow]) -> bool:
    """Return whether it is the header that this version writes. Otherwise nothing can be appended."""
    return line == encode_header(row_class).encode()


class RowEnds:
    """Finds the end of the last whole row in bytes that come piece by piece: a line end outside of quotes."""

    def __init__(self) -> None:
        self.length = 0
        """Bytes up to the end of the last whole row."""
        self._seen = 0
        self._is_quoted = False

    def add(self, line: bytes) -> None:
        """Take the next line, with its end."""
        self._seen += len(line)
        self._is_quoted ^= line.count(b'"') % 2 == 1
        if line.endswith(b"\n") and not self._is_quoted:
            self.length = self._seen

    @property
    def rest(self) -> int:
        """Bytes after the last whole row."""
        return self._seen - self.length


class _WholeLines:
    """The lines as text, without a last one that is torn."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self._ends = RowEnds()
        self._number = 0
        self.is_torn = False
        """The lines ended within a row."""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._number += 1
            self._ends.add(line)
            if not line.endswith(b"\n"):
                break
            yield self._text(line)
        self.is_torn = 0 < self._ends.rest <= MOST_TORN_BYTES

    def _text(self, line: bytes) -> str:
        if b"\0" in line:
            raise MapFileDamaged(f"line {self._number} has a NUL character")
        try:
            return line.decode("utf-8-sig" if self._number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise MapFileDamaged(f"line {self._number} is not UTF-8: {error.reason}") from None


def _header(names: list[str], row_class: type[MapRow]) -> list[str]:
    missing = [name for name in row_class.columns() if name not in names]
    if missing:
        raise MapFileDamaged(f"the header lacks the column {missing[0]}" if names else "it has no header")
    if len(set(names)) != len(names):
        raise MapFileDamaged("the header has a column twice")
    return names


def _from_json(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, str):
        raise MapFileDamaged("a cell that begins with '\" is not JSON text")
    return value
