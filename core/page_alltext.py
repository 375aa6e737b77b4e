"""All text of a page in one quick pass: spec 004 as written.

lexbor parses and takes out what is no text; of the markup that is left, tags of blocks become boundaries and all others
nothing. That is cheaper than marking blocks before parsing, and than walking the tree.
"""

from __future__ import annotations

import re
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
_MOST_OPEN = 2
"""lexbor writes a `>` for each `<`; far more of these is no page."""
_MARK = "\f"
# lexbor writes attributes in double quotes and nothing else in them but `"` and `&` escaped.
_ATTRIBUTES = r'[^>"]*(?:"[^"]*"[^>"]*)*>'
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BOUNDARY = re.compile(
    r"<br><br>|</?(?:p|div|li|ul|ol|h[1-6]|d[ldt]|t[dhr]|table|section|article|main|header|footer|nav|aside|form|pre"
    r"|blockquote|fig(?:ure|caption)|caption|fieldset|address|details|summary|hr|option|button|body|center)(?=[ >])"
    + _ATTRIBUTES
)
_BREAK = re.compile(r"<br>")
_OTHER_TAG = re.compile(r"</?[a-z]" + _ATTRIBUTES)
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
    html = page_flatten.bounded(html)
    if page_flatten.is_suspect(html):
        html = page_flatten.flattened(html, is_strict=True)
    return LexborHTMLParser(html)


def _lines(tree: LexborHTMLParser) -> list[str]:
    root = tree.body or tree.root
    markup = (root.html or "") if root is not None else ""
    if markup.count("<") > _MOST_OPEN * (markup.count(">") + 1):
        # `<p<p<p…`: tag names full of `<`. The patterns below would look for the end of each up to the page's end.
        return [line(root.text())] if root is not None else []
    if "<!--" in markup:
        markup = _COMMENT.sub("", markup)
    text = _OTHER_TAG.sub("", _BREAK.sub(" ", _BOUNDARY.sub(_MARK, markup)))
    pieces = visible(_unescaped(text)).split(_MARK)
    return [" ".join(words) for words in map(str.split, pieces) if words]


def _unescaped(text: str) -> str:
    """lexbor writes four characters as references, and only those."""
    if "&" not in text:
        return text
    text = text.replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">")
    return text.replace("&amp;", "&")
