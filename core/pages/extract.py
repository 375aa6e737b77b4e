"""Turn the bytes of a page into a Document, or say why it is none.

Pure and CPU-bound: runs in a parse child, where a hostile page harms nobody. Expected trouble comes back as `Failed`.
"""

from __future__ import annotations

from dataclasses import replace

from core.errors import FailCode, FailDetail
from core.models import Document, Failed, TextSource
from core.pages.charset import decode_page
from core.pages.content_type import PageKind, is_binary, is_json, page_kind
from core.pages.data_detection import is_noise, is_only_data
from core.pages.extraction_result import BINARY_DATA, DATA_NOT_TEXT, EXTRACTOR_VERSION, Extraction, unreadable
from core.pages.html_blocks import parse_fragment
from core.pages.own_text import own_text
from core.pages.page_document import PageDocument, read_fragment, read_page, read_page_quickly, read_plain_text
from core.pages.text_cleaning import strip_unstorable
from core.pages.wall_page import MAX_BANNER_CHARS, describe_wall_page, is_paywall
from core.urls.normalise import split_url

MIN_HTML_CHARS = 200
MIN_TEXT_CHARS = 80
FEED_MUST_BE_LONGER = 1.5
"""A feed's text replaces the page's only if the page clearly shows less of it."""

_BEHIND_A_PAYWALL = Failed(
    FailCode.EMPTY, FailDetail.BLOCKED, "There is a paywall behind the first lines of the article."
)


def extract_page(
    body: bytes,
    url: str,
    content_type: str = "",
    *,
    main_text: bool = True,
    links: bool = False,
    is_article: bool = True,
    has_known_date: bool = False,
) -> Extraction:
    """Return the page as a document, or why it is none, and what else the page says to a crawler.

    Args:
        url: where the redirects ended; relative links start from it.
        main_text: False takes all text of the page, which is an order of magnitude cheaper.
        is_article: articles have a least length; a page of a site may be as short as it likes.
        has_known_date: a feed has said when it was published; a page that does not state it is not searched for it.
    """
    kind = page_kind(body, content_type)
    if kind is PageKind.OTHER:
        return _read_file(body, url, content_type)
    text = decode_page(body, content_type)
    if "\ufffd" in text and text.count("\ufffd") * 10 > len(text):  # characters that no encoding explains
        return Extraction(BINARY_DATA)
    too_short = None
    if is_article and len(text) < MIN_HTML_CHARS:
        too_short = Failed(FailCode.BAD_HTML, text=f"Only {len(text)} characters.")
        if not links:
            return Extraction(too_short)
    if kind is PageKind.TEXT:
        page = PageDocument(read_plain_text(text, url))
    elif main_text and not too_short:
        page = read_page(text, url, links=links, has_known_date=has_known_date)
    else:
        page = read_page_quickly(text, url, links=links)
    document = replace(page.document, raw_len=len(body), extractor_version=EXTRACTOR_VERSION)
    is_short_html = kind is PageKind.HTML and document.text_len <= MAX_BANNER_CHARS
    own = own_text(text) if is_short_html and not too_short else document.clean_text
    refusal = too_short or _refuse_text(document, url, own, MIN_TEXT_CHARS if is_article else 1)
    if is_article and not refusal and is_short_html and (page.is_paid or is_paywall(own)):
        # Beside the few lines that a paywall shows; a whole text may be as short.
        refusal = _BEHIND_A_PAYWALL
    return Extraction(refusal or document, document.links, page.is_noindex)


def document_from_feed_text(html: str, url: str, title: str = "") -> Document | None:
    """Return a feed entry's own text or HTML as a document; None if it says too little."""
    root = parse_fragment(strip_unstorable(html))
    document = read_fragment(root, url, title) if root is not None else None
    if document is None or document.text_len < MIN_TEXT_CHARS:
        return None
    return replace(document, raw_len=len(html.encode("utf-8", "replace")), extractor_version=EXTRACTOR_VERSION)


def best_document(page: Document | Failed, feed: Document | None) -> Document | Failed:
    """Return the page, unless the feed's own text says clearly more or the page could not be read."""
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


def _read_file(body: bytes, url: str, content_type: str) -> Extraction:
    """Read a PDF or Word file that is listed as an article; refuse everything else."""
    from core.pages.documents.extract_file import extract_file
    from core.pages.documents.file_type import FileKind, file_kind

    parts = split_url(url)
    name = parts.path.rpartition("/")[2] if parts else ""
    if file_kind(body, name, content_type) not in (FileKind.PDF, FileKind.DOCX):
        return Extraction(_refuse_type(body, content_type))
    read = extract_file(body, name, content_type)
    if isinstance(read.result, Document) and read.result.text_len < MIN_TEXT_CHARS:
        return Extraction(Failed(FailCode.EMPTY, text=f"Only {read.result.text_len} characters of text."))
    return read


def _refuse_type(body: bytes, content_type: str) -> Failed:
    if is_json(body):
        return DATA_NOT_TEXT
    if is_binary(body):
        return BINARY_DATA
    stated = content_type.partition(";")[0].strip()[:60] or "of no stated type"
    return unreadable(f"This is no page ({stated}).")


def _refuse_text(document: Document, url: str, own: str, min_chars: int) -> Failed | None:
    if is_noise(document.clean_text):
        return BINARY_DATA
    if is_only_data(document.clean_text, MIN_TEXT_CHARS):
        return DATA_NOT_TEXT
    blocker = describe_wall_page(url, document.title, document.clean_text, own)
    if blocker:
        return Failed(FailCode.EMPTY, FailDetail.BLOCKED, f"Instead of the article there is {blocker}.")
    if not document.text_len:
        return Failed(FailCode.EMPTY, text="There is no text in it.")
    if document.text_len < min_chars:
        return Failed(FailCode.EMPTY, text=f"Only {document.text_len} characters of text.")
    return None
