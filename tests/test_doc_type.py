"""Which reader is for which bytes."""

from __future__ import annotations

import pytest

from core.documents import type as doc_type
from core.documents.type import DocKind
from tests import files

WORD = files.docx(files.paragraph("Words"))
ZIP = b"PK\x03\x04" + b"\x00" * 100


@pytest.mark.parametrize(
    ("name", "body", "file", "content_type", "expected"),
    [
        ("pdf", b"%PDF-1.7\n", "a.pdf", "application/pdf", DocKind.PDF),
        ("pdf under a wrong name", b"%PDF-1.7\n", "a.html", "text/html", DocKind.PDF),
        ("pdf after a preamble", b"junk\n%PDF-1.7\n", "a.pdf", "", DocKind.PDF),
        ("a text about PDF", b"The header %PDF- starts it.", "a.txt", "text/plain", DocKind.TEXT),
        ("no pdf", b"<html>", "a.pdf", "application/pdf", None),
        ("docx", WORD, "a.docx", "", DocKind.DOCX),
        ("docx without a name", WORD, "download", "application/octet-stream", DocKind.DOCX),
        ("another zip", ZIP, "a.zip", "application/zip", None),
        ("a spreadsheet", ZIP, "a.xlsx", "", None),
        ("encrypted docx", b"\xd0\xcf\x11\xe0" + b"\x00" * 99, "a.docx", "", None),
        ("markdown", b"# A", "a.md", "", DocKind.MARKDOWN),
        ("markdown as text", b"# A", "docs/README.MD", "text/plain; charset=utf-8", DocKind.MARKDOWN),
        ("a page about markdown", b"<!doctype html>", "a.md", "text/html", DocKind.HTML),
        ("markdown that begins with HTML", b"<h1>A</h1>", "README.md", "text/plain", DocKind.MARKDOWN),
        ("csv", b"a,b", "a.csv", "text/csv", DocKind.CSV),
        ("csv from Windows", b"a;b", "a.csv", "application/vnd.ms-excel", DocKind.CSV),
        ("an old spreadsheet", b"\xd0\xcf\x11\xe0", "a.xls", "application/vnd.ms-excel", None),
        ("tsv", b"a\tb", "a.tsv", "", DocKind.TSV),
        ("text", b"A", "a.txt", "", DocKind.TEXT),
        ("text of a named kind", b"A", "a.rst", "text/x-rst", DocKind.TEXT),
        ("no ending", b"A", "README", "", DocKind.TEXT),
        ("hidden", b"A", ".gitignore", "", DocKind.TEXT),
        ("source as text", b"x = 1", "a.py", "text/plain", DocKind.TEXT),
        ("source", b"x = 1", "a.py", "", None),
        ("json", b"{}", "a.json", "application/json", None),
        ("html by ending", b"<p>A", "a.htm", "", DocKind.HTML),
        ("html called text", b"<!DOCTYPE html><p>", "a.txt", "text/plain", DocKind.HTML),
        ("an address", b"A", "a.md?raw=1", "", DocKind.MARKDOWN),
        ("image", b"\x89PNG\r\n\x1a\n", "a.txt", "text/plain", None),
        ("UTF-16", "A text".encode("utf-16"), "a.txt", "", DocKind.TEXT),
    ],
)
def test_kind(name: str, body: bytes, file: str, content_type: str, expected: DocKind | None) -> None:
    """First bytes, then the type, then the ending."""
    assert doc_type.kind(body, file, content_type) is expected


@pytest.mark.parametrize(
    ("body", "file", "content_type", "words"),
    [
        (ZIP, "a.xlsx", "", "(.xlsx) are not read; PDF, DOCX"),
        (b"{}", "a", "application/json", "(application/json)"),
        (b"\xd0\xcf\x11\xe0", "a.docx", "", "encrypted, or of the format before 2007"),
        (b"<html>", "a.pdf", "", "no PDF file"),
        (b"\x7fELF", "tool", "", "(binary)"),
    ],
)
def test_refusal(body: bytes, file: str, content_type: str, words: str) -> None:
    """A person learns what it is, and what would be read."""
    assert words in doc_type.refusal(body, file, content_type)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b/report.pdf", "report"),
        ("c:\\docs\\v1.2 notes.docx", "v1.2 notes"),
        ("README", "README"),
        ("v1.2", "v1.2"),
        (".md", ".md"),
        ("", ""),
    ],
)
def test_stem(name: str, expected: str) -> None:
    """A file's name without folders and a known ending."""
    assert doc_type.stem(name) == expected
