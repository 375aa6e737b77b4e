"""PDF files: their text by pages, words made whole, and why there is none."""

from __future__ import annotations

import io

import pytest
from pypdf import PdfReader, PdfWriter

from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.pages.documents.pdf_file import MAX_PAGES, read_pdf
from core.pages.extraction_result import EXTRACTOR_VERSION
from tests import files

INFO = "/Title (Water at the wheel) /Author (Ada Miller) /CreationDate (D:20240501120000+02'00')"


def read(body: bytes) -> Document:
    found = read_pdf(body, "mill.pdf")
    assert isinstance(found, Document), found
    return found


def encrypted(user_password: str, algorithm: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(files.pdf(["The mill"]))))
    writer.encrypt(user_password, owner_password="owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pages_and_metadata() -> None:
    """Lines stay lines, a blank line stands between pages, and the file's own words are believed."""
    found = read(files.pdf(["The mill", "stands (still)."], ["# two"], info=INFO))
    assert found.clean_text == "The mill\nstands (still).\n\n# two"
    assert found.markdown == "The mill\nstands (still).\n\n\\# two"
    assert (found.title, found.author, found.published_ts) == ("Water at the wheel", "Ada Miller", 1714557600.0)
    assert (found.extractor_version, found.text_len) == (EXTRACTOR_VERSION, len(found.clean_text))


@pytest.mark.parametrize("title", ["Microsoft Word - draft3.doc", "untitled", "Slide 1", "report.indd", ""])
def test_no_title(title: str) -> None:
    """What a program put there is no title: the file's name is."""
    assert read(files.pdf(["A"], info=f"/Title ({title})")).title == "mill"


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a cut word", ["an exam-", "ple of it"], "an example\nof it"),
        ("a word with a hyphen", ["a well-known, a well-", "known one"], "a well-known, a well-known\none"),
        ("a prefix", ["it is self-", "evident"], "it is self-evident"),
        ("a name", ["Anglo-", "Saxon mills"], "Anglo-Saxon\nmills"),
        ("numbers", ["1990-", "1995"], "1990-\n1995"),
        ("a dash", ["the mill -", "and the river"], "the mill -\nand the river"),
    ],
)
def test_line_ends(name: str, lines: list[str], expected: str) -> None:
    """A word that a line's end cut in two is whole again where that is safe."""
    assert read(files.pdf(lines)).clean_text == expected


def test_a_scan() -> None:
    """A PDF without text says so."""
    assert read_pdf(files.pdf([], []), "scan.pdf") == Failed(
        FailCode.EMPTY, text="2 pages, and no text layer (a scan?)."
    )


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_encrypted(algorithm: str) -> None:
    """A file that only forbids printing is read; one that asks for a password is not."""
    assert read(encrypted("", algorithm)).clean_text == "The mill"
    refused = read_pdf(encrypted("secret", algorithm), "a.pdf")
    assert refused == Failed(FailCode.PARSE, FailDetail.TYPE, "This PDF opens only with a password.")


def test_a_broken_page_costs_itself() -> None:
    """The other pages are kept, and the text says that one is missing."""
    body = files.pdf(["First"], ["Second"]).replace(b"/Length", b"/Filter /Unheard /Length", 1)
    assert read(body).clean_text == "Second\n\n[… Only 1 of 2 pages are kept.]"


def test_too_many_pages() -> None:
    """At most so many pages are read, and the text says so."""
    found = read(files.pdf(*[["x"]] * (MAX_PAGES + 3)))
    assert found.clean_text.count("x") == MAX_PAGES
    assert found.clean_text.endswith("[… Only 2,000 of 2,003 pages are kept.]")


@pytest.mark.parametrize(
    "body",
    [
        files.pdf(["The mill"])[:200],
        files.pdf(["The mill"], kids="2 0 R 4 0 R"),
        b"%PDF-1.4\n" + b"<<" * 5_000,
        b"%PDF-",
    ],
    ids=["truncated", "page tree loop", "nested", "nothing"],
)
def test_broken(body: bytes) -> None:
    """A broken file is refused with a sentence, or what is left of it is read."""
    found = read_pdf(body, "a.pdf")
    assert isinstance(found, Document) or found.text.startswith(("This PDF is broken", "0 pages"))
