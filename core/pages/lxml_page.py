"""Parse a page with lxml, whatever its depth, and find the elements that say something about it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import cast

from lxml import etree

from core.pages.images import MAX_SOURCES, Attributes, ImageElement
from core.pages.metadata import METADATA_TAGS, MetadataElement
from core.pages.noscript_article import drop_misleading_tags
from core.pages.parser_limits import limit_depth, limit_markup
from core.pages.text_cleaning import collapse_whitespace
from core.pages.time_elements import (
    HEAD_BEGINS,
    MAX_CHARS_BEFORE,
    MAX_LINE_CHARS,
    MAX_TIMES,
    SENTENCE_TAGS,
    TimeElement,
    may_be_publication,
)

_NAMING = ("title", "h1")
_STATING_LINKS = frozenset(("canonical", "image_src"))
_IN_HEAD = frozenset(("title", "meta", "link", "script", "style", "base", "noscript", "template"))
_MAX_BYLINES = 5
# By attribute: asking each element for three of them takes three times as long.
_BYLINES = etree.XPath(
    "descendant::*/@rel[.='author']/.. | descendant::*/@itemprop[contains(., 'author')]/.."
    " | descendant::*/@class[contains(., 'byline') or contains(., 'author-name')]/.."
)
_MAX_REGIONS = 50
_MAX_ARTICLE_IMAGES = 2_000
_TEXT_LENGTH = etree.XPath("string-length(.)")
# No image of the article stands in these. A form is not among them: some sites wrap a whole page in one.
_OUTSIDE_ARTICLE = ("nav", "footer", "aside", "dialog")


class LxmlPage:
    """A page parsed by lxml; offers what `LexborPage` offers."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root

    def elements(self) -> Iterator[MetadataElement]:
        """Return the elements that `collect_metadata` reads."""
        for element in self.root.iter(*METADATA_TAGS):
            tag = str(element.tag)
            if tag == "link":
                # Nine in ten are style sheets, icons and feeds.
                if not _STATING_LINKS.isdisjoint((element.get("rel") or "").lower().split()):
                    yield MetadataElement("link", _attributes(element))
            elif tag == "script":
                if element.get("type") == "application/ld+json":
                    yield MetadataElement("script", {}, element.text or "")
            elif tag != "time":
                yield MetadataElement(tag, _attributes(element), _text(element) if tag in _NAMING else "")

        times = (time for time in self._times() if may_be_publication(time))
        yield from (MetadataElement("time", time.attributes) for time in times)

    def _times(self) -> Iterator[TimeElement]:
        if next(self.root.iter("time"), None) is None:  # most pages have none, and are not walked for their paragraphs
            return
        seen = chars = 0
        to_begin = set(HEAD_BEGINS)
        for element in self.root.iter("time", "p", *HEAD_BEGINS):
            if element.tag in HEAD_BEGINS:
                chars = 0 if element.tag in to_begin else chars
                to_begin.discard(str(element.tag))
                continue
            if element.tag == "p":
                chars += text_length(element) if chars <= MAX_CHARS_BEFORE else 0
                continue
            seen += 1
            if seen > MAX_TIMES:
                return
            above = list(element.iterancestors())
            block = next((one for one in above if one.tag in SENTENCE_TAGS), above[0])
            ancestors = [(str(one.tag), one.get("class") or "") for one in above]
            yield TimeElement(_attributes(element), ancestors, _first_words(block), chars <= MAX_CHARS_BEFORE)

    def bylines(self) -> tuple[str, ...]:
        """Return the text of elements that are marked as the author's name."""
        marked = cast("list[etree._Element]", _BYLINES(self.root))
        return tuple(collapse_whitespace(_text(element, " ")) for element in marked[:_MAX_BYLINES])

    def images(self) -> Iterator[Attributes]:
        """Return all images, those inside an article first."""
        # One by one: the path `(.//article|.//main)//img` takes half a minute for a megabyte of nested articles.
        images = self.root.iter("img")
        inside = (image for image in images if next(image.iterancestors("article", "main"), None) is not None)
        yield from map(_attributes, inside)
        yield from map(_attributes, self.root.iter("img"))

    def article_images(self) -> Iterator[ImageElement]:
        """Return the images of the article's region in page order, each with its alternatives."""
        region = self._region()
        is_part = region is not self.root
        outside = _OUTSIDE_ARTICLE if is_part else (*_OUTSIDE_ARTICLE, "header")
        for image in islice(region.iter("img"), _MAX_ARTICLE_IMAGES):
            outer = next(image.iterancestors(*outside), None)
            if outer is None or (is_part and outer in region.iterancestors()):
                yield ImageElement(_attributes(image), _sources(image))

    def anchors(self) -> Iterator[Attributes]:
        """Return all links of the page, navigation included."""
        for element in self.root.iter("a", "area"):
            if "href" in element.attrib:
                yield {"href": element.get("href"), "rel": element.get("rel")}

    def _region(self) -> etree._Element:
        """The longest article, unless `<main>` has twice its text: then the page's articles are a list of others."""
        article, article_chars = self._longest("article")
        main, main_chars = self._longest("main")
        if main is not None and 2 * article_chars < main_chars:
            return main
        return article if article is not None else self.root

    def _longest(self, tag: str) -> tuple[etree._Element | None, int]:
        sized = [(element, text_length(element)) for element in islice(self.root.iter(tag), _MAX_REGIONS)]
        return max(sized, key=lambda pair: pair[1], default=(None, 0))


