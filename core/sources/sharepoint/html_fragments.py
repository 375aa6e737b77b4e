"""Clean HTML that people wrote in SharePoint's editors: words, structure, links and image descriptions stay.

Nothing that could run or is not shown remains. The result is a sequence of blocks without classes, styles or wrappers,
which any extractor reads alike.
"""

from __future__ import annotations

import re
from html import escape

from lxml import etree

from core.pages.lxml_page import parse_html
from core.pages.parser_limits import limit_depth
from core.pages.text_cleaning import collapse_whitespace, strip_invisible, strip_unstorable

_DROPPED = frozenset(
    (
        *("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "applet", "head"),
        *("input", "select", "textarea", "button", "audio", "video", "canvas", "map", "link", "meta", "title"),
    )
)
_LINES = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "p", "pre"))
_LISTS = frozenset(("ul", "ol", "dl"))
_ITEMS = frozenset(("li", "dt", "dd"))
_EMPHASIS = frozenset(("strong", "b", "em", "i", "u", "s", "code", "sub", "sup"))
_CONTAINERS = frozenset(
    (
        *("div", "section", "article", "main", "header", "footer", "aside", "center", "address", "figure", "hr"),
        *("figcaption", "details", "summary", "form", "fieldset", "nav", "table", "thead", "tbody", "tfoot", "tr"),
        *("td", "th", "caption", "li", "dt", "dd", "blockquote", "body"),
    )
)
_SAFE_URL = re.compile(r"(?:https?:|mailto:|tel:|/(?!/)|[^:/?#\s][^:/?#]*(?:[/?]|$))", re.IGNORECASE)
_IS_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_HOLDS_BLOCKS = etree.XPath("boolean(.//table or .//h1 or .//h2 or .//h3 or .//h4 or .//*[@data-sp-rte])")
_SPACES = re.compile(r"\s+")
_EDGES = re.compile(r"^(?:\s|<br>)+|(?:\s|<br>)+$")
_TAG = re.compile(r"<(/?)([a-z]+)[^>]*>")


def clean_fragment(html: str) -> str:
    """Return the fragment as simple HTML; empty if it says nothing."""
    # Depth is limited, since elements are read by functions that call each other.
    root = parse_html(limit_depth(strip_invisible(strip_unstorable(html)))) if html.strip() else None
    if root is None:
        return ""
    writer = _BlockWriter()
    writer.read(root)
    return "\n".join(writer.finished())


def count_classic_web_parts(html: str) -> int:
    """Count the places of web parts in the HTML of a classic page; what they show is not in it."""
    return html.count("ms-rte-wpbox")


def is_safe_url(url: str) -> bool:
    """Return whether a reader may follow this link: the web, mail, a telephone, or a place on the same site."""
    return bool(_SAFE_URL.match(url.strip()))


