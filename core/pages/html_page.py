"""The ways to read a page: its main text, all its text, plain text, a feed's fragment. One Document each.

Statements about the page are read from the whole of it before anything is cut away (trap T41).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from lxml import etree

from core.models import Document, TextSource
from core.pages import lxml_page
from core.pages.blocks import lines_to_blocks, text_to_blocks, tree_to_blocks
from core.pages.html_blocks import html_to_blocks, without_navigation
from core.pages.image import Attributes, first_image, stated_image
from core.pages.images import collect_images
from core.pages.lexbor_page import LexborPage
from core.pages.main_text import extract_main_text
from core.pages.metadata import PageMetadata, collect_metadata
from core.pages.noscript_article import unwrap_noscript_article
from core.pages.outlinks import collect_outlinks, is_nofollow, is_noindex
from core.pages.page_document import build_document
from core.pages.publish_date import guess_publish_date, stated_publish_date
from core.pages.raw_data import is_stray_data, remove_stray_data
from core.pages.text_cleaning import collapse_whitespace, truncate
from core.pages.title import page_author

MIN_MAIN_CHARS = 80
"""Less main text than this is none."""
MAX_GUESSING_CHARS = 500_000
"""Longer pages must state their date: the search for one in their text is not made for them."""


class HtmlPage(NamedTuple):
    """A page, read."""

    document: Document
    is_noindex: bool = False
    """The page asks not to be kept; the caller decides."""


def main_text_document(html: str, url: str) -> Document:
    """The page with its main text; with all its text where no main text is found."""
    return read_page(html, url).document


def all_text_document(html: str, url: str) -> Document:
    """The page with all its text, by the quick parser alone."""
    return read_page_quickly(html, url).document


def read_page(html: str, url: str, *, links: bool = False) -> HtmlPage:
    """The page with its main text, and with its links where they are wanted."""
    root = lxml_page.parse_html(html)
    if root is None:
        return read_page_quickly(html, url, links=links)
    head = collect_metadata(lxml_page.elements(root), url)
    if not page_author(head):
        head = replace(head, bylines=lxml_page.bylines(root))
    image = stated_image(head) or first_image(lxml_page.images(root), head)
    images = collect_images(head, lxml_page.pictures(root))
    targets = _targets(lxml_page.anchors(root), head) if links else ()
    published_ts = stated_publish_date(head)
    if published_ts is None and len(html) <= MAX_GUESSING_CHARS:
        published_ts = guess_publish_date(root, url)
    unwrap_noscript_article(root)
    remove_stray_data(root)
    body = extract_main_text(root)
    found = tree_to_blocks(body) if body is not None else []
    source = TextSource.PAGE
    if sum(len(block.text) for block in found) < MIN_MAIN_CHARS:
        found, source = html_to_blocks(without_navigation(root)), TextSource.ALL_TEXT
    return HtmlPage(build_document(head, found, source, image, published_ts, images, targets), is_noindex(head))


def read_page_quickly(html: str, url: str, *, links: bool = False) -> HtmlPage:
    """The page with all its text, and with its links where they are wanted."""
    read = LexborPage(html)
    head = collect_metadata(read.elements(), url)
    if not page_author(head):
        head = replace(head, bylines=read.bylines())
    image = stated_image(head) or first_image(read.images(), head)
    images = collect_images(head, read.pictures())
    targets = _targets(read.anchors(), head) if links else ()
    lines = read.lines()
    if not read.has_samples():
        lines = [words for words in lines if not is_stray_data(words)]
    found = lines_to_blocks(lines, read.paragraphs())
    published_ts = stated_publish_date(head)
    document = build_document(head, found, TextSource.ALL_TEXT, image, published_ts, images, targets)
    return HtmlPage(document, is_noindex(head))


def read_plain_text(text: str, url: str) -> Document:
    """A page without markup; its first line is its title."""
    head = PageMetadata(url=url, base=url)
    first = collapse_whitespace(text.lstrip()[:1000].partition("\n")[0])
    return replace(build_document(head, text_to_blocks(text), TextSource.ALL_TEXT), title=truncate(first, 200))


def read_fragment(root: etree._Element, url: str, title: str) -> Document:
    """A feed's own text. Changes `root`."""
    head = PageMetadata(url=url, base=url, title=collapse_whitespace(title))
    image = first_image(lxml_page.images(root), head)
    images = collect_images(head, lxml_page.pictures(root))
    return build_document(head, html_to_blocks(root), TextSource.FEED, image, images=images)


def _targets(anchors: Iterable[Attributes], head: PageMetadata) -> tuple[str, ...]:
    return () if is_nofollow(head) else collect_outlinks(anchors, head)
