"""Turn HTML into blocks: a feed's entry, a converted file, all text of a page, or its main text.

HTML is renamed to the elements that `text_blocks` knows, and what has no meaning there is unwrapped.
"""

from __future__ import annotations

import re
from copy import copy

from lxml import etree

from core.pages.flat_tree import FlatTree, SubtreeSum, parse_attributes
from core.pages.lxml_page import parse_html
from core.pages.text_blocks import TextBlock
from core.pages.tree_inline import BLOCK_TAGS
from core.pages.tree_to_markdown import tree_to_blocks

MIN_CHARS_WITHOUT_NAVIGATION = 250
"""With less text than this after removing navigation and the like, they were the page."""
_NAVIGATION_TAGS = ("nav", "header", "footer", "aside", "form", "button", "dialog")
_INVISIBLE_TAGS = ("script", "style", "noscript", "template", "svg", "iframe", "select", "head", "object")
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
_NAMES = {**{tag: tag for tag in (*_RENAMED.values(), "p", "div", "table", "code", "body", "html")}, **_RENAMED}
_ASKED = {"ol": ("start",), "td": ("colspan", "rowspan"), "th": ("colspan", "rowspan")}
"""The attributes that say something about the text."""
_TABLE_PARTS = frozenset(("tr", "td", "th"))
# A table that holds more than words and numbers is there for the layout.
_LAYOUT_TAGS = frozenset(("table", "p", "div", "li", "h1", "h2", "h3", "pre"))
# What is empty matters in a row, where cells have their place, and in code, where spaces do.
_SKIPPED_IF_EMPTY = BLOCK_TAGS - {"row", "cell", "code"}
_LANGUAGE_CLASS = re.compile(
    r"(?:^|\s)(?:language|lang|highlight(?:-source)?|brush)[-:]\s?([A-Za-z][\w+#.]{0,20})(?:\s|$)"
)


class HtmlBlock(list["HtmlBlock"]):
    """An element of the extractor's tree, with its children; a tenth of the cost of an lxml element."""

    __slots__ = ("attributes", "tag", "tail", "text")

    def __init__(self, tag: str, attributes: dict[str, str] | None = None) -> None:
        super().__init__()
        self.tag, self.attributes = tag, attributes or {}
        self.text = self.tail = ""

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)

    def add_text(self, text: str) -> None:
        """Put the text behind everything that the element holds so far."""
        if self:
            self[-1].tail += text
        else:
            self.text += text


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
    return flat_to_blocks(FlatTree(root))


def flat_to_blocks(tree: FlatTree) -> list[TextBlock]:
    """Return the blocks of all text that is left in the lists."""
    body = next((child for child in tree.children(0) if tree.tags[child] == "body"), 0)
    block = HtmlBlock("body")
    _Builder(tree).fill(block, body, is_in_table=False, is_code=False)
    return tree_to_blocks(block)


class _Builder:
    """Builds the extractor's tree of those parts that have text."""

    def __init__(self, tree: FlatTree) -> None:
        self._tree = tree
        has_words = [int(bool(text) and not text.isspace()) for text in tree.texts]
        for number, tail in enumerate(tree.tails):
            if tail and not tail.isspace():
                has_words[tree.parents[number]] = 1
        self._words = SubtreeSum(tree, has_words)

    def fill(self, block: HtmlBlock, number: int, *, is_in_table: bool, is_code: bool) -> None:
        """Add what the element holds to the block."""
        tree = self._tree
        block.add_text(tree.texts[number])
        child, end = number + 1, tree.ends[number]
        while child < end:
            inner: HtmlBlock | None
            if not (is_code or self._words[child]) and _NAMES.get(tree.tags[child]) in _SKIPPED_IF_EMPTY:
                inner, in_table = HtmlBlock("div"), is_in_table  # whatever it is, it only ends what is before it
            else:
                inner, in_table = self._block(child, is_in_table=is_in_table)
            if inner is None:
                self.fill(block, child, is_in_table=in_table, is_code=is_code)
            else:
                block.append(inner)
                if is_code or self._words[child] or inner.tag not in _SKIPPED_IF_EMPTY:
                    self.fill(inner, child, is_in_table=in_table, is_code=is_code or inner.tag == "code")
            if tail := tree.tails[child]:
                block.add_text(tail)
            child = tree.ends[child]

    def _block(self, number: int, *, is_in_table: bool) -> tuple[HtmlBlock | None, bool]:
        """The element under its new name, None if it is unwrapped; and whether what it holds is part of a table."""
        tree, tag = self._tree, self._tree.tags[number]
        name = _NAMES.get(tag)
        if name is None:
            return None, is_in_table
        if tag == "table":
            if self._is_layout(number):
                return HtmlBlock("div"), is_in_table
            return HtmlBlock("table"), True
        if tag in _TABLE_PARTS and not is_in_table:
            return HtmlBlock("div"), False
        if tag == "pre":
            return HtmlBlock("code", {"lang": self._code_language(number), "rend": "pre"}), is_in_table
        if tag == "code":
            return HtmlBlock("code", parse_attributes(tree.raw_attributes[number])), is_in_table
        if tag in _ASKED and tree.raw_attributes[number]:
            attributes = parse_attributes(tree.raw_attributes[number])
            told = {each: attributes[each] for each in _ASKED[tag] if each in attributes}
            return HtmlBlock(name, {**told, "rend": tag}), is_in_table
        return HtmlBlock(name, {"rend": tag} if name != tag else None), is_in_table

    def _is_layout(self, table: int) -> bool:
        inside = self._tree.tags[table + 1 : self._tree.ends[table]]
        return not _LAYOUT_TAGS.isdisjoint(inside) or "tr" not in inside

    def _code_language(self, pre: int) -> str:
        """The language that highlighters note in a class of the `<pre>`, of the `<code>` in it or of a block around."""
        tree = self._tree
        codes = [child for child in tree.children(pre) if tree.tags[child] == "code"]
        around = tree.parents[pre]
        numbers = (pre, *codes[:1], *((around, tree.parents[around]) if around >= 0 else ()))
        attributes = (parse_attributes(tree.raw_attributes[number]) for number in numbers if number >= 0)
        found = _LANGUAGE_CLASS.search(" ".join(each.get("class", "") for each in attributes)[:500])
        return found[1].lower() if found else ""
