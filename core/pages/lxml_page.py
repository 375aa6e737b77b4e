"""A page as an lxml tree, whatever its depth, and the elements in it that say something about it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import cast

from lxml import etree
from lxml.html import HTMLParser

from core.pages.image import Attributes
from core.pages.images import MAX_SOURCES, ImageElement
from core.pages.metadata import METADATA_TAGS, MetadataElement
from core.pages.noscript_article import drop_unclosed_noscript
from core.pages.parser_limits import limit_depth, limit_markup
from core.pages.text_cleaning import collapse_whitespace

_NAMING = ("title", "h1")
_IN_HEAD = frozenset(("title", "meta", "link", "script", "style", "base", "noscript", "template"))
_MOST_BYLINES = 5
_BYLINES = etree.XPath(
    ".//*[@rel='author' or contains(@itemprop, 'author')"
    " or contains(@class, 'byline') or contains(@class, 'author-name')]"
)
_MOST_REGIONS = 50
_MOST_PICTURES = 2_000
_TEXT_LENGTH = etree.XPath("string-length(.)")
# No picture of the story stands in these. A form is not among them: some sites wrap all of a page in one.
_ASIDE = ("nav", "footer", "aside", "dialog")


def parse_html(html: str) -> etree._Element | None:
    """The root of the page, complete; None if there is not one element in it, or if libxml2 cannot read to its end."""
    html = drop_unclosed_noscript(limit_markup(html))
    root, is_complete = _read(html)
    if not is_complete:
        root, is_complete = _read(limit_depth(html))
    if not is_complete:
        root, is_complete = _read(limit_depth(html, is_strict=True))
    if not is_complete or root is None:
        return None
    _leave_head(root)
    return root


def elements(root: etree._Element) -> Iterator[MetadataElement]:
    """What `collect_metadata` wants to see."""
    for element in root.iter(*METADATA_TAGS):
        if element.tag == "script":
            if element.get("type") == "application/ld+json":
                yield MetadataElement("script", {}, element.text or "")
        else:
            yield MetadataElement(
                str(element.tag), _attributes(element), _text(element) if element.tag in _NAMING else ""
            )


def bylines(root: etree._Element) -> tuple[str, ...]:
    """The text of elements that are marked as the author's name."""
    return tuple(collapse_whitespace(_text(element, " ")) for element in _found(_BYLINES, root)[:_MOST_BYLINES])


def images(root: etree._Element) -> Iterator[Attributes]:
    """All images, those inside an article first."""
    # One by one: the path `(.//article|.//main)//img` takes half a minute for a megabyte of nested articles.
    inside = (image for image in root.iter("img") if next(image.iterancestors("article", "main"), None) is not None)
    yield from map(_attributes, inside)
    yield from map(_attributes, root.iter("img"))


def pictures(root: etree._Element) -> Iterator[ImageElement]:
    """The images of the story's region in page order, each with its alternatives."""
    region = _region(root)
    aside = _ASIDE if region is not root else (*_ASIDE, "header")
    for image in islice(region.iter("img"), _MOST_PICTURES):
        outer = next(image.iterancestors(*aside), None)
        if outer is None or (region is not root and outer in region.iterancestors()):
            yield ImageElement(_attributes(image), _sources(image))


def anchors(root: etree._Element) -> Iterator[Attributes]:
    """All links of the page, navigation included."""
    for element in root.iter("a", "area"):
        if "href" in element.attrib:
            yield {"href": element.get("href"), "rel": element.get("rel")}


def _region(root: etree._Element) -> etree._Element:
    """The longest article, unless the page's main part has twice its text: then its articles are a list of others."""
    article, article_chars = _longest(root, "article")
    main, main_chars = _longest(root, "main")
    if main is not None and 2 * article_chars < main_chars:
        return main
    return article if article is not None else root


def _longest(root: etree._Element, tag: str) -> tuple[etree._Element | None, float]:
    sized = [(element, cast("float", _TEXT_LENGTH(element))) for element in islice(root.iter(tag), _MOST_REGIONS)]
    return max(sized, key=lambda pair: pair[1], default=(None, 0.0))


def _sources(image: etree._Element) -> tuple[Attributes, ...]:
    parent = image.getparent()
    # libxml2 does not know that `<source>` is empty, so the image may stand inside the last of them.
    while parent is not None and parent.tag == "source":
        parent = parent.getparent()
    if parent is None or parent.tag != "picture":
        return ()
    return tuple(map(_attributes, islice(parent.iter("source"), MAX_SOURCES)))


def _attributes(element: etree._Element) -> Attributes:
    return {str(name): str(value) for name, value in element.attrib.items()}


def _text(element: etree._Element, separator: str = "") -> str:
    return separator.join(map(str, element.itertext()))


def _found(path: etree.XPath, root: etree._Element) -> list[etree._Element]:
    return cast("list[etree._Element]", path(root))


def _leave_head(root: etree._Element) -> None:
    """HTML may leave `<body>` out, and libxml2 knows no `<main>` or `<article>` that would begin it: it keeps the whole
    page inside the head."""
    head = root.find("head")
    first = next((child for child in head if child.tag not in _IN_HEAD), None) if head is not None else None
    if first is None:
        return
    body = root.find("body")
    if body is None:
        body = etree.SubElement(root, "body")
    body[:0] = [first, *first.itersiblings()]


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
