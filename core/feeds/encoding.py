"""Decode bodies whose declaration, header and bytes disagree about their encoding.

UTF-8 is tried before any declared single-byte encoding: bytes above 127 that form valid UTF-8 by accident are rare,
wrong declarations are not. Codecs come from a fixed list, never from the publisher's text.
"""

from __future__ import annotations

import re

_ASCII = bytes(range(128))
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)

# Signatures of XML 1.0 appendix F: a byte order mark, or `<?xm` in an encoding that is not a superset of ASCII.
_SIGNATURES = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\xfe\xff", "utf-16"),
    (b"\xff\xfe", "utf-16"),
    (b"\x00\x00\x00<", "utf-32-be"),
    (b"<\x00\x00\x00", "utf-32-le"),
    (b"\x00<", "utf-16-be"),
    (b"<\x00", "utf-16-le"),
    (b"\x4c\x6f\xa7\x94", "cp037"),
)

# Labels as the WHATWG Encoding Standard reads them: Latin-1 and ASCII mean windows-1252, GB2312 means GB18030.
_CODECS = {
    **dict.fromkeys(("utf-8", "utf8"), "utf-8"),
    **dict.fromkeys(
        ("iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "us-ascii", "ascii"), "windows-1252"
    ),
    **dict.fromkeys(("windows-1252", "cp1252", "x-cp1252", "ansi"), "windows-1252"),
    **dict.fromkeys(("gb2312", "gbk", "gb18030", "x-gbk", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "cp932"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "cp949", "windows-949"), "cp949"),
    **dict.fromkeys(("big5", "big5-hkscs", "cn-big5"), "big5hkscs"),
    **dict.fromkeys(("euc-jp", "x-euc-jp"), "euc-jp"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "windows-1254"),
    **{name: name for name in ("iso-2022-jp", "koi8-r", "koi8-u", "cp866", "tis-620", "windows-874", "mac-roman")},
    **{f"iso-8859-{part}": f"iso-8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-{page}": f"cp{page}" for page in (1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258)},
    **{f"cp{page}": f"cp{page}" for page in (1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258)},
}


def xml_encoding(body: bytes, content_type: str) -> str | None:
    """Return the encoding to give an XML parser; None where it finds the right one by itself."""
    if codec_from_bom(body):
        return None
    declared = _declared(body)
    if declared in ("utf-8", "utf8") or body.isascii():
        return None
    if is_utf_8(body):
        return "utf-8"
    return _CODECS.get(declared or _charset(content_type))


def decode(body: bytes, content_type: str) -> str:
    """Return the body as text; bytes that no candidate can decode become U+FFFD."""
    codec = codec_from_bom(body)
    if codec:
        return body.decode(codec, "replace").removeprefix("\ufeff")
    stated = (_CODECS.get(label) for label in (_charset(content_type), _declared(body)))
    for candidate in ("utf-8", *stated):
        if candidate and _decodes(body, candidate):
            return body.decode(candidate)
    # A few broken bytes may spoil otherwise good UTF-8, as a cut in the middle of a character does.
    text = body.decode("utf-8", "replace")
    is_mostly_utf_8 = text.count("\ufffd") * 10 < len(body.translate(None, _ASCII))
    return text if is_mostly_utf_8 else body.decode("windows-1252", "replace")


def codec_for_label(label: str) -> str | None:
    """Return the codec for an encoding's name; None for unknown names and for codecs that are no encoding at all."""
    return _CODECS.get(label.strip().lower())


def codec_from_content_type(content_type: str) -> str | None:
    """Return the codec that a Content-Type names."""
    return _CODECS.get(_charset(content_type))


def codec_from_bom(body: bytes) -> str:
    """Return the codec that a byte order mark or `<` at the start shows; empty for what starts like ASCII."""
    return next((codec for start, codec in _SIGNATURES if body.startswith(start)), "")


def is_utf_8(body: bytes) -> bool:
    return _decodes(body, "utf-8")


def _decodes(body: bytes, codec: str) -> bool:
    try:
        body.decode(codec)
    except UnicodeError:
        return False
    return True


def _declared(body: bytes) -> str:
    match = _DECLARED.match(body[:300])
    return match[1].decode().lower() if match else ""


def _charset(content_type: str) -> str:
    match = _CHARSET.search(content_type[:300])
    return match[1].lower() if match else ""
