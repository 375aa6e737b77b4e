"""Turn all text of an HTML tree into blocks: a feed's entry, or a page in which no main text is found.

Elements are renamed to those of the extractor. Takes time linear in the size.
"""

from __future__ import annotations

from copy import copy
from typing import cast

from lxml import etree

from core.pages import lxml_page
from core.pages.blocks import TextBlock, tree_to_blocks

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
_KEPT = {*_RENAMED.values(), "p", "div", "table", "code", "body", "html"}
MIN_CHARS = 250
"""With less text than this after removing navigation and the like, they were the page."""
# A table that holds more than words and numbers is there for the layout.
_LAYOUT_TABLES = etree.XPath(
    ".//table[.//table or .//p or .//div or .//li or .//h1 or .//h2 or .//h3 or .//pre or not(.//tr)]"
)
_NAVIGATION_TAGS = ("nav", "header", "footer", "aside", "form", "button", "dialog")
_INVISIBLE_TAGS = ("script", "style", "noscript", "template", "svg", "iframe", "select", "head", "object")


def parse_fragment(html: str) -> etree._Element | None:
    """Parse a fragment of HTML as a page of its own."""
    return lxml_page.parse_html(f"<html><body><div>{html}</div></body></html>")


def without_navigation(root: etree._Element) -> etree._Element:
    """Return the page without navigation and the like, unless that is all there is."""
    rest = copy(root)
    etree.strip_elements(rest, *_NAVIGATION_TAGS, with_tail=False)
    return rest if len("".join(map(str, rest.itertext())).strip()) >= MIN_CHARS else root


def html_to_blocks(root: etree._Element) -> list[TextBlock]:
    """Return the blocks of all text, in order. Changes `root`."""
    etree.strip_elements(root, *_INVISIBLE_TAGS, with_tail=False)
    _unwrap_layout_tables(root)
    for element in root.iter(*_RENAMED):
        element.set("rend", str(element.tag))
        element.tag = _RENAMED[str(element.tag)]
    body = root.find("body")
    etree.strip_tags(root, *{str(element.tag) for element in root.iter("*")} - _KEPT)
    return tree_to_blocks(root if body is None else body)


def _unwrap_layout_tables(root: etree._Element) -> None:
    for table in cast("list[etree._Element]", _LAYOUT_TABLES(root)):
        table.tag = "div"
    for element in root.iter("tr", "td", "th"):
        if next(element.iterancestors("table"), None) is None:
            element.tag = "div"
