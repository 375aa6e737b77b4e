"""Word files: structure kept, and archives that are no Word file's refused before they are unpacked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.pages.documents.word_file import MAX_BYTES, read_word
from core.pages.extraction_result import EXTRACTOR_VERSION
from tests import files
from tests.files import core_properties, docx, item, paragraph, table

ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


def read(body: bytes) -> Document:
    found = read_word(body, "mill.docx")
    assert isinstance(found, Document), found
    return found


def test_structure() -> None:
    """Headings, lists and tables become Markdown."""
    body = paragraph("Water", "Heading1") + paragraph("The *mill* stands.") + item("wheel") + item("weir")
    found = read(docx(body + table(["year", "flood"], ["1604", "a|b"])))
    assert found.markdown == (
        "# Water\n\nThe *mill* stands.\n\n- wheel\n- weir\n\n| year | flood |\n| --- | --- |\n| 1604 | a\\|b |"
    )
    assert found.clean_text == "Water\n\nThe *mill* stands.\n\nwheel\nweir\n\nyear | flood\n1604 | a|b"
    assert (found.title, found.extractor_version) == ("Water", EXTRACTOR_VERSION)


def test_metadata() -> None:
    """The file's own title, author and date."""
    properties = core_properties("The mill", "Ada Miller", "2024-05-01T10:00:00Z")
    found = read(docx(paragraph("A"), {"docProps/core.xml": properties}))
    assert (found.title, found.author, found.published_ts) == ("The mill", "Ada Miller", 1714557600.0)
    assert read(docx(paragraph("A"), {"docProps/core.xml": "<broken"})).title == "mill"


def bomb() -> bytes:
    return docx(paragraph("A"), {"word/media/a.bin": b"\x00" * (MAX_BYTES + 1)})


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("a bomb", bomb, "unpacks to 100 MB"),
        ("many parts", lambda: docx("", {f"a/{number}": "" for number in range(2_001)}), "2,006 parts"),
        ("an entity", lambda: docx(paragraph("&x;"), declaration=ENTITY), "declares entities"),
        ("a wide entity", lambda: docx("", {"word/a.xml": ENTITY.encode("utf-16")}), "declares entities"),
        ("no archive", lambda: b"PK\x03\x04 and nothing else", "is broken (BadZipFile)"),
        ("cut", lambda: docx(paragraph("A"))[:-100], "is broken"),
        ("no document", lambda: docx("", {"word/document.xml": "<nothing"}), "is broken"),
        ("deep", lambda: docx("<w:p>" * 5_000 + "</w:p>" * 5_000), "is broken (RecursionError)"),
    ],
)
def test_refused(name: str, make: Callable[[], bytes], words: str) -> None:
    """Told in a sentence, never by an exception."""
    found = read_word(make(), "a.docx")
    assert isinstance(found, Failed)
    assert (found.code, found.detail) == (FailCode.PARSE, FailDetail.TYPE)
    assert words in found.text


def test_a_linked_picture_is_not_opened(tmp_path) -> None:
    """A picture may name any file of this machine; none is read."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"canary")
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    drawing = (
        '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/'
        'wordprocessingDrawing"><a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
        '<a:graphicData><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill>'
        f'<a:blip xmlns:r="{office}" r:link="r9"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
        "</w:drawing></w:r></w:p>"
    )
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r9"'
        f' Type="{office}/image" Target="{secret.as_uri()}" TargetMode="External"/></Relationships>'
    )
    found = read(docx(paragraph("A") + drawing, {"word/_rels/document.xml.rels": relations}))
    assert (found.markdown, found.images) == ("A", ())


def test_the_sample_is_a_zip() -> None:
    """The maker of samples makes what `file_type` knows."""
    assert files.docx("").startswith(b"PK\x03\x04")
