"""Put the blocks of a list's items below their marks, indented as CommonMark wants it.

An item's words are one line. Code, tables and inner lists stand below it, so that renderers and chunkers see them.
"""

from __future__ import annotations

import re
from itertools import chain

from core.pages.text_blocks import TextBlock, TextBlockKind, escape

_STRUCTURE = frozenset((TextBlockKind.CODE, TextBlockKind.TABLE, TextBlockKind.LIST))
_LINE_BEGINS = re.compile(r"\n(?=[^\n])")
MIN_LAYOUT_BLOCKS = 3
"""A bullet of its own with that many blocks is no item: a page's frame made a list of the article."""


def list_to_blocks(items: list[list[TextBlock]], first_number: int | None) -> list[TextBlock]:
    """Return the items as one block; as they are where the list is there for the layout.

    Args:
        first_number: None if the items are not numbered.
    """
    if _is_layout(items, is_numbered=first_number is not None):
        return list(chain.from_iterable(items))
    lines: list[str] = []
    texts: list[str] = []
    for blocks in items:
        mark = "-" if first_number is None else f"{first_number + len(texts)}."
        parts = _joined(blocks)
        lines.append(_item_markdown(mark, parts))
        texts.append("\n".join(part.text for part in parts))
    return [TextBlock(TextBlockKind.LIST, "\n".join(lines), "\n".join(texts))] if lines else []


def _is_layout(items: list[list[TextBlock]], *, is_numbered: bool) -> bool:
    if len(items) == 1:
        blocks = items[0]
        has_structure = any(block.kind is not TextBlockKind.PARAGRAPH for block in blocks)
        return (has_structure and len(blocks) >= MIN_LAYOUT_BLOCKS and not is_numbered) or _has_section(blocks)
    return not is_numbered and any(map(_has_section, items))


def _has_section(blocks: list[TextBlock]) -> bool:
    return len(blocks) > 1 and any(block.kind is TextBlockKind.HEADING for block in blocks)


def _item_markdown(mark: str, parts: list[TextBlock]) -> str:
    if parts[0].kind is TextBlockKind.LIST:  # an item without words of its own
        return parts[0].markdown if len(parts) == 1 else f"{parts[0].markdown}\n\n{_item_markdown(mark, parts[1:])}"
    # Code that began behind the mark would be a line of the list to whoever reads line by line.
    text = f"{mark}\n" if parts[0].kind in _STRUCTURE else f"{mark} "
    before = None
    for part in parts:
        if before is not None:
            # A line directly below a table or an inner list would be part of it, and one above a table its header.
            is_apart = TextBlockKind.TABLE in (before, part.kind) or before is TextBlockKind.LIST
            text += "\n\n" if is_apart else "\n"
        text += part.markdown
        before = part.kind
    return _indented(text, len(mark) + 1)


def _indented(text: str, width: int) -> str:
    """Indent all lines but the first and empty ones. A pattern takes ten times as long, once for each list around."""
    begin = "\n" + " " * width
    return _LINE_BEGINS.sub(begin, text) if "\n\n" in text else text.replace("\n", begin)


def _joined(blocks: list[TextBlock]) -> list[TextBlock]:
    """Join what is words to one paragraph each; headings and quotes are words too."""
    if len(blocks) == 1 and blocks[0].kind is TextBlockKind.PARAGRAPH:  # most items
        return blocks
    parts: list[TextBlock] = []
    for block in blocks:
        if block.kind in _STRUCTURE:
            parts.append(block)
            continue
        markdown = block.markdown if block.kind is TextBlockKind.PARAGRAPH else escape(block.text)
        if parts and parts[-1].kind is TextBlockKind.PARAGRAPH:
            before = parts.pop()
            markdown, text = f"{before.markdown} {markdown}", f"{before.text} {block.text}"
        else:
            text = block.text
        parts.append(TextBlock(TextBlockKind.PARAGRAPH, markdown, text))
    return parts
