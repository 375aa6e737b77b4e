"""Data where a text should be: JSON in every disguise, and bytes of anything else."""

from __future__ import annotations

import json
import random
import zlib

import pytest

from core.errors import FailCode, FailDetail
from core.models import Document, Failed
from core.pages.data_detection import is_noise
from core.pages.documents.extract_file import extract_file
from core.pages.extract import extract_page

STORY = "".join(
    f"<p>Paragraph {number} of the story about the river, which rose again in the night and took a bridge.</p>"
    for number in range(12)
)
ITEMS = [{"id": number, "title": f"Item number {number}", "url": f"https://e.org/{number}"} for number in range(150)]
BLOB = json.dumps({"props": {"pageProps": {"items": ITEMS}}})
WITH_TAGS = json.dumps(
    {"html": STORY, "items": [{"id": number, "body": f"<p>para {number}</p>"} for number in range(99)]}
)
RANDOM = random.Random(5).randbytes(200_000)


def page(body: str) -> bytes:
    return f"<!doctype html><html lang=en><head><title>T</title></head><body>{body}</body></html>".encode()


def is_refused(found: Document | Failed) -> bool:
    return isinstance(found, Failed) and (found.code, found.detail) in {
        (FailCode.PARSE, FailDetail.TYPE),
        (FailCode.EMPTY, FailDetail.NONE),
    }


