"""Which characters a page's bytes stand for: by mark, header, meta and declaration, and by their looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.pages.charset import decode_page

RUSSIAN = "Мельница стоит у реки четыреста лет, и река не всегда была к ней добра."
GERMAN = "Die Mühle steht seit vierhundert Jahren am Fluß, und nicht immer schön."
POLISH = "Młyn stoi nad rzeką od czterystu lat, a rzeka nie zawsze była łaskawa. Później koło się zużyło, źle."
JAPANESE = "水車小屋は四百年間川のほとりに立っている。川はいつも優しかったわけではない。"


@pytest.mark.parametrize(
    ("name", "body", "content_type", "expected"),
    [
        ("UTF-8 without a word", GERMAN.encode(), "", GERMAN),
        ("a mark beats the header", GERMAN.encode("utf-8-sig"), "text/html; charset=windows-1251", GERMAN),
        ("UTF-16 with a mark", GERMAN.encode("utf-16"), "", GERMAN),
        ("UTF-8 beats a wrong header", GERMAN.encode(), "text/html; charset=iso-8859-1", GERMAN),
        ("header", RUSSIAN.encode("koi8-r"), "text/html; charset=KOI8-R", RUSSIAN),
        ("quoted header", RUSSIAN.encode("cp1251"), 'text/html; charset="windows-1251"', RUSSIAN),
        ("meta", f'<meta charset="windows-1251">{RUSSIAN}'.encode("cp1251"), "", RUSSIAN),
        (
            "http-equiv",
            f'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">{RUSSIAN}'.encode("cp1251"),
            "text/html",
            RUSSIAN,
        ),
        ("XML", f'<?xml version="1.0" encoding="Shift_JIS"?>{JAPANESE}'.encode("cp932"), "", JAPANESE),
        ("seven bits", JAPANESE.encode("iso-2022-jp"), "text/html; charset=iso-2022-jp", JAPANESE),
        ("Latin-1 means windows-1252", "“Mühle”".encode("cp1252"), "text/html; charset=latin1", "“Mühle”"),
        (
            "a false header, a true meta",
            f"<meta charset=cp1251>{RUSSIAN}".encode("cp1251"),
            "x; charset=utf-8",
            RUSSIAN,
        ),
        ("one broken byte in UTF-8", GERMAN.encode() * 9 + b"\xff", "", GERMAN),
        ("guess: Russian", RUSSIAN.encode("cp1251") * 3, "", RUSSIAN),
        ("guess: German", GERMAN.encode("cp1252") * 3, "", GERMAN),
        ("guess: Polish", POLISH.encode("cp1250") * 3, "", POLISH),
        ("guess: Japanese", JAPANESE.encode("euc-jp") * 3, "", JAPANESE),
    ],
)
def test_decodes(name: str, body: bytes, content_type: str, expected: str) -> None:
    """Each way to state an encoding works, and wrong statements are seen through."""
    assert expected in decode_page(body, content_type)


@pytest.mark.parametrize(
    "label", ["hex_codec", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "base64", "zip", "mbcs", "../x"]
)
def test_foreign_codecs_are_not_looked_up(label: str) -> None:
    """A label that is no encoding of the web is ignored, in the header and in a meta tag."""
    body = f'<meta charset="{label}">Die Mühle \\x41 3c62'.encode()
    assert decode_page(body, f"text/html; charset={label}") == body.decode()


def test_controls_go() -> None:
    """NUL and other controls never reach a parser; lines stay lines."""
    assert decode_page(b"a\x00b\x08c\r\nd\x0ce\x7f\tf") == "abc\n\nd e\tf"
    assert decode_page("a\x00b".encode("utf-16")) == "ab"


@given(st.binary(max_size=400), st.text(max_size=40))
def test_never_raises(body: bytes, content_type: str) -> None:
    """Any bytes give text that can be encoded again."""
    text = decode_page(body, f"text/html; charset={content_type}")

    assert text.encode().decode() == text
