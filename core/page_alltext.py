"""All text of a page in one quick pass: spec 004 as written, and the fallback where no main text is found.

lexbor parses; where blocks begin and end is marked in the source before, so that one call in C gives the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from core import page_flatten
from core.page_head import BYLINE, TAGS, Element
from core.page_image import Attributes
from core.page_text import line, visible

_UNSEEN = ["script", "style", "noscript", "template", "svg", "iframe", "head"]
_CHROME = ["nav", "header", "footer", "aside", "form", "button", "select", "dialog"]
_MOST_BYLINES = 5
_MOST_PARAGRAPHS = 20
_MOST_IMAGES = 40
MIN_CHARS = 250
"""Less than this without the furniture, and the furniture was the page."""
# A form feed is white space to HTML, so it moves nothing; `storable` left none in the source.
_MARK = "\f"
# Replaced by a constant: with a group in the replacement, this alone would cost half as much as parsing.
_BOUNDARY = re.compile(
    r"<(?=/?(?:p|div|li|ul|ol|dl|dt|dd|h[1-6]|table|tr|td|th|caption|section|article|main|header|footer|nav|aside|form"
    r"|blockquote|pre|figure|figcaption|fieldset|address|details|summary|hr|option|button|body|title|center)[\s/>])",
    re.IGNORECASE,
)
_TWO_BREAKS = re.compile(r"<br\s*/?>\s*<br", re.IGNORECASE)
_BYLINES = '[rel="author"], [itemprop~="author"], [class*="byline"], [class*="author-name"]'
_WANTED = ", ".join(f'{tag}[type="application/ld+json"]' if tag == "script" else tag for tag in TAGS)


class Page(NamedTuple):
    """A page read by the quick parser."""

    elements: list[Element]
    images: Sequence[Attributes]
    lines: list[str]
    """All text, block by block, white space collapsed."""
    paragraphs: frozenset[str]
    """Those of the lines that stand in one of the first `<p>`."""


def read(html: str) -> Page:
    """All of it in one parse."""
    tree = _parsed(html)
    elements = [Element(str(node.tag), node.attributes, node.text()) for node in tree.css(_WANTED)]
    elements += [Element(BYLINE, {}, node.text()) for node in tree.css(_BYLINES)[:_MOST_BYLINES]]
    images = [node.attributes for node in (tree.css("article img, main img") or tree.css("img"))[:_MOST_IMAGES]]
    tree.strip_tags(_UNSEEN + _CHROME)
    lines = _lines(tree)
    if sum(map(len, lines)) < MIN_CHARS:
        lines = _with_furniture(html)
    return Page(elements, images, lines, frozenset(line(node.text()) for node in tree.css("p")[:_MOST_PARAGRAPHS]))


def _with_furniture(html: str) -> list[str]:
    tree = _parsed(html)
    tree.strip_tags(_UNSEEN)
    return _lines(tree)


def _parsed(html: str) -> LexborHTMLParser:
    html = page_flatten.bounded(html)
    if page_flatten.is_suspect(html):
        html = page_flatten.flattened(html, is_strict=True)
    marked = _TWO_BREAKS.sub(f"{_MARK}<br", _BOUNDARY.sub(f"{_MARK}<", html))
    return LexborHTMLParser(marked.replace("<br", "\n<br").replace("<BR", "\n<BR"))


def _lines(tree: LexborHTMLParser) -> list[str]:
    root = tree.body or tree.root
    pieces = visible(root.text()).split(_MARK) if root is not None else []
    return [" ".join(words) for words in map(str.split, pieces) if words]
