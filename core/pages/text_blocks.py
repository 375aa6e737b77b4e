"""The blocks of a text, each as Markdown and as plain text, and how they become one text.

Words of the page that would otherwise become structure or live HTML are escaped. HTML becomes blocks in
`tree_to_markdown`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from core.pages.text_cleaning import collapse_whitespace


class TextBlockKind(StrEnum):
    """What a block is, as far as abstracts and chunks need to know."""

    PARAGRAPH = "paragraph"
    HEADING = "heading"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    QUOTE = "quote"
    LINE = "line"
    """Text of a page whose structure was not read."""


class TextBlock(NamedTuple):
    """One block of the text."""

    kind: TextBlockKind
    markdown: str
    text: str


MAX_TEXT_CHARS = 2_000_000
"""A novel of 400,000 words; anything longer is a dump."""

# At the start of a paragraph these would make it a heading, a quote, a list, a table or a fence.
_STRUCTURE_MARK = re.compile(r"(?=#{1,6}\s|>|[-+*]\s|\||```|~~~)")
_LIST_NUMBER = re.compile(r"([0-9]{1,9})(?=[.)]\s)")
# One line in fifty begins with one of these; to ask for it takes a fifth of the time of the two patterns.
_MAY_BE_STRUCTURE = frozenset("#>-+*|`~0123456789")
# `<b` would be live HTML in a renderer, `](` a link with any scheme.
_LIVE_HTML = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])\(")
_BACKTICKS = re.compile("`+")
BLANK_LINE = re.compile(r"\n\s*\n")


def text_to_blocks(text: str) -> list[TextBlock]:
    """Return the paragraphs of plain text, which blank lines separate."""
    paragraphs = (collapse_whitespace(piece)[:MAX_TEXT_CHARS] for piece in BLANK_LINE.split(text))
    return [TextBlock(TextBlockKind.PARAGRAPH, escape(words), words) for words in paragraphs if words]


def lines_to_blocks(lines: list[str], known_paragraphs: frozenset[str] = frozenset()) -> list[TextBlock]:
    """Return a block for each line; those among `known_paragraphs` are paragraphs; code ends with a line feed."""
    blocks = []
    for line in lines:
        if line.endswith("\n"):
            blocks.append(code_to_block(line[:MAX_TEXT_CHARS].rstrip()))
            continue
        kind = TextBlockKind.PARAGRAPH if line in known_paragraphs else TextBlockKind.LINE
        text = line[:MAX_TEXT_CHARS]
        blocks.append(TextBlock(kind, escape(text), text))
    return blocks


def code_to_block(text: str, language: str = "") -> TextBlock:
    """Return code between fences that are longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return TextBlock(TextBlockKind.CODE, f"{fence}{language}\n{text}\n{fence}", text)


def limit_blocks(blocks: list[TextBlock]) -> list[TextBlock]:
    """Cut the blocks after `MAX_TEXT_CHARS` characters."""
    room = MAX_TEXT_CHARS
    for number, block in enumerate(blocks):
        if len(block.text) > room:
            return [*blocks[:number], TextBlock(block.kind, block.markdown[:room], block.text[:room])]
        room -= len(block.text)
    return blocks


def blocks_to_markdown(blocks: list[TextBlock]) -> str:
    return "\n\n".join(block.markdown for block in blocks)


def blocks_to_text(blocks: list[TextBlock]) -> str:
    return "\n\n".join(block.text for block in blocks)


def escape_html(words: str) -> str:
    """Return words that no renderer takes for HTML or a link."""
    return _LIVE_HTML.sub(r"\\\g<0>", words) if "<" in words or "](" in words else words


def escape(words: str) -> str:
    """Return words that begin no heading, quote, list, table or fence either."""
    text = escape_html(words)
    if text[:1] not in _MAY_BE_STRUCTURE:
        return text
    if _STRUCTURE_MARK.match(text):
        return f"\\{text}"
    number = _LIST_NUMBER.match(text)
    return f"{number[1]}\\{text[number.end() :]}" if number else text
