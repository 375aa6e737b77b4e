"""Turn a table of the extractor's tree into blocks: its caption, then its rows; cells stand below their headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from core.pages.text_blocks import TextBlock, TextBlockKind, escape, escape_html
from core.pages.tree_inline import BlockElement, inline_text, to_markdown_and_words

MAX_SPAN_COLUMNS = 50
"""Beyond this column no cell leaves room for its width or height, so that a row has no more empty cells than this."""
MAX_SPAN_ROWS = 1_000
_NUMBER = re.compile(r"\s*0*([1-9][0-9]{0,5})")
_Room = dict[int, int]
"""The columns that cells of rows above reach into, and for how many more rows."""


class _Cell(NamedTuple):
    markdown: str
    text: str


_EMPTY = _Cell("", "")


def table_to_blocks(table: BlockElement) -> Iterator[TextBlock]:
    """Yield what stands before the first row as paragraphs, then the rows as one table."""
    rows: list[list[_Cell]] = []
    room: _Room = {}
    has_rows = False
    for source in _parts(table):
        if isinstance(source, str):
            if has_rows:
                rows.append([_cell(source)])
                continue
            markdown, words = to_markdown_and_words(source, escape)
            if words:
                yield TextBlock(TextBlockKind.PARAGRAPH, markdown, words)
        else:
            has_rows = True
            rows.append(_row(source, room))
    if rows := [row for row in rows if any(cell.text for cell in row)]:
        yield _rows_to_block(rows)


def _parts(table: BlockElement) -> Iterator[BlockElement | str]:
    """Yield the rows, and the text of captions and of what else stands between them."""
    yield table.text or ""
    for child in table:
        yield child if child.tag == "row" else inline_text(child)
        yield child.tail or ""


def _row(row: BlockElement, room: _Room) -> list[_Cell]:
    """The cells of a row and the text between them; empty cells, and those that a cell reaches into, keep their place.

    Counts down `room`, and adds the room that this row's cells take in the next ones.
    """
    cells: list[_Cell] = [_cell(row.text)] if row.text and row.text.strip() else []
    below: _Room = {}
    for cell in row:
        _skip_room(cells, room)
        columns, rows = _span(cell, "colspan", MAX_SPAN_COLUMNS), _span(cell, "rowspan", MAX_SPAN_ROWS)
        first = len(cells)
        last = max(first + 1, min(first + columns, MAX_SPAN_COLUMNS))
        if rows > 1:
            below.update(dict.fromkeys(range(first, min(last, MAX_SPAN_COLUMNS)), rows - 1))
        cells += [_cell(inline_text(cell)), *[_EMPTY] * (last - first - 1)]
        if cell.tail and cell.tail.strip():
            cells.append(_cell(cell.tail))
    _skip_room(cells, room)
    for column, rows in list(room.items()):
        if rows == 1:
            del room[column]
        else:
            room[column] = rows - 1
    room.update(below)
    return cells


def _skip_room(cells: list[_Cell], room: _Room) -> None:
    while len(cells) in room:
        cells.append(_EMPTY)


def _span(cell: BlockElement, name: str, most: int) -> int:
    stated = cell.get(name)
    number = _NUMBER.match(stated) if stated else None
    return min(int(number[1]), most) if number else 1


def _cell(text: str) -> _Cell:
    markdown, words = to_markdown_and_words(text, escape_html)
    return _Cell(markdown.replace("|", "\\|"), words)


def _rows_to_block(rows: list[list[_Cell]]) -> TextBlock:
    width = max(map(len, rows))
    lines = [f"| {' | '.join([cell.markdown for cell in row] + [''] * (width - len(row)))} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    texts = [" | ".join(cell.text for cell in row if cell.text) for row in rows]
    return TextBlock(TextBlockKind.TABLE, "\n".join(lines), "\n".join(texts))
