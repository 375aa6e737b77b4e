"""Decode a page's bytes: by byte order mark, as UTF-8 if valid, by header, meta tag, XML declaration, then by a guess.

Codecs come from the fixed list of `core.feeds.encoding`, never from the page's own words: `hex_codec` or
`unicode_escape` in a meta tag is just an unknown name. What no codec explains becomes U+FFFD. Control characters go
here, in bytes, where it is cheap; those that come back as character references are removed by `strip_unstorable`.
"""

from __future__ import annotations

import re

from core.feeds import encoding

_PRESCAN_BYTES = 4096  # the standard asks for 1024; some pages put their scripts first
_SAMPLE_BYTES = 16_384
_META = re.compile(
    rb"""<meta\s[^>]{0,500}?charset\s*=\s*["']?\s*([A-Za-z0-9._:-]{1,40})""",
    re.IGNORECASE,
)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_ASCII = bytes(range(128))
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\r\f"))
_WHITE = bytes.maketrans(b"\r\f", b"\n ")
_MARKUP = re.compile(rb"<[^>]{0,2000}>|&[a-z]{2,8};", re.IGNORECASE)
# Encodings that undeclared pages were really written in; the guess chooses among them alone.
_LATIN = ("cp1252", "cp1250")
_GUESSES = (
    *(*_LATIN, "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp874", "koi8_r"),
    *("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949"),
)
# Polish and Czech letters of cp1250. As cp1252 they are signs, or letters of languages that never meet in one text.
_EASTERN = bytes((0x9A, 0x9C, 0x9E, 0x9F, 0xA3, 0xAF, 0xB3, 0xB9, 0xBF, 0xE8, 0xEC, 0xF8, 0xF9))
_EASTERN_ENOUGH = 4


def decode_page(body: bytes, content_type: str = "") -> str:
    """Return the page as text, without control characters other than tab and line feed. Never fails."""
    mark = encoding.codec_from_bom(body)
    if mark:
        body = body.decode(mark, "replace").removeprefix("\ufeff").encode("utf-8", "replace")
        return body.translate(_WHITE, _CONTROLS).decode()
    if b"\x1b" in body and "iso-2022-jp" in _declared_codecs(body, content_type):  # seven bits: it would pass for ASCII
        return body.decode("iso-2022-jp", "replace")
    plain = body.translate(_WHITE, _CONTROLS)  # single bytes in every encoding left here
    try:
        return plain.decode()
    except UnicodeDecodeError:
        pass
    codecs, body = _declared_codecs(body, content_type), plain
    # One broken character in a hundred foreign bytes: a cut at the end is forgiven, a wrong label is not.
    foreign = len(body.translate(None, _ASCII))
    for codec in codecs:
        if codec and codec != "utf-8" and (text := body.decode(codec, "replace")).count("\ufffd") * 100 <= foreign:
            return text
    return body.decode(_guess_codec(body), "replace")


def _declared_codecs(body: bytes, content_type: str) -> list[str | None]:
    """The codecs that the header and the page name; UTF-8 that can be read as such does not need them."""
    # A page whose declarations can be read is not UTF-16, whatever they say.
    declared = [match[1] for match in (_META.search(body[:_PRESCAN_BYTES]), _XML.match(body[:300])) if match]
    codecs = [encoding.codec_from_content_type(content_type)]
    return codecs + [encoding.codec_for_label(label.decode()) for label in declared]


def _guess_codec(body: bytes) -> str:
    if body.decode("utf-8", "replace").count("\ufffd") * 10 < len(body.translate(None, _ASCII)):
        return "utf-8"  # good but for a few bytes
    from charset_normalizer import from_bytes

    # A few kilobytes around foreign letters, without markup, so that a guess costs the same for every page.
    text = _MARKUP.sub(b" ", body[: _SAMPLE_BYTES * 16])
    lines = [line for line in text.split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:_SAMPLE_BYTES] or text[:_SAMPLE_BYTES]
    best = from_bytes(sample, cp_isolation=list(_GUESSES), steps=5, chunk_size=512).best()
    if best is not None and best.encoding in _GUESSES and best.encoding not in _LATIN:
        return best.encoding
    # Between its two Latin code pages the detector tosses a coin.
    return "cp1250" if sum(letter in sample for letter in _EASTERN) >= _EASTERN_ENOUGH else "cp1252"
