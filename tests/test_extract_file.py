"""`extract_file` over all readers: samples of every kind, hostile files, and a missing extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.pages.documents.extract_file import extract_file
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.pages.text_cleaning import content_hash
from core.runtime.parse_pool import ParsePool
from core.runtime.parse_tasks import DocumentRequest, PageResult
from tests import files
from tests.pages import ARTICLE, PARAGRAPH, URL, page

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = Path(__file__).parent / "data" / "documents"


async def read(pool: ParsePool, body: bytes, name: str, content_type: str = "", **options: object) -> PageResult:
    result = await pool.run("document", DocumentRequest(body, name, content_type, **options))
    assert isinstance(result, PageResult), result
    return result


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("body", "name", "title", "words"),
    [
        (files.pdf([PARAGRAPH]), "mill.pdf", "mill", PARAGRAPH),
        (files.docx(files.paragraph("Water", "Heading1") + files.paragraph(PARAGRAPH)), "a.docx", "Water", PARAGRAPH),
        (f"# Water\n\n{PARAGRAPH}".encode(), "a.md", "Water", PARAGRAPH),
        (b"year,flood\n1604,high\n", "floods.csv", "floods", "1604 | high"),
        (b"year\tflood\n1604\thigh\n", "floods.tsv", "floods", "1604 | high"),
        (PARAGRAPH.encode(), "notes/mill.txt", "mill", PARAGRAPH),
        (page(head="<title>Water</title>"), "a.html", "Water", PARAGRAPH),
        (page(), "water.html", "water", PARAGRAPH),
        ((SAMPLES / "mill.pdf").read_bytes(), "mill.pdf", "Water at the wheel", "four hundred years"),
        ((SAMPLES / "mill.docx").read_bytes(), "mill.docx", "Water at the wheel", "four hundred years"),
        ((SAMPLES / "mill.md").read_bytes(), "mill.md", "Water at the wheel", "four hundred years"),
    ],
    ids=["pdf", "docx", "md", "csv", "tsv", "txt", "html", "untitled", "sample pdf", "sample docx", "sample md"],
)
async def test_every_kind(parse_pool: ParsePool, body: bytes, name: str, title: str, words: str) -> None:
    """Each kind gives a document with title, text, hash and version."""
    document = (await read(parse_pool, body, name)).document
    assert isinstance(document, Document)
    assert words in document.clean_text
    assert (document.title, document.raw_len, document.extractor_version) == (title, len(body), EXTRACTOR_VERSION)
    assert (document.content_hash, document.text_len) == (content_hash(document.clean_text), len(document.clean_text))
    assert len(document.clean_text) < 60 or document.language == "en"


@pytest.mark.asyncio(loop_scope="module")
async def test_links_and_noindex(parse_pool: ParsePool) -> None:
    """Pages and Markdown lead on, when asked; a page that does not want to be kept says so."""
    body = page('<a href="/b">b</a>', head='<meta name="robots" content="noindex">')
    asked = await read(parse_pool, body, "a.html", "text/html", url=URL, links=True)
    assert (asked.links, asked.is_noindex) == (("https://mill.example/b",), True)
    assert (await read(parse_pool, body, "a.html", "text/html", url=URL)).links == ()
    markdown = await read(parse_pool, b"[b](https://mill.example/b)", "a.md", links=True)
    assert markdown.links == markdown.document.links == ("https://mill.example/b",)


async def test_a_path_is_no_wall() -> None:
    """A file in a folder called `login` is a file."""
    body = f"<html><body><h1>Water</h1>{ARTICLE}</body></html>".encode()
    assert isinstance(extract_file(body, "/docs/login/a.html", url="file:///docs/login/a.html").result, Document)


@pytest.mark.parametrize(
    ("body", "name", "code", "words"),
    [
        (b"", "a.txt", FailCode.EMPTY, "The file is empty."),
        (b" \n\t", "a.txt", FailCode.EMPTY, "The file is empty."),
        (b"\xef\xbb\xbf\r\n", "a.md", FailCode.EMPTY, "The file is empty."),
        (b"", "page.html", FailCode.EMPTY, "The file is empty."),
        (b"", "README", FailCode.EMPTY, "The file is empty."),
        (b"---\ntitle: x\n---\n", "a.md", FailCode.EMPTY, "no text"),
        (b"\n,,\n", "a.csv", FailCode.EMPTY, "no text"),
        (files.docx(""), "a.docx", FailCode.EMPTY, "no text"),
        (b"", "a.pdf", FailCode.EMPTY, "empty"),
        (files.pdf([]), "a.pdf", FailCode.EMPTY, "scan"),
        (b"\x89PNG\r\n\x1a\n", "a.png", FailCode.PARSE, "not read"),
        (b"<p></p>", "a.html", FailCode.EMPTY, "no text"),
    ],
)
def test_nothing_to_read(body: bytes, name: str, code: FailCode, words: str) -> None:
    """Only what is empty fails for its length, also among pages."""
    failed = extract_file(body, name).result
    assert isinstance(failed, Failed)
    assert failed.code is code
    assert words in failed.text


HOSTILE = {
    "truncated.pdf": lambda: files.pdf([PARAGRAPH])[:300],
    "loop.pdf": lambda: files.pdf([PARAGRAPH], kids="2 0 R 4 0 R"),
    "nested.pdf": lambda: b"%PDF-1.4\n1 0 obj\n" + b"[" * 200_000,
    "entity.docx": lambda: files.docx("&x;", declaration='<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
    "laughs.docx": lambda: files.docx(
        "&b;", declaration='<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
    ),
    "bomb.docx": lambda: files.docx("", {"word/media/x": b"\x00" * 120_000_000}),
    "xml-bomb.docx": lambda: files.docx("<w:p/>" * 3_000_000),
    "line.csv": lambda: b"a,b\x00\n" + b"x" * 10_000_000 + b",2\n",
    "commas.csv": lambda: b"," * 5_000_000,
    "quotes.csv": lambda: b'"' * 3_000_001,
    "lines.csv": lambda: b"a\n" * 3_000_000,
    "quotes.md": lambda: b">" * 100_000 + b"\n\nwords",
    "brackets.md": lambda: b"[" * 100_000,
    "images.md": lambda: b"![" * 100_000,
    "lists.md": lambda: b"- " * 100_000,
    "stars.md": lambda: b"**a " * 50_000,
    "front.md": lambda: b"---\n" + b"a: b\n" * 400_000,
    "html.md": lambda: b"<div>" * 100_000,
    "long.txt": lambda: b"x" * 20_000_000,
    "wide.txt": lambda: b"\xff\xfe" + b"\x00\xd8" * 100_000,
}


SLOW = {"images.md", "xml-bomb.docx"}
"""They need more CPU time than they may; the others are linear."""


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - SLOW))
async def test_hostile(parse_pool: ParsePool, name: str) -> None:
    """Read or refused; the next file is read in any case, and what comes back can be stored."""
    await read_hostile(parse_pool, name)


@pytest.mark.parametrize("name", sorted(SLOW))
async def test_hostile_and_slow(name: str) -> None:
    """The same, or ended at a limit."""
    async with ParsePool(processes=1, cpu_seconds=0.5, memory_bytes=1_000_000_000) as pool:
        await read_hostile(pool, name)


async def read_hostile(parse_pool: ParsePool, name: str) -> None:
    result = await parse_pool.run("document", DocumentRequest(HOSTILE[name](), name, links=True))
    if isinstance(result, Failed):
        assert result.detail in (FailDetail.CPU, FailDetail.MEMORY)
        assert name in SLOW
    elif result.document is not None:
        document = result.document
        assert all("\x00" not in text and text.encode() for text in (document.markdown, document.clean_text))
        assert document.text_len <= 2_000_100
    assert (await read(parse_pool, b"Still here", "a.txt")).document.clean_text == "Still here"


@pytest.mark.parametrize(
    ("module", "name", "shown"),
    [("pypdf", "a.pdf", "PDF"), ("mammoth", "a.docx", "Word"), ("markdown_it", "a.md", "Markdown")],
)
def test_without_the_extra(module: str, name: str, shown: str) -> None:
    """Without its library a file is refused with what to run; text and tables are read all the same."""
    body = {"a.pdf": files.pdf(["A"]), "a.docx": files.docx(files.paragraph("A")), "a.md": b"A"}[name]
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from core.pages.documents.extract_file import extract_file\n"
        f"failed = extract_file({body!r}, {name!r}).result\n"
        "print(failed.code, failed.detail, failed.text)\n"
        "print(extract_file(b'a,b', 'a.csv').result.clean_text, extract_file(b'note', 'a.txt').result.clean_text)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    failure, others = ran.stdout.splitlines()
    assert failure.startswith(f"FAIL_PARSE type Reading {shown} files needs the extra `documents`: run ./scripts/setup")
    assert others == "a | b note"


def test_the_parent_loads_no_reader() -> None:
    """Importing the tasks, or `extract_file` itself, loads no parser of documents."""
    code = (
        "import sys; import core.runtime.parse_tasks, core.pages.documents.extract_file\n"
        "print([name for name in ('pypdf', 'mammoth', 'markdown_it', 'lxml') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
