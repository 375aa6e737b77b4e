"""All text of a page in one quick pass: spec 004 as written.

lexbor parses, takes out what is no text and dissolves the tags inside sentences; then every piece of text that is left
is a line. All of that happens in C.
"""

from __future__ import annotations

from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser

from core import page_flatten
from core.page_head import TAGS, Element
from core.page_image import Attributes
from core.page_text import line, visible

MIN_CHARS = 250
"""Less than this without the furniture, and the furniture was the page."""
_UNSEEN = ["script", "style", "noscript", "template", "svg", "iframe"]
_CHROME = ["nav", "header", "footer", "aside", "form", "button", "select", "dialog"]
_MOST_BYLINES = 5
_MOST_PARAGRAPHS = 20
_MOST_IMAGES = 40
_MARK = "\f"  # `page_charset` left none in the source
_INSIDE_SENTENCES = (
    "a, b, i, em, strong, span, u, font, small, sup, sub, code, abbr, acronym, time, mark, cite, q, s, del, ins, "
    "label, bdi, bdo, kbd, samp, var, dfn, big, tt, strike, nobr, wbr, img"
)
_BYLINES = '[rel="author"], [itemprop~="author"], [class*="byline"], [class*="author-name"]'
_SELECTORS = {
    "script": 'script[type="application/ld+json"]',
    "link": 'link[rel="canonical"], link[rel="image_src"]',
    "meta": "meta[content]",
}
_WANTED = ", ".join(_SELECTORS.get(tag, tag) for tag in TAGS)


class QuickPage:
    """A page in lexbor's hands. Ask for its text last: that takes the rest out of it."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._tree = _parsed(html)

    def elements(self) -> Iterator[Element]:
        """What `page_head.collect` wants to see."""
        for node in self._tree.css(_WANTED):
            tag = str(node.tag)
            yield Element(tag, node.attributes, node.text() if tag in ("title", "h1", "script") else "")

    def bylines(self) -> tuple[str, ...]:
        """The text of elements that are marked as the author's name."""
        return tuple(line(node.text()) for node in self._tree.css(_BYLINES)[:_MOST_BYLINES])

    def images(self) -> list[Attributes]:
        """The first images, those of an article if there is one."""
        found = self._tree.css("article img, main img") or self._tree.css("img")
        return [node.attributes for node in found[:_MOST_IMAGES]]

    def lines(self) -> list[str]:
        """All text, block by block, white space collapsed; without furniture where something else remains."""
        self._tree.strip_tags(_UNSEEN + _CHROME)
        lines = _lines(self._tree)
        if sum(map(len, lines)) >= MIN_CHARS:
            return lines
        again = _parsed(self._html)
        again.strip_tags(_UNSEEN)
        return _lines(again)

    def paragraphs(self) -> frozenset[str]:
        """Those of the lines that stand in one of the first `<p>`."""
        return frozenset(line(node.text()) for node in self._tree.css("p")[:_MOST_PARAGRAPHS])


def _parsed(html: str) -> LexborHTMLParser:
    # React separates words by comments; left in, each would begin a line.
    html = page_flatten.bounded(html.replace("<!-- -->", ""))
    if page_flatten.is_suspect(html):
        html = page_flatten.flattened(html, is_strict=True)
    return LexborHTMLParser(html)


def _lines(tree: LexborHTMLParser) -> list[str]:
    for node in tree.css(_INSIDE_SENTENCES):
        node.unwrap()
    tree.merge_text_nodes()
    root = tree.body or tree.root
    pieces = visible(root.text(separator=_MARK)).split(_MARK) if root is not None else []
    return [" ".join(words) for words in map(str.split, pieces) if words]
