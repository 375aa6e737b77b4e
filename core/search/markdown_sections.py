"""Read Markdown as sections of blocks: which headings stand above, and what is a list, a table or code.

Line by line in linear time, whatever the text is. It only has to know where a text may be cut, so quotes and HTML are
text, and inner lists are lines of their list. markdown-it takes seven times as long for the same blocks (tables 170).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

MAX_HEADING_CHARS = 200
"""What is longer is a paragraph that someone made large; every chunk below a heading carries it."""

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE = re.compile(r"[ \t]*(`{3,}+(?=[^`]*$)|~{3,}+)")
_ITEM = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_BREAK = re.compile(r"[ \t]*([-*_])(?:[ \t]*+\1){2,}+[ \t]*$")
# Only these can begin something that is not a paragraph.
_OPENERS = frozenset("#`~|-+*_0123456789")


class BlockKind(StrEnum):
    """What a block is, as far as cutting it goes."""

    TEXT = "text"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    HEADING = "heading"
    BREAK = "break"


class MarkdownBlock(NamedTuple):
    """One block; head and tail are put around each part of it when it is too long to stay whole."""

    kind: BlockKind
    body: str
    head: str = ""
    """The header rows of a table, the opening fence of code; the mark of a heading."""
    tail: str = ""

    @property
    def whole(self) -> str:
        return self.head + self.body + self.tail


class MarkdownSection(NamedTuple):
    """The blocks that stand directly below a path of headings."""

    headings: tuple[str, ...]
    blocks: list[MarkdownBlock]
    level: int = 0
    """Of the innermost of the headings, as its mark says; 0: there is none."""


def read_sections(markdown: str) -> list[MarkdownSection]:
    """Return the sections in order. A heading with nothing below it is a line of text in the section around it."""
    sections = [MarkdownSection((), [])]
    path: list[tuple[int, str]] = []
    is_bare = False  # the innermost heading has had nothing below it so far
    for block in _blocks(markdown.split("\n")):
        if block.kind is not BlockKind.HEADING:
            is_bare = False
            _add(sections, path, block)
            continue
        level = len(block.head)
        if is_bare and path[-1][0] >= level:
            _add_bare_heading(sections, path)
            is_bare = False
        while path and path[-1][0] >= level:
            path.pop()
        if block.body:
            path.append((level, block.body))
            is_bare = True
    if is_bare:
        _add_bare_heading(sections, path)
    return [section for section in sections if section.blocks]


def _add(sections: list[MarkdownSection], path: list[tuple[int, str]], block: MarkdownBlock) -> None:
    headings = tuple(words for _, words in path)
    if sections[-1].headings != headings:
        sections.append(MarkdownSection(headings, [], path[-1][0] if path else 0))
    sections[-1].blocks.append(block)


def _add_bare_heading(sections: list[MarkdownSection], path: list[tuple[int, str]]) -> None:
    _, words = path.pop()
    _add(sections, path, MarkdownBlock(BlockKind.HEADING, words))


def _blocks(lines: list[str]) -> Iterator[MarkdownBlock]:
    """Yield blocks and headings; blank lines and thematic breaks only separate them."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        match _kind_of(line):
            case BlockKind.HEADING:
                block, at = _heading(line), at + 1
            case BlockKind.CODE:
                block, at = _code(lines, at)
            case BlockKind.TABLE:
                block, at = _table(lines, at)
            case BlockKind.LIST:
                block, at = _list(lines, at)
            case BlockKind.BREAK:
                at += 1
                continue
            case _:
                block, at = _text(lines, at)
        if block.body or block.kind is BlockKind.HEADING:
            yield block


def _kind_of(line: str) -> BlockKind:
    """Return the kind of block that begins with this line."""
    bare = line.lstrip()
    if not bare or bare[0] not in _OPENERS:
        return BlockKind.TEXT
    if bare[0] == "#":
        is_heading = len(line) <= MAX_HEADING_CHARS and _HEADING.match(line)
        return BlockKind.HEADING if is_heading else BlockKind.TEXT
    if bare[0] == "|":
        return BlockKind.TABLE
    if bare[0] in "`~":
        return BlockKind.CODE if _FENCE.match(line) else BlockKind.TEXT
    if bare[0] in "-*_" and _BREAK.match(line):
        return BlockKind.BREAK
    return BlockKind.LIST if _ITEM.match(line) else BlockKind.TEXT


