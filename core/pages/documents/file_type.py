"""Tell the kind of a file: by its first bytes, which lie least, then the content type, then the name.

A server that says `text/plain` or nothing leaves the name to decide; one that says `text/html` of a `readme.md` sent a
page about it. What cannot be read is refused with a sentence.
"""

from __future__ import annotations

from enum import StrEnum

from core.pages.content_type import is_binary, is_html

_SNIFF_BYTES = 1024


class FileKind(StrEnum):
    """The kinds of files that can be read."""

    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"
    MARKDOWN = "markdown"
    CSV = "csv"
    TSV = "tsv"
    TEXT = "text"


ENDINGS = {
    **dict.fromkeys(("html", "htm", "xhtml", "xht"), FileKind.HTML),
    "pdf": FileKind.PDF,
    **dict.fromkeys(("docx", "docm", "dotx"), FileKind.DOCX),
    **dict.fromkeys(("md", "markdown", "mkd", "mdown", "mdx"), FileKind.MARKDOWN),
    "csv": FileKind.CSV,
    **dict.fromkeys(("tsv", "tab"), FileKind.TSV),
    **dict.fromkeys(("txt", "text", "log", "rst", "adoc", "asciidoc", "org"), FileKind.TEXT),
}
_TYPES = {
    **dict.fromkeys(("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"), FileKind.HTML),
    **dict.fromkeys(("application/pdf", "application/x-pdf"), FileKind.PDF),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": FileKind.DOCX,
    "application/vnd.ms-word.document.macroenabled.12": FileKind.DOCX,
    **dict.fromkeys(("text/markdown", "text/x-markdown"), FileKind.MARKDOWN),
    **dict.fromkeys(("text/csv", "application/csv"), FileKind.CSV),
    "text/tab-separated-values": FileKind.TSV,
    # On Windows, the registry names every CSV file so.
    "application/vnd.ms-excel": FileKind.CSV,
}
CODE_TYPE = "text/x-source-code"
"""What sources of ours say of program text and data, of whatever ending; no server says so."""
_TYPES[CODE_TYPE] = FileKind.TEXT
MEDIA_TYPES = {
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    **dict.fromkeys(("html", "htm"), "text/html"),
    "txt": "text/plain",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
"""What sources of ours say of a file, by the ending of its name; some know more."""
# What servers say of text they do not know, and of anything.
_VAGUE_TYPES = {"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/unknown", "*/*"}
_ZIP, _PDF, _OLE = b"PK\x03\x04", b"%PDF-", b"\xd0\xcf\x11\xe0"
_WORD_PART = b"word/document"


def file_kind(body: bytes, name: str, content_type: str = "") -> FileKind | None:
    """Return how to read this body; None if it cannot be read."""
    stated, ending = _stated(content_type), _ending(name)
    # `text/x-rst` and the like say less than the ending.
    is_vague = stated in _VAGUE_TYPES or stated.startswith("text/")
    named = _TYPES.get(stated) or (ENDINGS.get(ending) if is_vague else None)
    start = body[:_SNIFF_BYTES]
    if start.lstrip().startswith(_PDF) or (named is FileKind.PDF and _PDF in start):
        return FileKind.PDF
    if start.startswith(_ZIP):
        return FileKind.DOCX if named is FileKind.DOCX or _WORD_PART in body else None
    if named in (FileKind.PDF, FileKind.DOCX) or is_binary(body):
        return None
    if named in (None, FileKind.TEXT) and is_html(body):
        return FileKind.HTML
    # Text if its server says so, or if it has no ending, like a README.
    is_text = stated == "text/plain" or (stated in _VAGUE_TYPES and not ending)
    return named or (FileKind.TEXT if is_text else None)


def refusal_sentence(body: bytes, name: str, content_type: str = "") -> str:
    """Return in a sentence why `file_kind` is None."""
    stated, ending = _stated(content_type)[:60], _ending(name)
    named = _TYPES.get(stated) or ENDINGS.get(ending)
    if body.startswith(_OLE) and (named is FileKind.DOCX or ending == "doc"):
        return "This Word file is encrypted, or of the format before 2007; neither is read."
    if named in (FileKind.PDF, FileKind.DOCX):
        return f"This is no {named.upper()} file, although it is called one."
    if named is not None and is_binary(body):
        return "This is binary data, whatever its name says."
    what = f"Files of this kind ({stated or (f'.{ending}' if ending else 'binary')}) are not read"
    return f"{what}; PDF, DOCX, Markdown, text, CSV, TSV and HTML are."


def is_meant_as_text(name: str, content_type: str = "") -> bool:
    """Return whether the ending of the name, or our own type, says how to read it. Other text may be data."""
    return _ending(name) in ENDINGS or _stated(content_type) == CODE_TYPE


def file_stem(name: str) -> str:
    """Return the file's name without folders and without a known ending."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    base, dot, ending = last.rpartition(".")
    return base if dot and base and ending.lower() in ENDINGS else last


def _stated(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _ending(name: str) -> str:
    """Return the ending, without a query if this is the end of an address."""
    ending = ""
    for path in (name, name.partition("?")[0]):
        _, dot, last = path.replace("\\", "/").rpartition("/")[2].lstrip(".").rpartition(".")
        ending = last.lower() if dot else ""
        if ending in ENDINGS:
            return ending
    return ending[:20]
