"""All text of a page in one quick pass: spec 004 as written.

lexbor parses, takes out what is no text and dissolves the tags inside sentences; then every piece of text that is left
is a line. All of that happens in C.
"""

from __future__ import annotations

from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from core.pages.image import Attributes
from core.pages.images import MAX_SOURCES, ImageElement
from core.pages.metadata import METADATA_TAGS, MetadataElement
from core.pages.noscript_article import drop_unclosed_noscript, is_article_in_noscript, is_long_text
from core.pages.parser_limits import is_too_deep, limit_depth, limit_markup
from core.pages.text_cleaning import collapse_whitespace, strip_invisible

MIN_CHARS = 250
"""Less than this without the furniture, and the furniture was the page."""
_UNSEEN = ["script", "style", "template", "svg", "iframe"]
_CHROME = ["nav", "header", "footer", "aside", "form", "button", "select", "dialog"]
_AROUND = frozenset(("nav", "footer", "aside", "dialog"))
_MOST_BYLINES = 5
_MOST_PARAGRAPHS = 20
_MOST_IMAGES = 40
_MOST_PICTURES = 200
_MOST_REGIONS = 50
_NEAR = 12
"""How far up an image looks for the furniture it may stand in."""
_MARK = "\f"  # `decode_page` left none in the source
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
_WANTED = ", ".join(_SELECTORS.get(tag, tag) for tag in METADATA_TAGS)


class LexborPage:
    """A page in lexbor's hands. Ask for its text last: that takes the rest out of it."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._tree = _parsed(html)

    def elements(self) -> Iterator[MetadataElement]:
        """What `collect_metadata` wants to see."""
        for node in self._tree.css(_WANTED):
            tag = str(node.tag)
            yield MetadataElement(tag, node.attributes, node.text() if tag in ("title", "h1", "script") else "")

    def bylines(self) -> tuple[str, ...]:
        """The text of elements that are marked as the author's name."""
        return tuple(collapse_whitespace(node.text()) for node in self._tree.css(_BYLINES)[:_MOST_BYLINES])

    def images(self) -> list[Attributes]:
        """The first images, those of an article if there is one."""
        found = self._tree.css("article img, main img") or self._tree.css("img")
        return [node.attributes for node in found[:_MOST_IMAGES]]

    def pictures(self) -> Iterator[ImageElement]:
        """The images of the story's region in page order, each with its alternatives."""
        region, aside = self._region()
        if region is None:
            return
        for node in region.css("img")[:_MOST_PICTURES]:
            outer = _outer(node, region)
            if not any(tag in aside for tag, _ in outer):
                picture = next((above for tag, above in outer[:1] if tag == "picture"), None)
                sources = picture.css("source")[:MAX_SOURCES] if picture is not None else ()
                yield ImageElement(node.attributes, tuple(source.attributes for source in sources))

    def anchors(self) -> Iterator[Attributes]:
        """All links of the page, navigation included."""
        return (node.attributes for node in self._tree.css("a[href], area[href]"))

    def _region(self) -> tuple[LexborNode | None, frozenset[str]]:
        """The longest article or the main part, as `lxml_page` has it, and what in it is not the story's."""
        article, article_chars = self._longest("article")
        main, main_chars = self._longest("main")
        if main is not None and 2 * article_chars < main_chars:
            article = main
        return (self._tree.root, _AROUND | {"header"}) if article is None else (article, _AROUND)

    def _longest(self, tag: str) -> tuple[LexborNode | None, int]:
        sized = [(node, len(node.text())) for node in self._tree.css(tag)[:_MOST_REGIONS]]
        return max(sized, key=lambda pair: pair[1], default=(None, 0))

    def lines(self) -> list[str]:
        """All text, block by block, white space collapsed; without furniture where something else remains."""
        self._tree.strip_tags(_UNSEEN + _CHROME)
        inside = [node.text(separator=" ") for node in self._tree.css("noscript")]
        self._tree.strip_tags(["noscript"])
        lines = _lines(self._tree)
        is_hidden = is_article_in_noscript(inside, " ".join(lines))
        if sum(map(len, lines)) >= MIN_CHARS and not is_hidden:
            return lines
        self._tree = again = _parsed(self._html)
        again.strip_tags(_UNSEEN + _CHROME if is_hidden else [*_UNSEEN, "noscript"])
        for node in again.css("noscript"):
            if is_long_text(node.text(separator=" ")):
                node.unwrap()
        again.strip_tags(["noscript"])
        return _lines(again)

    def has_samples(self) -> bool:
        """Does the page show code or data as such?"""
        return self._tree.css_first("pre") is not None

    def paragraphs(self) -> frozenset[str]:
        """Those of the lines that stand in one of the first `<p>`."""
        return frozenset(collapse_whitespace(node.text()) for node in self._tree.css("p")[:_MOST_PARAGRAPHS])


def _outer(node: LexborNode, region: LexborNode) -> list[tuple[str, LexborNode]]:
    """What the node stands in, inside out, up to the region."""
    found: list[tuple[str, LexborNode]] = []
    above = node.parent
    while above is not None and above.mem_id != region.mem_id and len(found) < _NEAR:
        found.append((str(above.tag), above))
        above = above.parent
    return found


def _parsed(html: str) -> LexborHTMLParser:
    # React separates words by comments; left in, each would begin a line.
    html = drop_unclosed_noscript(limit_markup(html.replace("<!-- -->", "")))
    if is_too_deep(html):
        html = limit_depth(html, is_strict=True)
    return LexborHTMLParser(html)


def _lines(tree: LexborHTMLParser) -> list[str]:
    for node in tree.css(_INSIDE_SENTENCES):
        node.unwrap()
    tree.merge_text_nodes()
    root = tree.body or tree.root
    pieces = strip_invisible(root.text(separator=_MARK)).split(_MARK) if root is not None else []
    return [" ".join(words) for words in map(str.split, pieces) if words]
