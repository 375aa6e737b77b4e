"""Read Word files: mammoth turns DOCX into HTML, `html_to_blocks` HTML into blocks; headings, lists and tables survive.

A DOCX is a ZIP of XML. Before it is read it is checked how large it unpacks, how it is compressed, and whether its XML
declares entities, which Word never does. Images and linked files are never opened.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any

from lxml import etree

from core.feeds.dates import parse_date
from core.models import Document, Failed
from core.pages.documents.file_document import FileProperties, build_file_document
from core.pages.extraction_result import unreadable
from core.pages.html_blocks import html_to_blocks, parse_fragment
from core.pages.text_cleaning import strip_unstorable

MAX_BYTES = 100_000_000
"""Unpacked, all members together."""
MAX_MEMBERS = 2_000
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='Quote'] => blockquote:fresh > p:fresh
p[style-name='Intense Quote'] => blockquote:fresh > p:fresh
br[type='page'] => hr
"""
_CORE = "docProps/core.xml"
_DC, _TERMS = "{http://purl.org/dc/elements/1.1/}", "{http://purl.org/dc/terms/}"
_BACK_LINK = "↑"  # from a footnote to where it belongs


def read_word(body: bytes, name: str) -> Document | Failed:
    """Return the file's text as a document, or why there is none."""
    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            refusal = _refusal(archive)
            if refusal:
                return unreadable(refusal)
            properties = _properties(archive)
        html: Any = mammoth.convert_to_html(
            io.BytesIO(body),
            style_map=_STYLES,
            include_embedded_style_map=False,
            external_file_access=False,
            convert_image=lambda _: [],
        ).value
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - on broken files it raises anything
        return unreadable(f"This Word file is broken ({type(error).__name__}).")
    root = parse_fragment(strip_unstorable(str(html)))
    blocks = html_to_blocks(_plain_cells(root)) if root is not None else []
    return build_file_document(blocks, name, len(body), properties)


def _refusal(archive: zipfile.ZipFile) -> str:
    """Return why this archive is not opened; empty if it may be."""
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        return f"This Word file has {len(members):,} parts; at most {MAX_MEMBERS:,} are opened."
    size = sum(member.file_size for member in members)
    if size > MAX_BYTES:
        return f"This Word file unpacks to {size // 1_000_000:,} MB; at most {MAX_BYTES // 1_000_000} MB are."
    if any(member.compress_type not in _COMPRESSIONS or member.flag_bits & _ENCRYPTED for member in members):
        return "This Word file is packed as Word never packs."
    xml = (member for member in members if member.filename.lower().endswith((".xml", ".rels")))
    # Without NUL, as in any encoding that an XML parser would read.
    if any(b"<!DOCTYPE" in archive.read(member).replace(b"\x00", b"") for member in xml):
        return "This Word file declares entities in its XML, as Word never does; it is not opened."
    return ""


def _properties(archive: zipfile.ZipFile) -> FileProperties:
    if _CORE not in archive.namelist():
        return FileProperties()
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(archive.read(_CORE), parser)
    except etree.XMLSyntaxError:
        return FileProperties()
    title, description, author = (root.findtext(f"{_DC}{tag}") or "" for tag in ("title", "description", "creator"))
    created = root.findtext(f"{_TERMS}created") or ""
    return FileProperties(title, description, author, parse_date(created) if created else None)


def _plain_cells(root: etree._Element) -> etree._Element:
    """Unwrap the paragraphs that mammoth puts into cells: to `html_to_blocks` they are the mark of a layout table."""
    for paragraph in [p for cell in root.iter("td", "th") for p in cell.iter("p")]:
        paragraph.tail = f" {paragraph.tail or ''}"
        paragraph.tag = "span"
    for link in root.iter("a"):
        if link.text == _BACK_LINK and (link.get("href") or "").startswith("#"):
            link.text = None
    return root
