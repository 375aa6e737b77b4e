"""The export of a SharePoint list: one CSV file with a line for each row, sorted by its number.

A cell that a spreadsheet would execute is neutralised, and read as it was.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence

from core.sources.sharepoint.map_csv import neutralised, restored

MOST_CELL_CHARS = 10_000_000


class ListExportDamaged(ValueError):
    """The export of a list cannot be read; the message says where."""


def encode_export(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the file; `rows` come sorted by their number, which is the first cell."""
    yield _line(titles)
    yield from map(_line, rows)


def decode_export(lines: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield the titles, then the cells of each row. Raises ListExportDamaged.

    `lines` are those of a file that was opened with `newline=""`.
    """
    # Python refuses cells above 131,072 characters by default, and a note may be longer.
    csv.field_size_limit(max(csv.field_size_limit(), MOST_CELL_CHARS))
    width = 0
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            width = width or len(cells)
            if len(cells) != width:
                raise ListExportDamaged(f"line {reader.line_num} has {len(cells)} cells instead of {width}")
            yield tuple(map(restored, cells))
    except csv.Error as error:
        raise ListExportDamaged(f"line {reader.line_num} is not CSV: {error}") from None
    if not width:
        raise ListExportDamaged("it is empty")


def _line(cells: Sequence[str]) -> str:
    return ",".join('"' + neutralised(cell).replace('"', '""') + '"' for cell in cells) + "\n"
