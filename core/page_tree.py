"""A page as an lxml tree, whatever its depth, and the elements in it that say something about it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from lxml import etree
from lxml.html import HTMLParser

from core import page_flatten
from core.page_head import TAGS, Element
from core.page_image import Attributes
from core.page_text import line

_NAMING = ("title", "h1")
_MOST_BYLINES = 5
_BYLINES = etree.XPath(
    ".//*[@rel='author' or contains(@itemprop, 'author')"
    " or contains(@class, 'byline') or contains(@class, 'author-name')]"
)
_ARTICLE_IMAGES = etree.XPath("(.//article|.//main)//img")


def parse(html: str) -> etree._Element | None:
    """The root of the page, complete; None if there is not one element in it, or if libxml2 cannot read to its end."""
    html = page_flatten.bounded(html)
    root, is_complete = _read(html)
    if not is_complete:
        root, is_complete = _read(page_flatten.flattened(html))
    if not is_complete:
        root, is_complete = _read(page_flatten.flattened(html, is_strict=True))
    return root if is_complete else None


def elements(root: etree._Element) -> Iterator[Element]:
    """What `page_head.collect` wants to see."""
    for element in root.iter(*TAGS):
        if element.tag == "script":
            if element.get("type") == "application/ld+json":
                yield Element("script", {}, element.text or "")
        else:
            yield Element(str(element.tag), _attributes(element), _text(element) if element.tag in _NAMING else "")


def bylines(root: etree._Element) -> tuple[str, ...]:
    """The text of elements that are marked as the author's name."""
    return tuple(line(_text(element, " ")) for element in _found(_BYLINES, root)[:_MOST_BYLINES])


def images(root: etree._Element) -> Iterator[Attributes]:
    """All images, those inside an article first."""
    yield from map(_attributes, _found(_ARTICLE_IMAGES, root))
    yield from map(_attributes, root.iter("img"))


def _attributes(element: etree._Element) -> Attributes:
    return {str(name): str(value) for name, value in element.attrib.items()}


def _text(element: etree._Element, separator: str = "") -> str:
    return separator.join(map(str, element.itertext()))


def _found(path: etree.XPath, root: etree._Element) -> list[etree._Element]:
    return cast("list[etree._Element]", path(root))


def _read(html: str) -> tuple[etree._Element | None, bool]:
    """The root, and whether libxml2 read to the end: it stops at depth 256, and tells its log alone."""
    parser = _parser()
    try:
        root = etree.fromstring(html.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:  # nothing but comments and white space
        root = None
    last = parser.error_log.last_error
    return root, last is None or last.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT


@lru_cache(maxsize=1)
def _parser() -> HTMLParser:
    """As trafilatura makes its own, so that it takes our tree instead of parsing again."""
    return HTMLParser(
        collect_ids=False,
        default_doctype=False,  # type: ignore[call-arg] # not in the stubs
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
        no_network=True,
        huge_tree=False,
    )
