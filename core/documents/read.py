"""From any file's bytes to a Document: the door to the `doc_*` files, and to `extract` for pages.

Pure, and meant for a parse child. Readers are libraries of the extra `documents`, imported when first used; without
them the answer says what to install.
"""

from __future__ import annotations

from dataclasses import replace

from core.documents import type as doc_type
from core.documents.type import DocKind
from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.pages import data as page_data
from core.pages import extract
from core.pages.extract import Reading
from core.registry import http_headers

_EXTRA = frozenset(("pypdf", "mammoth", "cobble", "markdown_it", "mdurl"))
"""What the extra brings along."""
_BLANK = b"\xef\xbb\xbf \t\r\n\f\v"
_SHOWN = {DocKind.PDF: "PDF", DocKind.DOCX: "Word", DocKind.MARKDOWN: "Markdown"}


def read(
    body: bytes, name: str, content_type: str = "", *, url: str = "", main_text: bool = True, links: bool = False
) -> Document | Failed:
    """The file as a document, or why it is none."""
    return reading(body, name, content_type, url=url, main_text=main_text, links=links).answer


def reading(
    body: bytes, name: str, content_type: str = "", *, url: str = "", main_text: bool = True, links: bool = False
) -> Reading:
    """The file as a document, or why it is none, and where it leads.

    Args:
        name: file name or path, or the end of an address; its ending counts where the content type says little.
        url: where a page was found; empty for a file, whose relative links then lead nowhere.
        main_text: of a page; other kinds are read whole.
        links: also collect the links of pages and Markdown.
    """
    if not body.strip(_BLANK):
        return Reading(Failed(FailCode.EMPTY, text="The file is empty."))
    kind = doc_type.kind(body, name, content_type)
    if kind is None:
        return Reading(Failed(FailCode.PARSE, FailDetail.TYPE, doc_type.refusal(body, name, content_type)))
    if kind is DocKind.TEXT and not doc_type.is_named(name) and page_data.is_json(body):
        return Reading(Failed(FailCode.PARSE, FailDetail.TYPE, extract.IS_DATA))
    if kind is DocKind.HTML:
        return _page(body, name, content_type, url, main_text, links)
    try:
        answer = _read(kind, body, name, content_type, links)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        return Reading(Failed(FailCode.PARSE, FailDetail.TYPE, _what_to_install(kind)))
    if isinstance(answer, Document) and not answer.text_len:
        return Reading(Failed(FailCode.EMPTY, text="There is no text in it."), answer.links)
    return Reading(answer, answer.links if isinstance(answer, Document) else ())


def _page(body: bytes, name: str, content_type: str, url: str, main_text: bool, links: bool) -> Reading:
    # A path is no address: its folders say nothing about walls and sites.
    address = url if url.startswith(("http://", "https://")) else ""
    stated = http_headers.charset(content_type)
    kind = f"text/html; charset={stated}" if stated else "text/html"
    found = extract.reading(body, address, kind, main_text=main_text, links=links, is_article=False)
    if isinstance(found.answer, Document) and not found.answer.title:
        return replace(found, answer=replace(found.answer, title=doc_type.stem(name)))
    return found


def _read(kind: DocKind, body: bytes, name: str, content_type: str, links: bool) -> Document | Failed:
    from core.documents import csv as doc_csv
    from core.documents import docx as doc_docx
    from core.documents import markdown as doc_markdown
    from core.documents import pdf as doc_pdf
    from core.documents import text as doc_text

    match kind:
        case DocKind.PDF:
            return doc_pdf.read(body, name)
        case DocKind.DOCX:
            return doc_docx.read(body, name)
        case DocKind.MARKDOWN:
            return doc_markdown.read(body, name, content_type, links=links)
        case DocKind.CSV | DocKind.TSV:
            return doc_csv.read(body, name, content_type, kind)
        case _:
            return doc_text.read(body, name, content_type)


def _what_to_install(kind: DocKind) -> str:
    return (
        f"Reading {_SHOWN.get(kind, kind)} files needs the extra `documents`: "
        "run ./scripts/setup, or pip install 'freshet[documents]'."
    )
