"""From a page's bytes to a Document: the door to the `page_*` files.

Pure, and slow by our measure: meant for a parse child, where hostile pages may burn. Expected trouble comes back as
`Failed`. What needs a parser is imported when first used, because `EXTRACTOR_VERSION` is wanted outside the child too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, TextSource

EXTRACTOR_VERSION = "3"
"""Raise it when the same bytes give another text: stored pages are then read anew (trap T42)."""
MIN_HTML_CHARS = 200
MIN_TEXT_CHARS = 80
IS_BINARY = "This is binary data, whatever its server says."
IS_DATA = "This is data (JSON), not a text."
FEED_MUST_BE_LONGER = 1.5
"""A feed's text replaces the page's only if the page clearly shows less of it."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a visit learns from a body; the links also where there is no document: a page of links leads on."""

    answer: Document | Failed
    links: tuple[str, ...] = ()
    is_noindex: bool = False
    """The page asks robots not to keep it; the caller decides."""


def extract_document(body: bytes, url: str, content_type: str = "", *, main_text: bool = True) -> Document | Failed:
    """The page as a document, or why it is none.

    Args:
        url: where the redirects ended; relative links start from it.
        main_text: False takes all text of the page, which is an order of magnitude cheaper.
    """
    return extract_page(body, url, content_type, main_text=main_text).answer


def extract_page(
    body: bytes,
    url: str,
    content_type: str = "",
    *,
    main_text: bool = True,
    links: bool = False,
    is_article: bool = True,
) -> Extraction:
    """The page as a document, or why it is none, and what else the page says to a crawler.

    Args:
        is_article: articles have a least length (spec 004); a page of a site may be as short as it likes.
    """
    from core.pages.charset import decode_page
    from core.pages.content_type import PageKind, page_kind
    from core.pages.html_page import HtmlPage, read_page, read_page_quickly, read_plain_text
    from core.pages.raw_data import is_undecodable

    kind = page_kind(body, content_type)
    if kind is PageKind.OTHER:
        return Extraction(Failed(FailCode.PARSE, FailDetail.TYPE, _what_else(body, content_type)))
    text = decode_page(body, content_type)
    if is_undecodable(text):
        return Extraction(Failed(FailCode.PARSE, FailDetail.TYPE, IS_BINARY))
    is_short = is_article and len(text) < MIN_HTML_CHARS
    if is_short and not links:
        return Extraction(_too_short(text))
    if kind is PageKind.TEXT:
        page = HtmlPage(read_plain_text(text, url))
    elif main_text and not is_short:
        page = read_page(text, url, links=links)
    else:
        page = read_page_quickly(text, url, links=links)
    document = replace(page.document, raw_len=len(body), extractor_version=EXTRACTOR_VERSION)
    least = MIN_TEXT_CHARS if is_article else 1
    refusal = _too_short(text) if is_short else _refusal(document, url, least)
    return Extraction(refusal or document, document.links, page.is_noindex)


def document_from_feed_text(html: str, url: str, title: str = "") -> Document | None:
    """A feed entry's own text or HTML as a document; None if it says too little."""
    from core.pages.html_blocks import parse_fragment
    from core.pages.html_page import read_fragment
    from core.pages.text_cleaning import strip_unstorable

    root = parse_fragment(strip_unstorable(html))
    document = read_fragment(root, url, title) if root is not None else None
    if document is None or document.text_len < MIN_TEXT_CHARS:
        return None
    return replace(document, raw_len=len(html.encode("utf-8", "replace")), extractor_version=EXTRACTOR_VERSION)


def best_document(page: Document | Failed, feed: Document | None) -> Document | Failed:
    """The page, unless the feed's own text says clearly more; never an empty article when the feed had the text."""
    if feed is None:
        return page
    if isinstance(page, Failed):
        return feed
    if feed.text_len <= FEED_MUST_BE_LONGER * page.text_len:
        return page
    return replace(  # the page still knows best about itself
        page,
        title=page.title or feed.title,
        markdown=feed.markdown,
        clean_text=feed.clean_text,
        abstract=feed.abstract,
        image=page.image or feed.image,
        language=page.language or feed.language,
        text_len=feed.text_len,
        content_hash=feed.content_hash,
        source=TextSource.FEED,
    )


def _what_else(body: bytes, content_type: str) -> str:
    from core.pages.content_type import is_binary
    from core.pages.raw_data import is_json

    if is_json(body):
        return IS_DATA
    if is_binary(body):
        return IS_BINARY
    stated = content_type.partition(";")[0].strip()[:60] or "of no stated type"
    return f"This is no page ({stated})."


def _too_short(text: str) -> Failed:
    return Failed(FailCode.BAD_HTML, text=f"Only {len(text)} characters.")


def _refusal(document: Document, url: str, least: int) -> Failed | None:
    from core.pages.block_page import describe_block_page
    from core.pages.raw_data import is_noise, is_only_data

    if is_noise(document.clean_text):
        return Failed(FailCode.PARSE, FailDetail.TYPE, IS_BINARY)
    if is_only_data(document.clean_text, MIN_TEXT_CHARS):
        return Failed(FailCode.PARSE, FailDetail.TYPE, IS_DATA)
    wall = describe_block_page(url, document.title, document.clean_text)
    if wall:
        return Failed(FailCode.EMPTY, FailDetail.BLOCKED, f"Instead of the article there is {wall}.")
    if not document.text_len:
        return Failed(FailCode.EMPTY, text="There is no text in it.")
    if document.text_len < least:
        return Failed(FailCode.EMPTY, text=f"Only {document.text_len} characters of text.")
    return None
