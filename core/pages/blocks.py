"""Turn trees and plain text into blocks, each as Markdown and as plain text.

The extractor's tree is trafilatura's: `p`, `head`, `list`/`item`, `quote`, `code`, `table`/`row`/`cell`, `lb`. Other
HTML (a feed's entry, a page in which no main text is found) is renamed to these elements. Markdown keeps the structure
and escapes words of the page that would otherwise become structure or live HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from enum import StrEnum
from typing import NamedTuple, cast

from lxml import etree

from core.pages.lxml_page import parse_html
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
_LIST_NUMBER = re.compile(r"(\d{1,9})(?=[.)]\s)")
# `<b` would be live HTML in a renderer, `](` a link with any scheme.
_LIVE_HTML = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])\(")
# Tools beside a heading: a link to itself, a wiki's edit link.
_HEADING_TOOLS = re.compile(
    r"\s*(?:[#¶§🔗]|\[(?:edit|bearbeiten|modifi|editar|править|編集|编辑|bewerk|redigera|edytuj)[^\]]{0,60}\])$",
    re.IGNORECASE,
)
_LANGUAGE_CLASS = re.compile(
    r"(?:^|\s)(?:language|lang|highlight(?:-source)?|brush)[-:]\s?([A-Za-z][\w+#.]{0,20})(?:\s|$)"
)
_BLANK_LINE = re.compile(r"\n\s*\n")
_BLOCK_TAGS = frozenset(("p", "head", "list", "quote", "code", "table", "item", "row", "cell", "div", "ab"))
_RENAMED = {
    **{f"h{level}": "head" for level in range(1, 7)},
    **dict.fromkeys(("ul", "ol", "dl"), "list"),
    **dict.fromkeys(("li", "dt", "dd"), "item"),
    **dict.fromkeys(("blockquote", "q"), "quote"),
    "pre": "code",
    "tr": "row",
    "br": "lb",
    "hr": "p",
    **dict.fromkeys(("td", "th"), "cell"),
    **dict.fromkeys(
        ("section", "article", "main", "figure", "figcaption", "header", "details", "summary", "caption"), "div"
    ),
}
_KEPT_TAGS = {*_RENAMED.values(), "p", "div", "table", "code", "body", "html"}
MIN_CHARS_WITHOUT_NAVIGATION = 250
"""With less text than this after removing navigation and the like, they were the page."""
# A table that holds more than words and numbers is there for the layout.
_LAYOUT_TABLES = etree.XPath(
    ".//table[.//table or .//p or .//div or .//li or .//h1 or .//h2 or .//h3 or .//pre or not(.//tr)]"
)
_NAVIGATION_TAGS = ("nav", "header", "footer", "aside", "form", "button", "dialog")
_INVISIBLE_TAGS = ("script", "style", "noscript", "template", "svg", "iframe", "select", "head", "object")


def tree_to_blocks(body: etree._Element) -> list[TextBlock]:
    """Return the blocks of the extractor's body, in order, none empty."""
    return list(_children(body))


def text_to_blocks(text: str) -> list[TextBlock]:
    """Return the paragraphs of plain text, which blank lines separate."""
    paragraphs = (collapse_whitespace(piece)[:MAX_TEXT_CHARS] for piece in _BLANK_LINE.split(text))
    return [TextBlock(TextBlockKind.PARAGRAPH, _escape(words), words) for words in paragraphs if words]


def lines_to_blocks(lines: list[str], known_paragraphs: frozenset[str] = frozenset()) -> list[TextBlock]:
    """Return a block for each line; those among `known_paragraphs` are paragraphs."""
    blocks = []
    for line in lines:
        kind = TextBlockKind.PARAGRAPH if line in known_paragraphs else TextBlockKind.LINE
        text = line[:MAX_TEXT_CHARS]
        blocks.append(TextBlock(kind, _escape(text), text))
    return blocks


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


def parse_fragment(html: str) -> etree._Element | None:
    """Parse a fragment of HTML as a page of its own."""
    return parse_html(f"<html><body><div>{html}</div></body></html>")


def without_navigation(root: etree._Element) -> etree._Element:
    """Return the page without navigation and the like, unless that is all there is."""
    rest = copy(root)
    etree.strip_elements(rest, *_NAVIGATION_TAGS, with_tail=False)
    return rest if len("".join(map(str, rest.itertext())).strip()) >= MIN_CHARS_WITHOUT_NAVIGATION else root


def html_to_blocks(root: etree._Element) -> list[TextBlock]:
    """Return the blocks of all text of an HTML tree, in order and in linear time. Changes `root`."""
    etree.strip_elements(root, *_INVISIBLE_TAGS, with_tail=False)
    for table in cast("list[etree._Element]", _LAYOUT_TABLES(root)):
        table.tag = "div"
    for element in root.iter("tr", "td", "th"):
        if next(element.iterancestors("table"), None) is None:
            element.tag = "div"
    for element in root.iter("pre"):
        element.set("lang", _code_language(element))
    for element in root.iter(*_RENAMED):
        element.set("rend", str(element.tag))
        element.tag = _RENAMED[str(element.tag)]
    body = root.find("body")
    etree.strip_tags(root, *{str(element.tag) for element in root.iter("*")} - _KEPT_TAGS)
    return tree_to_blocks(root if body is None else body)