def parse_html(html: str) -> etree._Element | None:
    """Return the root of the whole page; None if it has no element, or if libxml2 cannot read it to its end."""
    html = drop_misleading_tags(limit_markup(html, html.count("<")))
    root, is_complete = _read(html)
    if not is_complete:
        root, is_complete = _read(limit_depth(html))
    if not is_complete:
        root, is_complete = _read(limit_depth(html, is_strict=True))
    if not is_complete or root is None:
        return None
    _leave_head(root)
    return root


def text_length(element: etree._Element) -> int:
    """Return how much text an element holds, spaces included; counted in C."""
    return int(cast("float", _TEXT_LENGTH(element)))


def _sources(image: etree._Element) -> tuple[Attributes, ...]:
    parent = image.getparent()
    # libxml2 does not know that `<source>` is a void element, so the image may stand inside the last one.
    while parent is not None and parent.tag == "source":
        parent = parent.getparent()
    if parent is None or parent.tag != "picture":
        return ()
    return tuple(map(_attributes, islice(parent.iter("source"), MAX_SOURCES)))


def _attributes(element: etree._Element) -> Attributes:
    return cast("Attributes", dict(element.items()))


def _text(element: etree._Element, separator: str = "") -> str:
    return separator.join(map(str, element.itertext()))


def _first_words(element: etree._Element) -> str:
    text = ""
    for piece in map(str, element.itertext()):
        text += piece
        if len(text) > 4 * MAX_LINE_CHARS:
            break
    return collapse_whitespace(text)


def _leave_head(root: etree._Element) -> None:
    """Move content out of the head: HTML may leave `<body>` out, and libxml2 begins none at `<main>` or `<article>`."""
    head = root.find("head")
    first = next((child for child in head if child.tag not in _IN_HEAD), None) if head is not None else None
    if first is None:
        return
    body = root.find("body")
    if body is None:
        body = etree.SubElement(root, "body")
    body[:0] = [first, *first.itersiblings()]


def _read(html: str) -> tuple[etree._Element | None, bool]:
    """Return the root, and whether libxml2 read to the end: it stops at depth 256 and says so only in its log."""
    parser = _parser()
    try:
        root = etree.fromstring(html.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:  # nothing but comments and white space
        root = None
    last = parser.error_log.last_error
    return root, last is None or last.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT


@lru_cache(maxsize=1)
def _parser() -> etree.HTMLParser:
    """Plain elements: walking a tree of `lxml.html` takes several times as long."""
    return etree.HTMLParser(
        collect_ids=False, encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=False
    )
