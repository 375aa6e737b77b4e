"""Which reader is for which bytes."""

from __future__ import annotations

import pytest

from core.pages.documents.file_type import FileKind, file_kind, file_stem, refusal_sentence
from tests import files

WORD = files.docx(files.paragraph("Words"))
ZIP = b"PK\x03\x04" + b"\x00" * 100


@pytest.mark.parametrize(
    ("name", "body", "file", "content_type", "expected"),
    [
        ("pdf", b"%PDF-1.7\n", "a.pdf", "application/pdf", FileKind.PDF),
        ("pdf under a wrong name", b"%PDF-1.7\n", "a.html", "text/html", FileKind.PDF),
        ("pdf after a preamble", b"junk\n%PDF-1.7\n", "a.pdf", "", FileKind.PDF),
        ("a text about PDF", b"The header %PDF- starts it.", "a.txt", "text/plain", FileKind.TEXT),
        ("no pdf", b"<html>", "a.pdf", "application/pdf", None),
        ("docx", WORD, "a.docx", "", FileKind.DOCX),
        ("docx without a name", WORD, "download", "application/octet-stream", FileKind.DOCX),
        ("another zip", ZIP, "a.zip", "application/zip", None),
        ("a spreadsheet", ZIP, "a.xlsx", "", None),
        ("encrypted docx", b"\xd0\xcf\x11\xe0" + b"\x00" * 99, "a.docx", "", None),
        ("markdown", b"# A", "a.md", "", FileKind.MARKDOWN),
        ("markdown as text", b"# A", "docs/README.MD", "text/plain; charset=utf-8", FileKind.MARKDOWN),
        ("a page about markdown", b"<!doctype html>", "a.md", "text/html", FileKind.HTML),
        ("markdown that begins with HTML", b"<h1>A</h1>", "README.md", "text/plain", FileKind.MARKDOWN),
        ("csv", b"a,b", "a.csv", "text/csv", FileKind.CSV),
        ("csv from Windows", b"a;b", "a.csv", "application/vnd.ms-excel", FileKind.CSV),
        ("an old spreadsheet", b"\xd0\xcf\x11\xe0", "a.xls", "application/vnd.ms-excel", None),
        ("tsv", b"a\tb", "a.tsv", "", FileKind.TSV),
        ("text", b"A", "a.txt", "", FileKind.TEXT),
        ("text of a named kind", b"A", "a.rst", "text/x-rst", FileKind.TEXT),
        ("no ending", b"A", "README", "", FileKind.TEXT),
        ("hidden", b"A", ".gitignore", "", FileKind.TEXT),
        ("source as text", b"x = 1", "a.py", "text/plain", FileKind.TEXT),
        ("source", b"x = 1", "a.py", "", None),
        ("json", b"{}", "a.json", "application/json", None),
        ("html by ending", b"<p>A", "a.htm", "", FileKind.HTML),
        ("html called text", b"<!DOCTYPE html><p>", "a.txt", "text/plain", FileKind.HTML),
        ("an address", b"A", "a.md?raw=1", "", FileKind.MARKDOWN),
        ("image", b"\x89PNG\r\n\x1a\n", "a.txt", "text/plain", None),
        ("UTF-16", "A text".encode("utf-16"), "a.txt", "", FileKind.TEXT),
    ],
)
def test_kind(name: str, body: bytes, file: str, content_type: str, expected: FileKind | None) -> None:
    """First bytes, then the type, then the ending."""
    assert file_kind(body, file, content_type) is expected


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
    assert words in refusal_sentence(body, file, content_type)


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
    assert file_stem(name) == expected
