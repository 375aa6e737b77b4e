"""Turn the bytes of any file into a Document: a page, a PDF, a Word file, Markdown, text, a table.

Pure and CPU-bound: runs in a parse child. Some readers are libraries of the extra `documents`, imported when first
used; without them the result says what to install.
"""

from __future__ import annotations

from dataclasses import replace

from core.errors import FailCode
from core.models import Document, Failed
from core.pages.content_type import is_json
from core.pages.documents.file_type import FileKind, file_kind, file_stem, is_meant_as_text, refusal_sentence
from core.pages.extraction_result import DATA_NOT_TEXT, Extraction, unreadable
from core.registry import http_headers

_OPTIONAL_PACKAGES = frozenset(("pypdf", "mammoth", "cobble", "markdown_it", "mdurl"))
"""The packages of the extra `documents`."""
_BLANK = b"\xef\xbb\xbf \t\r\n\f\v"
_KIND_NAMES = {FileKind.PDF: "PDF", FileKind.DOCX: "Word", FileKind.MARKDOWN: "Markdown"}


def extract_file(
    body: bytes, name: str, content_type: str = "", *, url: str = "", main_text: bool = True, links: bool = False
) -> Extraction:
    """Return the file as a document, or why it is none, and where it leads.

    Args:
        name: file name or path, or the end of an address; its ending counts where the content type says little.
        url: where a page was found; empty for a file, whose relative links then lead nowhere.
        main_text: of a page; other kinds are read whole.
        links: also collect the links of pages and Markdown.
    """
    if not body.strip(_BLANK):
        return Extraction(Failed(FailCode.EMPTY, text="The file is empty."))
    kind = file_kind(body, name, content_type)
    if kind is None:
        return Extraction(unreadable(refusal_sentence(body, name, content_type)))
    if kind is FileKind.TEXT and not is_meant_as_text(name, content_type) and is_json(body):
        return Extraction(DATA_NOT_TEXT)
    if kind is FileKind.HTML:
        return _page(body, name, content_type, url, main_text, links)
    try:
        result = _read(kind, body, name, content_type, links)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _OPTIONAL_PACKAGES:
            raise
        what = f"Reading {_KIND_NAMES.get(kind, kind)} files needs the extra `documents`"
        return Extraction(unreadable(f"{what}: run ./scripts/setup, or pip install 'freshet[documents]'."))
    if isinstance(result, Document) and not result.text_len:
        return Extraction(Failed(FailCode.EMPTY, text="There is no text in it."), result.links)
    return Extraction(result, result.links if isinstance(result, Document) else ())


def _page(body: bytes, name: str, content_type: str, url: str, main_text: bool, links: bool) -> Extraction:
    from core.pages.extract import extract_page

    # A path is no address: its folders say nothing about wall pages and sites.
    address = url if url.startswith(("http://", "https://")) else ""
    stated = http_headers.charset(content_type)
    kind = f"text/html; charset={stated}" if stated else "text/html"
    extraction = extract_page(body, address, kind, main_text=main_text, links=links, is_article=False)
    if isinstance(extraction.result, Document) and not extraction.result.title:
        return replace(extraction, result=replace(extraction.result, title=file_stem(name)))
    return extraction


def _read(kind: FileKind, body: bytes, name: str, content_type: str, links: bool) -> Document | Failed:
    from core.pages.documents.csv_file import read_csv
    from core.pages.documents.file_document import read_text
    from core.pages.documents.markdown_file import read_markdown
    from core.pages.documents.pdf_file import read_pdf
    from core.pages.documents.word_file import read_word

    match kind:
        case FileKind.PDF:
            return read_pdf(body, name)
        case FileKind.DOCX:
            return read_word(body, name)
        case FileKind.MARKDOWN:
            return read_markdown(body, name, content_type, links=links)
        case FileKind.CSV | FileKind.TSV:
            return read_csv(body, name, content_type, kind)
        case _:
            return read_text(body, name, content_type)
