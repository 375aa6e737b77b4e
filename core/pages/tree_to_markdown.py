"""Turn the tree of a main text into blocks: headings, lists, tables, code and quotes as Markdown and as plain text.

The tree is trafilatura's: `p`, `head`, `list`/`item`, `quote`, `code`, `table`/`row`/`cell`, `lb`; HTML is turned into
it by `html_blocks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from core.pages.list_layout import list_to_blocks
from core.pages.table_blocks import table_to_blocks
from core.pages.text_blocks import (
    BLANK_LINE,
    MAX_TEXT_CHARS,
    TextBlock,
    TextBlockKind,
    code_to_block,
    escape,
    escape_html,
    text_to_blocks,
)
from core.pages.tree_inline import (
    BLOCK_TAGS,
    BlockElement,
    has_marks,
    inline_code,
    inline_text,
    to_markdown_and_words,
    to_words,
    without_marks,
)

# Tools beside a heading: a link to itself, a wiki's edit link.
_HEADING_TOOLS = re.compile(
    r"\s*(?:[#¶§🔗]|\[(?:edit|bearbeiten|modifi|editar|править|編集|编辑|bewerk|redigera|edytuj)[^\]]{0,60}\])$",
    re.IGNORECASE,
)
_BLOCKS_BUT_ITEMS = BLOCK_TAGS - {"item"}
_START = re.compile(r"[0-9]{1,9}")
MAX_DEPTH = 10
"""Of lists and quotes inside each other; in our corpora two at most. Each indents every line below it once
more: 500,000 lines of code in 110 lists took 13 s and became 111 MB."""


def tree_to_blocks(body: BlockElement) -> list[TextBlock]:
    """Return the blocks of the extractor's body, in order, none empty."""
    return list(_children(body, 0))


def _children(element: BlockElement, depth: int) -> Iterator[TextBlock]:
    """Yield the children as blocks; text between them becomes paragraphs of its own.

    Args:
        depth: how many lists and quotes are around.
    """
    loose = element.text or ""
    for child in element:
        if child.tag == "code" and _is_inline(child, loose, element):
            loose += inline_code(child) + (child.tail or "")
        elif child.tag in BLOCK_TAGS:
            yield from _paragraphs(loose)
            yield from _block(child, depth)
            loose = child.tail or ""
        else:
            loose += inline_text(child) + (child.tail or "")
    yield from _paragraphs(loose)


def _is_inline(code: BlockElement, before: str, parent: BlockElement) -> bool:
    """Code inside a sentence: words stand before or behind it, and it is a single line. Of a `<pre>` it never is."""
    if code.get("rend") == "pre":
        return False
    if parent.tag == "item":
        return True
    has_words = bool(before.strip() or (code.tail or "").strip())
    return has_words and "\n" not in without_marks(inline_text(code)).strip()


def _paragraphs(text: str) -> list[TextBlock]:
    """Return the paragraphs of text between blocks; code inside a sentence stays code in Markdown."""
    if not has_marks(text):
        return text_to_blocks(text)
    pieces = (to_markdown_and_words(piece[:MAX_TEXT_CHARS], escape) for piece in BLANK_LINE.split(text))
    return [TextBlock(TextBlockKind.PARAGRAPH, markdown, words) for markdown, words in pieces if words]


def _block(element: BlockElement, depth: int) -> Iterator[TextBlock]:
    match element.tag:
        case "p" if any(child.tag in BLOCK_TAGS and _is_block(child) for child in element):
            yield from _children(element, depth)
        case "p":
            yield from _paragraphs(inline_text(element))
        case "head":
            yield from _heading(element)
        case "list":
            yield from _list(element, depth)
        case "code":
            yield from _code(element)
        case "table":
            yield from table_to_blocks(element)
        case "quote" if depth < MAX_DEPTH:
            yield from map(_quoted, _children(element, depth + 1))
        case _:
            yield from _children(element, depth)


def _is_block(child: BlockElement) -> bool:
    return child.tag != "code" or child.get("rend") == "pre"


def _heading(element: BlockElement) -> Iterator[TextBlock]:
    words = _HEADING_TOOLS.sub("", to_words(inline_text(element)))
    level = re.fullmatch(r"h([1-6])", element.get("rend") or "")
    if words:
        yield TextBlock(TextBlockKind.HEADING, f"{'#' * int(level[1] if level else 3)} {escape_html(words)}", words)


def _list(element: BlockElement, depth: int) -> Iterator[TextBlock]:
    """Yield the list; a list directly inside it belongs to the item before. Too deep, its items are paragraphs."""
    items: list[list[TextBlock]] = []
    for blocks, is_list in _items(element, depth + 1):
        if is_list and items:
            items[-1] += blocks
        elif blocks:
            items.append(blocks)
    if depth >= MAX_DEPTH:
        yield from chain.from_iterable(items)
        return
    start = _START.fullmatch(element.get("start") or "1")
    yield from list_to_blocks(items, int(start[0] if start else 1) if element.get("rend") == "ol" else None)


def _items(element: BlockElement, depth: int) -> Iterator[tuple[list[TextBlock], bool]]:
    """Yield the blocks of each item, and whether it is a list; loose text is an item, or the end of the one before."""
    yield _paragraphs(element.text or ""), False
    for item in element:
        blocks = list(_block(item, depth) if item.tag in _BLOCKS_BUT_ITEMS else _children(item, depth))
        yield blocks + _paragraphs(item.tail or ""), item.tag == "list"


def _code(element: BlockElement) -> Iterator[TextBlock]:
    text = without_marks(inline_text(element)).strip("\n").rstrip()
    if text.strip():
        yield code_to_block(text, element.get("lang") or "")


def _quoted(block: TextBlock) -> TextBlock:
    kind = TextBlockKind.QUOTE if block.kind is TextBlockKind.PARAGRAPH else block.kind
    return TextBlock(kind, "\n".join(f"> {text}".rstrip() for text in block.markdown.split("\n")), block.text)
