"""Turn the tree of a main text into blocks: headings, lists, tables, code and quotes as Markdown and as plain text.

The tree is trafilatura's: `p`, `head`, `list`/`item`, `quote`, `code`, `table`/`row`/`cell`, `lb`; HTML is turned into
it by `html_blocks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from core.pages.text_blocks import TextBlock, TextBlockKind, escape, escape_html, text_to_blocks
from core.pages.text_cleaning import collapse_whitespace

# Tools beside a heading: a link to itself, a wiki's edit link.
_HEADING_TOOLS = re.compile(
    r"\s*(?:[#¶§🔗]|\[(?:edit|bearbeiten|modifi|editar|править|編集|编辑|bewerk|redigera|edytuj)[^\]]{0,60}\])$",
    re.IGNORECASE,
)
BLOCK_TAGS = frozenset(("p", "head", "list", "quote", "code", "table", "item", "row", "cell", "div", "ab"))


class BlockElement(Protocol):
    """An element of the extractor's tree: lxml's, or of `html_blocks`."""

    @property
    def tag(self) -> Any: ...
    @property
    def text(self) -> str | None: ...
    @property
    def tail(self) -> str | None: ...
    def get(self, name: str, /) -> str | None: ...
    def __iter__(self) -> Iterator[Any]: ...


def tree_to_blocks(body: BlockElement) -> list[TextBlock]:
    """Return the blocks of the extractor's body, in order, none empty."""
    return list(_children(body))


def _children(element: BlockElement) -> Iterator[TextBlock]:
    """Yield the children as blocks; text between them becomes paragraphs of its own."""
    loose = element.text or ""
    for child in element:
        # Code inside a sentence: text stands before it, and it is a single line.
        is_inline_code = child.tag == "code" and loose.strip() and "\n" not in (child.text or "").strip()
        if child.tag in BLOCK_TAGS and not is_inline_code:
            yield from text_to_blocks(loose)
            yield from _block(child)
            loose = child.tail or ""
        else:
            loose += _inline(child) + (child.tail or "")
    yield from text_to_blocks(loose)


def _block(element: BlockElement) -> Iterator[TextBlock]:
    match element.tag:
        case "p" if any(child.tag in BLOCK_TAGS and child.tag != "code" for child in element):
            yield from _children(element)
        case "p":
            yield from text_to_blocks(_inline(element))
        case "head":
            yield from _heading(element)
        case "list":
            yield from _list(element)
        case "code":
            yield from _code(element)
        case "table":
            yield from _table(element)
        case "quote":
            yield from map(_quoted, _children(element))
        case _:
            yield from _children(element)


def _inline(element: BlockElement) -> str:
    """The element's text; `lb` becomes a line feed, inner blocks are set off by spaces."""
    pieces = ["\n" if element.tag == "lb" else "", element.text or ""]
    for child in element:
        inner = _inline(child)
        pieces += (" ", inner, " ") if child.tag in BLOCK_TAGS and child.tag != "code" else (inner,)
        pieces.append(child.tail or "")
    return "".join(pieces)


def _heading(element: BlockElement) -> Iterator[TextBlock]:
    words = _HEADING_TOOLS.sub("", collapse_whitespace(_inline(element)))
    level = re.fullmatch(r"h([1-6])", element.get("rend") or "")
    if words:
        yield TextBlock(TextBlockKind.HEADING, f"{'#' * int(level[1] if level else 3)} {escape_html(words)}", words)


def _list(element: BlockElement) -> Iterator[TextBlock]:
    items = list(_items(element, 0))
    if items:
        yield TextBlock(TextBlockKind.LIST, "\n".join(item for item, _ in items), "\n".join(text for _, text in items))


def _items(element: BlockElement, depth: int) -> Iterator[tuple[str, str]]:
    """Yield each item as a Markdown line and as text; inner lists are indented below their item."""
    is_numbered = element.get("rend") == "ol"
    number = 0
    if words := collapse_whitespace(element.text or ""):
        yield f"{'  ' * depth}- {escape(words)}", words
    for item in element:
        pieces = [item.text or ""]
        for child in item:
            own = "" if child.tag == "list" else _inline(child)
            space = " " if child.tag in BLOCK_TAGS and child.tag != "code" else ""
            pieces += (space, own, space, child.tail or "")
        if words := collapse_whitespace("".join((*pieces, item.tail or ""))):
            number += 1
            mark = f"{number}." if is_numbered else "-"
            yield f"{'  ' * depth}{mark} {escape(words)}", words
        for inner in item:
            if inner.tag == "list":
                yield from _items(inner, depth + 1)


def _code(element: BlockElement) -> Iterator[TextBlock]:
    text = _inline(element).strip("\n").rstrip()
    if text.strip():
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        yield TextBlock(TextBlockKind.CODE, f"{fence}{element.get('lang') or ''}\n{text}\n{fence}", text)


def _table(element: BlockElement) -> Iterator[TextBlock]:
    rows = [row for row in _rows(element) if any(row)]
    if not rows:
        return
    width = max(map(len, rows))
    escaped = [[escape_html(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in escaped]
    lines.insert(1, f"|{' --- |' * width}")
    texts = [" | ".join(cell for cell in row if cell) for row in rows]
    yield TextBlock(TextBlockKind.TABLE, "\n".join(lines), "\n".join(texts))


def _rows(table: BlockElement) -> Iterator[list[str]]:
    """Yield the rows of a table; a caption, or text between rows, is a row of one cell."""
    yield [collapse_whitespace(table.text or "")]
    for child in table:
        yield _cells(child) if child.tag == "row" else [collapse_whitespace(_inline(child))]
        yield [collapse_whitespace(child.tail or "")]


def _cells(row: BlockElement) -> list[str]:
    """The cells of a row and the text between them; empty cells keep their place."""
    loose = [collapse_whitespace(row.text or "")] if row.text else []
    for cell in row:
        loose.append(collapse_whitespace(_inline(cell)))
        loose += [collapse_whitespace(cell.tail)] if cell.tail and cell.tail.strip() else []
    return loose[1:] if loose and row.text and not loose[0] else loose


def _quoted(block: TextBlock) -> TextBlock:
    kind = TextBlockKind.QUOTE if block.kind is TextBlockKind.PARAGRAPH else block.kind
    return TextBlock(kind, "\n".join(f"> {text}".rstrip() for text in block.markdown.split("\n")), block.text)
