"""The ways to read a page: its main text, all its text, plain text, a feed's fragment. One Document each.

Statements about the page are read from the whole of it before anything is cut away (trap T41).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from lxml import etree

from core.models import Document, TextSource
from core.pages import alltext as page_alltext
from core.pages import blocks as page_blocks
from core.pages import data as page_data
from core.pages import fragment as page_fragment
from core.pages import head as page_head
from core.pages import image as page_image
from core.pages import images as page_images
from core.pages import links as page_links
from core.pages import main as page_main
from core.pages import noscript as page_noscript
from core.pages import published as page_published
from core.pages import title as page_title
from core.pages import tree as page_tree
from core.pages.document import assemble
from core.pages.head import Head
from core.pages.image import Attributes
from core.pages.text import cut, line

MIN_MAIN_CHARS = 80
"""Less main text than this is none."""
MAX_GUESSING_CHARS = 500_000
"""Longer pages must state their date: the search for one in their text is not made for them."""


class Page(NamedTuple):
    """A page, read."""

    document: Document
    is_noindex: bool = False
    """The page asks not to be kept; the caller decides."""


def main_text(html: str, url: str) -> Document:
    """The page with its main text; with all its text where no main text is found."""
    return page(html, url).document


def all_text(html: str, url: str) -> Document:
    """The page with all its text, by the quick parser alone."""
    return quick_page(html, url).document


def page(html: str, url: str, *, links: bool = False) -> Page:
    """The page with its main text, and with its links where they are wanted."""
    root = page_tree.parse(html)
    if root is None:
        return quick_page(html, url, links=links)
    head = page_head.collect(page_tree.elements(root), url)
    if not page_title.author(head):
        head = replace(head, bylines=page_tree.bylines(root))
    image = page_image.stated(head) or page_image.first(page_tree.images(root), head)
    images = page_images.collected(head, page_tree.pictures(root))
    targets = _targets(page_tree.anchors(root), head) if links else ()
    published_ts = page_published.stated(head)
    if published_ts is None and len(html) <= MAX_GUESSING_CHARS:
        published_ts = page_published.guessed(root, url)
    page_noscript.freed(root)
    page_data.blanked(root)
    body = page_main.main_text(root)
    found = page_blocks.blocks(body) if body is not None else []
    source = TextSource.PAGE
    if sum(len(block.text) for block in found) < MIN_MAIN_CHARS:
        found, source = page_fragment.blocks(page_fragment.without_furniture(root)), TextSource.ALL_TEXT
    return Page(assemble(head, found, source, image, published_ts, images, targets), page_links.is_noindex(head))


def quick_page(html: str, url: str, *, links: bool = False) -> Page:
    """The page with all its text, and with its links where they are wanted."""
    read = page_alltext.QuickPage(html)
    head = page_head.collect(read.elements(), url)
    if not page_title.author(head):
        head = replace(head, bylines=read.bylines())
    image = page_image.stated(head) or page_image.first(read.images(), head)
    images = page_images.collected(head, read.pictures())
    targets = _targets(read.anchors(), head) if links else ()
    lines = read.lines()
    if not read.has_samples():
        lines = [words for words in lines if not page_data.is_stray(words)]
    found = page_blocks.lines(lines, read.paragraphs())
    published_ts = page_published.stated(head)
    document = assemble(head, found, TextSource.ALL_TEXT, image, published_ts, images, targets)
    return Page(document, page_links.is_noindex(head))


def plain_text(text: str, url: str) -> Document:
    """A page without markup; its first line is its title."""
    head = Head(url=url, base=url)
    first = line(text.lstrip()[:1000].partition("\n")[0])
    return replace(assemble(head, page_blocks.paragraphs(text), TextSource.ALL_TEXT), title=cut(first, 200))


def fragment(root: etree._Element, url: str, title: str) -> Document:
    """A feed's own text. Changes `root`."""
    head = Head(url=url, base=url, title=line(title))
    image = page_image.first(page_tree.images(root), head)
    images = page_images.collected(head, page_tree.pictures(root))
    return assemble(head, page_fragment.blocks(root), TextSource.FEED, image, images=images)


def _targets(anchors: Iterable[Attributes], head: Head) -> tuple[str, ...]:
    return () if page_links.is_nofollow(head) else page_links.collected(anchors, head)
