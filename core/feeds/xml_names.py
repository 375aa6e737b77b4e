"""XML elements of feeds: one short name per element, its attributes, its text, and the base of its links.

`{http://purl.org/dc/elements/1.1/}Date`, `DC:date` without a declaration and `dc:date` all become `dc:date`;
everything of RSS, Atom and sitemaps loses its namespace. Unknown namespaces keep the prefix they were given.
No HTML is cleaned here: the content of an entry is passed on as its publisher wrote it.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import urljoin

from lxml import etree

# ── names and attributes ──

# Compared in lower case and without a trailing `/` or `#`: publishers forget and add both.
_PREFIXES = {
    "http://www.google.com/schemas/sitemap-news/0.9": "news",
    "http://purl.org/rss/1.0/modules/content": "content",
    "http://purl.org/dc/elements/1.1": "dc",
    "http://purl.org/dc/elements/1.0": "dc",
    "http://purl.org/dc/terms": "dcterms",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes",
    "http://search.yahoo.com/mrss": "media",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns": "rdf",
    "http://purl.org/rss/1.0/modules/syndication": "sy",
    "http://www.w3.org/1999/xhtml": "xhtml",
}
# RSS, Atom in its drafts and finished, and sitemaps: their elements have no prefix.
_PLAIN_NAMESPACES = """
    http://backend.userland.com/rss http://blogs.law.harvard.edu/tech/rss http://purl.org/rss/1.0
    http://purl.org/rss/1.0/modules/rss091 http://my.netscape.com/rdf/simple/0.9
    http://channel.netscape.com/rdf/simple/0.9 http://example.com/newformat http://example.com/necho
    http://purl.org/echo uri/of/echo/namespace http://purl.org/pie http://purl.org/atom/ns
    http://www.w3.org/2005/atom http://www.sitemaps.org/schemas/sitemap/0.9
    http://www.google.com/schemas/sitemap/0.84
"""
_PREFIXES |= dict.fromkeys(_PLAIN_NAMESPACES.split(), "")
# Prefixes that mean RSS or Atom even when the namespace behind them is misspelt.
_PLAIN_PREFIXES = frozenset(("atom", "atom10", "a10", "rss", "sitemap"))


class ElementNames:
    """Short names of the elements of one document, worked out once per distinct tag."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, element: etree._Element) -> str:
        tag = element.tag
        name = self._known.get(tag)
        if name is None:
            name = self._known[tag] = _short_name(tag, element.prefix or "")
        return name

    def children(self, element: etree._Element | None) -> dict[str, etree._Element]:
        """Return the child elements by name, the last of each; nothing for a missing element."""
        return {self(child): child for child in element.iterchildren("*")} if element is not None else {}


def _short_name(tag: str, prefix: str) -> str:
    if tag.startswith("{"):
        uri, local = tag[1:].split("}", 1)
        uri = uri.lower().rstrip("/#")
        prefix = "" if "backend.userland.com/rss" in uri else _PREFIXES.get(uri, prefix)
    else:
        # An undeclared prefix stays part of the tag.
        prefix, _, local = tag.rpartition(":")
    prefix = prefix.lower()
    return local.lower() if not prefix or prefix in _PLAIN_PREFIXES else f"{prefix}:{local.lower()}"


def attribute(element: etree._Element, name: str) -> str:
    """Return the attribute's value whatever the case and namespace of its name; empty when absent."""
    value = element.get(name)
    if value is not None:
        return str(value)
    for key, other in element.attrib.items():
        if str(key).rpartition("}")[2].lower() == name:
            return str(other)
    return ""


# ── text ──

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_XHTML_DIV = "{http://www.w3.org/1999/xhtml}div"
_NAMESPACE = re.compile(r' xmlns(?::[\w.-]+)?="[^"]*"')
# Windows-1252 punctuation written as C1 control characters, as old blog software did.
_C1 = {code: bytes((code,)).decode("cp1252", "ignore") or chr(code) for code in range(0x80, 0xA0)}


def without_unstorable(text: str) -> str:
    """Remove NUL and lone surrogates, which neither UTF-8 nor readers of Redis accept."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub("", text)


def plain_text(element: etree._Element | None) -> str:
    """Return the element's text, tags inside it ignored; empty for a missing element."""
    if element is None:
        return ""
    if len(element):
        return "".join(str(piece) for piece in element.itertext()).strip()
    return (element.text or "").strip()


def title_text(element: etree._Element) -> str:
    """Return a title or a name: markup kept as text, stray C1 controls read as the punctuation they stand for."""
    text = inner_html(element)
    return text if text.isascii() else text.translate(_C1)


def inner_html(element: etree._Element) -> str:
    """Return the element's text, or its children as HTML when they are real elements.

    The one `<div>` that Atom demands around XHTML is packaging, and is left out.
    """
    if not len(element):
        return (element.text or "").strip()
    only = element[0] if len(element) == 1 and element[0].tag == _XHTML_DIV else None
    if only is not None and not f"{element.text or ''}{only.tail or ''}".strip():
        element = only
    children = "".join(etree.tostring(child, encoding="unicode") for child in element)
    return _NAMESPACE.sub("", escape(element.text or "", quote=False) + children).strip()


# ── links ──

_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_BASE_SCHEMES = frozenset(("http", "https", "ftp", "feed", "file"))
_EXTRA_SLASHES = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)/+")


def resolve_link(base: str, link: str) -> str:
    """Make the link absolute; it stays as written when it is absolute already or cannot be joined."""
    link = link.strip()
    if link[:8].lower().startswith(("http://", "https://")):
        return _EXTRA_SLASHES.sub(r"\1", link)
    if not base or not link:
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def link_base(element: etree._Element, inherited: str) -> str:
    """Return the base of links inside this element (XML Base). `base` without its `xml:` is common, and meant."""
    own = element.get(_XML_BASE) or element.get("base") or element.get("BASE")
    if not own:
        return inherited
    joined = resolve_link(inherited, str(own))
    is_usable = not inherited or joined.partition(":")[0].lower() in _BASE_SCHEMES
    return joined if is_usable else inherited