JSON = {
    "object": BLOB,
    "indented": json.dumps(ITEMS, indent=2),
    "list": json.dumps([BLOB[:100]] * 30),
    "numbers": json.dumps(list(range(3_000))),
    "markup in strings": WITH_TAGS,
    "one long string": json.dumps({"text": "The river rose again. " * 300}),
    "cut": WITH_TAGS[:3_000],
    "lines": "\n".join(json.dumps(item) for item in ITEMS),
    "padded": f"{BLOB};",
    "call": f"callback({BLOB});",
    "assignment": f"window.__STATE__ = {BLOB};",
    "guarded": f")]}}',\n{BLOB}",
    "byte order mark": f"\ufeff{BLOB}",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize("content_type", ["text/html", "text/plain", "", "application/json", "application/xhtml+xml"])
@pytest.mark.parametrize("name", JSON)
def test_json_is_no_article(name: str, content_type: str, main_text: bool) -> None:
    """Whatever its server calls it, and whatever its strings hold."""
    found = extract_page(JSON[name].encode(), "https://e.org/a", content_type, main_text=main_text).result

    assert isinstance(found, Failed)
    assert (found.code, found.detail) == (FailCode.PARSE, FailDetail.TYPE)
    assert found.text.endswith(".")


@pytest.mark.parametrize("name", JSON)
def test_json_of_a_site_is_no_document(name: str) -> None:
    """As text/plain, which is what raw files are served as; a file that somebody named a text is one."""
    body = JSON[name].encode()

    assert is_refused(extract_file(body, "data.json", "text/plain", url="https://e.org/data.json").result)
    assert is_refused(extract_file(body, "data", "text/plain", url="https://e.org/data").result)
    assert isinstance(extract_file(body, "notes.txt", "text/plain").result, Document)


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize(
    "tag", ["div", "p", "span", "textarea", "td", "pre", "section", "script type=application/json"]
)
def test_a_page_of_json_alone_is_no_article(tag: str, main_text: bool) -> None:
    """In whatever element it stands."""
    name = tag.partition(" ")[0]

    assert is_refused(
        extract_page(page(f"<{tag}>{BLOB}</{name}>"), "https://e.org/a", "text/html", main_text=main_text).result
    )


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize(
    "place", ["<article>{s}</article><div>{b}</div>", "<div>{b}</div>{s}", "<article>{s}<p>{b}</p></article>"]
)
def test_json_beside_an_article_goes(place: str, main_text: bool) -> None:
    """The article stays, whole."""
    found = extract_page(
        page(place.format(s=STORY, b=BLOB)), "https://e.org/a", "text/html", main_text=main_text
    ).result

    assert isinstance(found, Document)
    assert all(f"Paragraph {number} of" in found.clean_text for number in range(12))
    assert "pageProps" not in found.clean_text


def test_samples_of_code_stay() -> None:
    """A manual shows JSON, in `pre`, between sentences."""
    found = extract_page(
        page(f"<article>{STORY}<pre>{BLOB}</pre>{STORY}</article>"), "https://e.org/a", "text/html"
    ).result

    assert isinstance(found, Document)
    assert "pageProps" in found.clean_text


@pytest.mark.parametrize(
    "text",
    [
        "[1] The first footnote begins this text, and a second one follows it somewhere below. " * 10,
        "{See the appendix} This is a text in braces, as somebody may write one in a note. " * 10,
        "[\n  a list of things\n] and then a story about them, which goes on for a while. " * 10,
        '"He said: yes": so begins the story that was told by the fire that night. ' * 10,
    ],
)
def test_texts_that_begin_with_a_bracket_are_texts(text: str) -> None:
    """The first sign alone says nothing."""
    assert isinstance(extract_page(text.encode(), "https://e.org/a", "text/plain").result, Document)


def test_a_page_after_some_json_is_a_page() -> None:
    """Servers print a note of their own before the page."""
    body = b'{"debug": 1, "took": 0.2}\n' + page(f"<article>{STORY}</article>")

    assert isinstance(extract_page(body, "https://e.org/a", "text/html").result, Document)


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────

NOISE = {
    "random": RANDOM,
    "short random": RANDOM[:600],
    "random after a head": page("<p>Hello</p>") + RANDOM,
    "random inside a page": page(f"<article>{STORY}</article>") * 5 + RANDOM + b"</body></html>",
    "no control characters": bytes(128 + byte % 128 for byte in RANDOM),
    "deflated": zlib.compress(STORY.encode() * 50)[2:],
    "mostly NUL": bytes(5_000) + RANDOM[:500],
}


@pytest.mark.parametrize("main_text", [True, False])
@pytest.mark.parametrize("content_type", ["text/html", "text/html; charset=utf-8", "text/plain", ""])
@pytest.mark.parametrize("name", NOISE)
def test_bytes_are_no_article(name: str, content_type: str, main_text: bool) -> None:
    """Told as a type that is not read, in a sentence."""
    found = extract_page(NOISE[name], "https://e.org/a", content_type, main_text=main_text).result

    assert isinstance(found, Failed)
    assert (found.code, found.detail) == (FailCode.PARSE, FailDetail.TYPE)
    assert found.text.endswith(".")


@pytest.mark.parametrize("name", NOISE)
def test_bytes_are_no_document(name: str) -> None:
    """Nor as a file."""
    assert is_refused(extract_file(NOISE[name], "page.html", "text/html").result)


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("Вода в реке поднялась ночью и унесла старый мост. ", "cp1251"),
        ("Вода в реке поднялась ночью и унесла старый мост. ", "koi8_r"),
        ("川の水は夜のうちに増し、古い橋を流した。", "cp932"),
        ("川の水は夜のうちに増し、古い橋を流した。", "iso-2022-jp"),
        ("川の水は夜のうちに増し、古い橋を流した。", "euc_jp"),
        ("河水夜里又涨了，冲走了旧桥。", "gb18030"),
        ("河水夜裡又漲了，沖走了舊橋。", "big5"),
        ("강물이 밤사이에 불어나 낡은 다리를 휩쓸어 갔다. ", "cp949"),
        ("แม่น้ำเอ่อล้นในยามค่ำคืนและพัดสะพานเก่าไป", "utf-8"),
        ("The river rose again in the night. ", "utf-16"),
        ("川の水は夜のうちに増し、古い橋を流した。", "utf-16"),
        ("Ο ποταμός φούσκωσε τη νύχτα και πήρε τη γέφυρα. ", "cp1253"),
    ],
)
def test_every_encoding_is_a_text(text: str, codec: str) -> None:
    """Scripts without spaces, and encodings that use many bytes."""
    body = f"<html><head><title>T</title><meta charset={codec}></head><body><p>{text * 40}</p></body></html>".encode(
        codec
    )
    found = extract_page(body, "https://e.org/a", f"text/html; charset={codec}").result

    assert isinstance(found, Document)
    assert not is_noise(found.clean_text)


def test_a_few_control_characters_are_forgiven() -> None:
    """Old editors leave some."""
    body = page(f"<article>{STORY}</article>").replace(b"river", b"ri\x0bver\x01", 5)

    assert isinstance(extract_page(body, "https://e.org/a", "text/html").result, Document)