def _heading(line: str) -> MarkdownBlock:
    """Read a heading: its mark is the head, its words are the body; `## A ##` is `A`."""
    match = _HEADING.match(line)
    mark, words = (match[1], match[2] or "") if match else ("#", line)
    words = words.strip()
    closed = words.rstrip("#")
    if closed != words and (not closed or closed[-1].isspace()):
        words = closed.rstrip()
    return MarkdownBlock(BlockKind.HEADING, " ".join(words.split()), mark)


def _text(lines: list[str], at: int) -> tuple[MarkdownBlock, int]:
    """Read a paragraph, a heading that is underlined, or a table whose rows do not begin with a bar."""
    start = at
    if at + 1 < len(lines):
        following = lines[at + 1].strip()
        if following and (level := _underline_level(following, lines[at])):
            return MarkdownBlock(BlockKind.HEADING, " ".join(lines[at].split()), "#" * level), at + 2
        if "|" in lines[at] and _is_delimiter_row(following):
            return _table(lines, at)
    at += 1
    while at < len(lines) and lines[at].strip() and _is_continued(lines[at]):
        at += 1
    return MarkdownBlock(BlockKind.TEXT, _joined(lines, start, at)), at


def _underline_level(line: str, above: str) -> int:
    """Return the level of the heading that this line makes of the one above it; 0 if none."""
    if len(above) > MAX_HEADING_CHARS or above.startswith(("    ", "\t")) or above.lstrip()[0] in "><":
        return 0
    if len(line) > 2 and not line.strip("="):
        return 1
    return 2 if len(line) > 2 and not line.strip("-") else 0


def _is_continued(line: str) -> bool:
    """A number at the start of a line inside a paragraph is a number, unless a list begins with it."""
    kind = _kind_of(line)
    if kind is BlockKind.LIST:
        bare = line.lstrip()
        return bare[0].isdigit() and not bare.startswith(("1.", "1)"))
    return kind is BlockKind.TEXT


def _list(lines: list[str], at: int) -> tuple[MarkdownBlock, int]:
    """Read all items with what is indented below them, also over blank lines."""
    start = end = at
    while at < len(lines):
        line = lines[at]
        if line.strip():
            kind = _kind_of(line)
            is_indented = line.startswith(("  ", "\t"))
            is_after_blank = at > end
            if kind is not BlockKind.LIST and (kind is not BlockKind.TEXT or (is_after_blank and not is_indented)):
                break
            end = at + 1
        at += 1
    return MarkdownBlock(BlockKind.LIST, _joined(lines, start, end)), end


def _table(lines: list[str], at: int) -> tuple[MarkdownBlock, int]:
    """Read rows as long as there are bars; the header is what stands above the row of dashes."""
    start = at
    begins_with_bar = lines[at].lstrip().startswith("|")
    while at < len(lines) and (lines[at].lstrip().startswith("|") or (not begins_with_bar and "|" in lines[at])):
        at += 1
    header = 2 if at - start > 2 and _is_delimiter_row(lines[start + 1].strip()) else 0
    head = _joined(lines, start, start + header) + "\n" if header else ""
    return MarkdownBlock(BlockKind.TABLE, _joined(lines, start + header, at), head), at


def _is_delimiter_row(line: str) -> bool:
    return "|" in line and "-" in line and not line.strip("|:- \t")


def _code(lines: list[str], at: int) -> tuple[MarkdownBlock, int]:
    """Read up to the closing fence, or to the end of the text; a fence around nothing is the text of its first line."""
    opening = lines[at]
    match = _FENCE.match(opening)
    fence = match[1] if match else "```"
    start = at = at + 1
    while at < len(lines):
        bare = lines[at].strip()
        if bare.startswith(fence) and not bare.strip(fence[0]):
            break
        at += 1
    body = _joined(lines, start, at)
    if not body.strip():
        return MarkdownBlock(BlockKind.TEXT, opening.strip().strip(fence[0]).strip()), at + 1
    indent = opening[: len(opening) - len(opening.lstrip())]
    return MarkdownBlock(BlockKind.CODE, body, opening.rstrip() + "\n", f"\n{indent}{fence}"), at + 1


def _joined(lines: list[str], start: int, end: int) -> str:
    return "\n".join(lines[start:end]).strip("\n").rstrip()
