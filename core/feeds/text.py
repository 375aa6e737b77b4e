"""Text out of elements, and text made fit to store.

No HTML is cleaned here: what an entry holds is passed on as its publisher wrote it.
"""

from __future__ import annotations

import re
from html import escape

from lxml import etree

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_XHTML_DIV = "{http://www.w3.org/1999/xhtml}div"
_NAMESPACE = re.compile(r' xmlns(?::[\w.-]+)?="[^"]*"')
# Windows-1252 punctuation written as C1 control characters, as old blog software did.
_C1 = {code: bytes((code,)).decode("cp1252", "ignore") or chr(code) for code in range(0x80, 0xA0)}


def storable(text: str) -> str:
    """The text without NUL and lone surrogates, which neither UTF-8 nor Redis readers take."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub("", text)


def plain(element: etree._Element) -> str:
    """The element's text, tags inside it ignored."""
    if len(element):
        return "".join(str(piece) for piece in element.itertext()).strip()
    return (element.text or "").strip()


def line(element: etree._Element) -> str:
    """A title or a name: markup kept as text, stray C1 controls read as the punctuation they stand for."""
    text = markup(element)
    return text if text.isascii() else text.translate(_C1)


def markup(element: etree._Element) -> str:
    """The element's content: its text, or its children as HTML when they are real elements.

    The one `<div>` that Atom demands around XHTML is packaging, and goes.
    """
    if not len(element):
        return (element.text or "").strip()
    only = element[0] if len(element) == 1 and element[0].tag == _XHTML_DIV else None
    if only is not None and not f"{element.text or ''}{only.tail or ''}".strip():
        return _inside(only)
    return _inside(element)


def _inside(element: etree._Element) -> str:
    children = "".join(etree.tostring(child, encoding="unicode") for child in element)
    return _NAMESPACE.sub("", escape(element.text or "", quote=False) + children).strip()