def _children(element: etree._Element) -> Iterator[TextBlock]:
    """Yield the children as blocks; text between them becomes paragraphs of its own."""
    loose = element.text or ""
    for child in element:
        # Code inside a sentence: text stands before it, and it is a single line.
        is_inline_code = child.tag == "code" and loose.strip() and "\n" not in (child.text or "").strip()
        if child.tag in _BLOCK_TAGS and not is_inline_code:
            yield from text_to_blocks(loose)
            yield from _block(child)
            loose = child.tail or ""
        else:
            loose += _inline(child) + (child.tail or "")
    yield from text_to_blocks(loose)


def _block(element: etree._Element) -> Iterator[TextBlock]:
    match element.tag:
        case "p" if any(child.tag in _BLOCK_TAGS and child.tag != "code" for child in element):
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


def _inline(element: etree._Element) -> str:
    """The element's text; `lb` becomes a line feed, inner blocks are set off by spaces."""
    pieces = ["\n" if element.tag == "lb" else "", element.text or ""]
    for child in element:
        inner = _inline(child)
        pieces += (" ", inner, " ") if child.tag in _BLOCK_TAGS and child.tag != "code" else (inner,)
        pieces.append(child.tail or "")
    return "".join(pieces)


def _escape_html(words: str) -> str:
    return _LIVE_HTML.sub(r"\\\g<0>", words) if "<" in words or "](" in words else words


def _escape(words: str) -> str:
    text = _escape_html(words)
    if _STRUCTURE_MARK.match(text):
        return f"\\{text}"
    number = _LIST_NUMBER.match(text)
    return f"{number[1]}\\{text[number.end() :]}" if number else text


def _heading(element: etree._Element) -> Iterator[TextBlock]:
    words = _HEADING_TOOLS.sub("", collapse_whitespace(_inline(element)))
    level = re.fullmatch(r"h([1-6])", element.get("rend") or "")
    if words:
        yield TextBlock(TextBlockKind.HEADING, f"{'#' * int(level[1] if level else 3)} {_escape_html(words)}", words)


def _list(element: etree._Element) -> Iterator[TextBlock]:
    items = list(_items(element, 0))
    if items:
        yield TextBlock(TextBlockKind.LIST, "\n".join(item for item, _ in items), "\n".join(text for _, text in items))


def _items(element: etree._Element, depth: int) -> Iterator[tuple[str, str]]:
    """Yield each item as a Markdown line and as text; inner lists are indented below their item."""
    is_numbered = element.get("rend") == "ol"
    number = 0
    if words := collapse_whitespace(element.text or ""):
        yield f"{'  ' * depth}- {_escape(words)}", words
    for item in element:
        pieces = [item.text or ""]
        for child in item:
            own = "" if child.tag == "list" else _inline(child)
            space = " " if child.tag in _BLOCK_TAGS and child.tag != "code" else ""
            pieces += (space, own, space, child.tail or "")
        if words := collapse_whitespace("".join((*pieces, item.tail or ""))):
            number += 1
            mark = f"{number}." if is_numbered else "-"
            yield f"{'  ' * depth}{mark} {_escape(words)}", words
        for inner in item.iterchildren("list"):
            yield from _items(inner, depth + 1)


def _code(element: etree._Element) -> Iterator[TextBlock]:
    text = _inline(element).strip("\n").rstrip()
    if text.strip():
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        yield TextBlock(TextBlockKind.CODE, f"{fence}{element.get('lang') or ''}\n{text}\n{fence}", text)


def _code_language(pre: etree._Element) -> str:
    """The language that highlighters note in a class of the `<pre>`, of the `<code>` in it or of the block around."""
    around = pre.getparent()
    elements = (pre, pre.find("code"), around, around.getparent() if around is not None else None)
    names = " ".join(element.get("class") or "" for element in elements if element is not None)
    found = _LANGUAGE_CLASS.search(names[:500])
    return found[1].lower() if found else ""


def _table(element: etree._Element) -> Iterator[TextBlock]:
    rows = [row for row in _rows(element) if any(row)]
    if not rows:
        return
    width = max(map(len, rows))
    escaped = [[_escape_html(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in escaped]
    lines.insert(1, f"|{' --- |' * width}")
    texts = [" | ".join(cell for cell in row if cell) for row in rows]
    yield TextBlock(TextBlockKind.TABLE, "\n".join(lines), "\n".join(texts))


def _rows(table: etree._Element) -> Iterator[list[str]]:
    """Yield the rows of a table; a caption, or text between rows, is a row of one cell."""
    yield [collapse_whitespace(table.text or "")]
    for child in table:
        yield _cells(child) if child.tag == "row" else [collapse_whitespace(_inline(child))]
        yield [collapse_whitespace(child.tail or "")]


def _cells(row: etree._Element) -> list[str]:
    """The cells of a row and the text between them; empty cells keep their place."""
    loose = [collapse_whitespace(row.text or "")] if row.text else []
    for cell in row:
        loose.append(collapse_whitespace(_inline(cell)))
        loose += [collapse_whitespace(cell.tail)] if cell.tail and cell.tail.strip() else []
    return loose[1:] if loose and row.text and not loose[0] else loose


def _quoted(block: TextBlock) -> TextBlock:
    kind = TextBlockKind.QUOTE if block.kind is TextBlockKind.PARAGRAPH else block.kind
    return TextBlock(kind, "\n".join(f"> {text}".rstrip() for text in block.markdown.split("\n")), block.text)