class _BlockWriter:
    """Sees the elements in order; collects the words of a line, and puts it into the blocks where the next begins."""

    def __init__(self, *, is_flat: bool = False) -> None:
        """`is_flat`: lines only, without tags of their own; for the cells of a table."""
        self._is_flat = is_flat
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._images: list[str] = []

    def finished(self) -> list[str]:
        self._end_line()
        return self._blocks

    def read(self, element: etree._Element, *, is_preformatted: bool = False) -> None:
        self._add_text(element.text, is_preformatted)
        for child in element:
            if isinstance(child.tag, str) and not _IS_HIDDEN.search(str(child.get("style") or "")):
                self._read_child(child, str(child.tag), is_preformatted)
            self._add_text(child.tail, is_preformatted)

    def _read_child(self, child: etree._Element, tag: str, is_preformatted: bool) -> None:
        if tag in _DROPPED:
            return
        if tag == "img":
            self._add_image(child)
        elif tag == "br":
            self._line.append("\n" if is_preformatted else "<br>")
        elif tag == "a" or tag in _EMPHASIS:
            self._read_inline(child, tag, is_preformatted)
        elif tag in _LINES:
            self._end_line()
            self.read(child, is_preformatted=tag == "pre")
            self._end_line(tag)
        elif tag in _LISTS and not self._is_flat:
            self._read_list(child, tag)
        elif tag == "table" and not self._is_flat and not _is_layout(child):
            self._read_table(child)
        elif tag == "blockquote" and not self._is_flat:
            self._end_line()
            self._wrap("blockquote", _blocks_of(child))
        else:
            self._read_container(child, tag in _CONTAINERS or tag in _LISTS, is_preformatted)

    def _read_container(self, child: etree._Element, is_block: bool, is_preformatted: bool) -> None:
        if is_block:
            self._end_line()
        self.read(child, is_preformatted=is_preformatted)
        if is_block:
            self._end_line()

    def _read_inline(self, child: etree._Element, tag: str, is_preformatted: bool) -> None:
        url = str(child.get("href") or "").strip()
        is_link = tag == "a" and bool(url) and is_safe_url(url)
        opening = f'<a href="{escape(url)}">' if is_link else "" if tag == "a" else f"<{tag}>"
        blocks = len(self._blocks)
        self._line.append(opening)
        self.read(child, is_preformatted=is_preformatted)
        if len(self._blocks) > blocks:  # it held blocks, and its opening tag went into the first of them
            return
        if self._line[-1] is opening:
            self._line.pop()
        elif opening:
            self._line.append(f"</{tag}>")

    def _read_list(self, element: etree._Element, tag: str) -> None:
        self._end_line()
        items: list[str] = []
        for child in element:
            name = str(child.tag)
            words = "\n".join(_without_lone_paragraph(_blocks_of(child))) if name not in _DROPPED else ""
            if words:
                name = name if name in _ITEMS else "li"
                items.append(f"<{name}>{words}</{name}>")
        self._wrap(tag, items)

    def _read_table(self, table: etree._Element) -> None:
        self._end_line()
        rows: list[str] = []
        for caption in table.iter("caption"):
            rows += [f"<caption>{words}</caption>" for words in [_flat(caption)] if words]
        for row in table.iter("tr"):
            cells = [(str(cell.tag), _spans(cell), _flat(cell)) for cell in row if cell.tag in ("td", "th")]
            if any(words for _, _, words in cells):
                rows.append(f"<tr>{''.join(f'<{tag}{spans}>{words}</{tag}>' for tag, spans, words in cells)}</tr>")
        self._wrap("table", rows)

    def _wrap(self, tag: str, blocks: list[str]) -> None:
        if blocks:
            self._blocks.append("\n".join((f"<{tag}>", *blocks, f"</{tag}>")))

    def _add_text(self, text: object, is_preformatted: bool) -> None:
        if text:
            words = str(text) if is_preformatted else _SPACES.sub(" ", str(text))
            self._line.append(escape(words, quote=False))

    def _add_image(self, image: etree._Element) -> None:
        described = described_image(str(image.get("src") or ""), str(image.get("alt") or ""))
        if described and self._is_flat:
            self._line.append(escape(collapse_whitespace(str(image.get("alt"))), quote=False))
        elif described:
            self._images.append(described)

    def _end_line(self, tag: str = "p") -> None:
        words = _trimmed("".join(self._line)) if tag != "pre" else "".join(self._line).strip("\n")
        if _has_words(words):
            self._blocks.append(words if self._is_flat else f"<{tag}>{_closed(words)}</{tag}>")
        self._blocks += self._images
        self._line, self._images = [], []


def described_image(source: str, description: str) -> str:
    """Return an image with its description as text; empty without a description, as then there is nothing to read."""
    words = escape(collapse_whitespace(description))
    image = f'<img src="{escape(source.strip())}" alt="{words}">' if source and is_safe_url(source) else ""
    # A paragraph, since extractors leave captions out.
    return f"{image}<p>{words}</p>" if words else ""


def _blocks_of(element: etree._Element) -> list[str]:
    writer = _BlockWriter()
    writer.read(element)
    return writer.finished()


def _flat(element: etree._Element) -> str:
    writer = _BlockWriter(is_flat=True)
    writer.read(element)
    return "<br>".join(_closed(line) for line in writer.finished())


def _without_lone_paragraph(blocks: list[str]) -> list[str]:
    """Return the words of the first block without its paragraph: an item of a list needs none."""
    if blocks and blocks[0].startswith("<p>"):
        return [blocks[0].removeprefix("<p>").removesuffix("</p>"), *blocks[1:]]
    return blocks


def _is_layout(table: etree._Element) -> bool:
    """Return whether the table only places things side by side."""
    return table.get("id") == "layoutsTable" or bool(_HOLDS_BLOCKS(table))


def _spans(cell: etree._Element) -> str:
    spans = ((name, str(cell.get(name) or "")) for name in ("colspan", "rowspan"))
    return "".join(f' {name}="{value}"' for name, value in spans if value.isdecimal() and 1 < int(value[:4]) < 1000)


def _trimmed(words: str) -> str:
    return _EDGES.sub("", words.replace(" <br>", "<br>").replace("<br> ", "<br>"))


def _has_words(line: str) -> bool:
    return bool(_TAG.sub("", line).strip())


def _closed(line: str) -> str:
    """Return the line with every tag closed that is open at its end, and without closing tags that close nothing.

    A link around two paragraphs begins in the one and ends in the other.
    """
    is_open: list[str] = []

    def keep(tag: re.Match[str]) -> str:
        if tag[2] == "br":
            return tag[0]
        if not tag[1]:
            is_open.append(tag[2])
            return tag[0]
        if is_open and is_open[-1] == tag[2]:
            is_open.pop()
            return tag[0]
        return ""

    kept = _TAG.sub(keep, line)
    return kept + "".join(f"</{tag}>" for tag in reversed(is_open))
