"""Read CSV and TSV as one Markdown table with a header row.

Cells are text: what a spreadsheet would take for a formula is stored as it is, and made safe where a CSV is written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice

from lxml import etree

from core.models import Document
from core.pages.documents.file_document import build_file_document, decode_text, truncation_note
from core.pages.documents.file_type import FileKind
from core.pages.text_blocks import MAX_TEXT_CHARS
from core.pages.text_cleaning import truncate
from core.pages.tree_to_markdown import tree_to_blocks

MAX_ROWS = 5_000
MAX_COLUMNS = 200
MAX_CELLS = 200_000
"""Of the whole table: the wider the rows, the fewer."""
MAX_CELL_CHARS = 5_000
_DELIMITERS = ",;\t|"
_SAMPLE_CHARS, _SAMPLE_ROWS = 20_000, 30


def read_csv(body: bytes, name: str, content_type: str, kind: FileKind = FileKind.CSV) -> Document:
    """Return the file's table as a document."""
    text = decode_text(body, content_type)
    delimiter = "\t" if kind is FileKind.TSV else _guess_delimiter(text[:_SAMPLE_CHARS])
    rows = list(islice(_rows(text[:MAX_TEXT_CHARS], delimiter), MAX_ROWS + 2))
    width = max(map(len, rows), default=1)
    kept = rows[: 1 + min(MAX_ROWS, MAX_CELLS // width)]
    tree = etree.Element("body")
    table = etree.SubElement(tree, "table")
    for row in kept:
        line = etree.SubElement(table, "row")
        for cell in row:
            etree.SubElement(line, "cell").text = cell
    blocks = tree_to_blocks(tree)
    if len(kept) < len(rows) or len(text) > MAX_TEXT_CHARS:
        blocks.append(truncation_note(f"Only the first {max(0, len(kept) - 1):,} rows are kept."))
    return build_file_document(blocks, name, len(body))


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows that are not blank. A text that breaks the rules of CSV ends where it breaks them."""
    before = csv.field_size_limit(MAX_TEXT_CHARS)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if any(map(str.strip, row)):
                kept = [truncate(cell, MAX_CELL_CHARS) for cell in row[:MAX_COLUMNS]]
                yield kept if len(row) <= MAX_COLUMNS else [*kept, "…"]
    except csv.Error:
        return
    finally:
        csv.field_size_limit(before)


def _guess_delimiter(sample: str) -> str:
    """Return the delimiter that gives most of the first rows the same width. `csv.Sniffer` is slower and errs more."""

    def evenness(delimiter: str) -> tuple[int, int]:
        widths = [len(row) for row in islice(_rows(sample, delimiter), _SAMPLE_ROWS)]
        width = max(set(widths), key=widths.count, default=1)
        return (widths.count(width) if width > 1 else 0), width

    return max(_DELIMITERS, key=evenness)
