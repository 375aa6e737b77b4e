"""Read a page into a Document: its main text, all its text, plain text, or a feed's own text.

What the page states about itself is read from the whole of it before anything is removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from lxml import etree

from core.models import Document, Image, TextSource
from core.pages.abstract import choose_abstract
from core.pages.boilerplate import remove_boilerplate
from core.pages.data_detection import is_stray_data, remove_stray_data
from core.pages.html_blocks import html_to_blocks, without_navigation
from core.pages.images import collect_images, first_image, stated_image
from core.pages.language_choice import page_language
from core.pages.lexbor_page import LexborPage
from core.pages.lxml_page import LxmlPage, parse_html
from core.pages.main_text import MIN_CHARS, find_main_text
from core.pages.metadata import PageMetadata, collect_metadata, page_author, page_description, page_title
from core.pages.noscript_article import unwrap_noscript_article
from core.pages.outlinks import collect_outlinks
from core.pages.publish_date import guess_publish_date, stated_publish_date, suggested_publish_date
from core.pages.text_blocks import (
    TextBlock,
    blocks_to_markdown,
    blocks_to_text,
    limit_blocks,
    lines_to_blocks,
    text_to_blocks,
)
from core.pages.text_cleaning import collapse_whitespace, content_hash, strip_unstorable, truncate

MAX_GUESSING_CHARS = 500_000
"""Longer pages must state their date: it is not searched for in their text."""


class PageDocument(NamedTuple):
    """A page as a document, and what else it says of itself; the caller decides."""

    document: Document
    is_noindex: bool = False
    is_paid: bool = False


class _Statements(NamedTuple):
    """What is read from a page before its text."""

    metadata: PageMetadata
    title: str
    author: str = ""
    published_ts: float | None = None
    image: str = ""
    images: tuple[Image, ...] = ()
    links: tuple[str, ...] = ()


def read_page(html: str, url: str, *, links: bool = False, has_known_date: bool = False) -> PageDocument:
    """Read the page with its main text; with all its text where no main text is found.

    Args:
        has_known_date: somebody else knows when it was published, so that no date is searched for in its text.
    """
    root = parse_html(html)
    if root is None:
        return read_page_quickly(html, url, links=links)
    stated = _read_statements(LxmlPage(root), url, links)
    guessed_ts = suggested_publish_date(stated.metadata) if stated.published_ts is None else None
    is_undated = stated.published_ts is None and guessed_ts is None and not has_known_date
    # A tenth of the time of all pages together, though only one in three gets here.
    if is_undated and len(html) <= MAX_GUESSING_CHARS:
        guessed_ts = guess_publish_date(root)
    unwrap_noscript_article(root)
    blocks, source = find_main_text(root, stated.title), TextSource.PAGE
    # Without the title and pointers to other stories, which are removed in the end, next to nothing may be left.
    if sum(len(block.text) for block in remove_boilerplate(blocks, stated.title)) < MIN_CHARS:
        blocks, source = all_blocks(html), TextSource.ALL_TEXT
    return _page_document(stated, _build_document(stated, blocks, source, guessed_ts))


def all_blocks(html: str) -> list[TextBlock]:
    """All text of a page without main text, from a new tree: looking for one has changed the first."""
    root = parse_html(html)
    if root is None:
        return []
    unwrap_noscript_article(root)
    remove_stray_data(root)
    return html_to_blocks(without_navigation(root))


def read_page_quickly(html: str, url: str, *, links: bool = False) -> PageDocument:
    """Read the page with all its text, by the quick parser alone."""
    page = LexborPage(html)
    stated = _read_statements(page, url, links)
    lines = page.lines()
    # Hardly any page has data in its text; only then its tree is searched for samples of code.
    if any(map(is_stray_data, lines)) and not page.has_code_samples():
        lines = [line for line in lines if not is_stray_data(line)]
    blocks = lines_to_blocks(lines, page.paragraphs())
    guessed_ts = suggested_publish_date(stated.metadata) if stated.published_ts is None else None
    document = _build_document(stated, blocks, TextSource.ALL_TEXT, guessed_ts)
    return _page_document(stated, document)


def read_plain_text(text: str, url: str) -> Document:
    """Read a page without markup; its first line is its title."""
    first = collapse_whitespace(text.lstrip()[:1000].partition("\n")[0])
    stated = _Statements(PageMetadata(url=url, base=url), title="")
    return replace(_build_document(stated, text_to_blocks(text), TextSource.ALL_TEXT), title=truncate(first, 200))


def read_fragment(root: etree._Element, url: str, title: str) -> Document:
    """Read a feed's own text. Changes `root`."""
    page, metadata = LxmlPage(root), PageMetadata(url=url, base=url, title=collapse_whitespace(title))
    images = collect_images(metadata, "", page.article_images())
    image = first_image(page.images(), metadata)
    stated = _Statements(metadata, page_title(metadata), image=image, images=images)
    return _build_document(stated, html_to_blocks(root), TextSource.FEED)


def _read_statements(page: LxmlPage | LexborPage, url: str, with_links: bool) -> _Statements:
    metadata = collect_metadata(page.elements(), url)
    author = page_author(metadata)
    if not author:
        metadata = replace(metadata, bylines=page.bylines())
        author = page_author(metadata)
    image = stated_image(metadata)
    return _Statements(
        metadata,
        page_title(metadata),
        author,
        stated_publish_date(metadata),
        image or first_image(page.images(), metadata),
        collect_images(metadata, image, page.article_images()),
        collect_outlinks(page.anchors(), metadata) if with_links else (),
    )


def _page_document(stated: _Statements, document: Document) -> PageDocument:
    return PageDocument(document, "noindex" in stated.metadata.robots, stated.metadata.is_paid)


def _build_document(
    stated: _Statements, blocks: list[TextBlock], source: TextSource, guessed_ts: float | None = None
) -> Document:
    """Fill in all but the length of the body and the extractor's version, which the caller knows."""
    metadata, title = stated.metadata, stated.title
    blocks = limit_blocks(remove_boilerplate(blocks, title))
    text = strip_unstorable(blocks_to_text(blocks))
    markdown = blocks_to_markdown(blocks)
    return Document(
        title=title,
        markdown=text if markdown == text else strip_unstorable(markdown),
        clean_text=text,
        abstract=strip_unstorable(choose_abstract(blocks, page_description(metadata), text)),
        image=stated.image,
        author=stated.author,
        published_ts=guessed_ts if stated.published_ts is None else stated.published_ts,
        is_date_guessed=stated.published_ts is None and guessed_ts is not None,
        language=page_language(metadata, text),
        canonical_url=metadata.canonical_url,
        is_amp=metadata.is_amp,
        text_len=len(text),
        content_hash=content_hash(text),
        source=source,
        images=stated.images,
        links=stated.links,
    )
