"""One short name per element, whatever prefix, namespace or case the publisher chose.

`{http://purl.org/dc/elements/1.1/}Date`, `DC:date` without a declaration and `dc:date` all become `dc:date`;
everything of RSS, Atom and sitemaps loses its namespace. Unknown namespaces go by the prefix they were given.
"""

from __future__ import annotations

from lxml import etree

XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"

# Compared in lower case and without a trailing `/` or `#`: publishers forget and add both.
_PREFIXES = {
    "http://backend.userland.com/rss": "",
    "http://blogs.law.harvard.edu/tech/rss": "",
    "http://purl.org/rss/1.0": "",
    "http://purl.org/rss/1.0/modules/rss091": "",
    "http://my.netscape.com/rdf/simple/0.9": "",
    "http://channel.netscape.com/rdf/simple/0.9": "",
    "http://example.com/newformat": "",
    "http://example.com/necho": "",
    "http://purl.org/echo": "",
    "uri/of/echo/namespace": "",
    "http://purl.org/pie": "",
    "http://purl.org/atom/ns": "",
    "http://www.w3.org/2005/atom": "",
    "http://www.sitemaps.org/schemas/sitemap/0.9": "",
    "http://www.google.com/schemas/sitemap/0.84": "",
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
# Prefixes that say RSS or Atom even when the namespace behind them is misspelt.
_PLAIN_PREFIXES = frozenset(("atom", "atom10", "a10", "rss", "sitemap"))


class ElementNames:
    """Short names of the elements of one document, worked out once per distinct tag."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, element: etree._Element) -> str:
        tag = element.tag
        name = self._known.get(tag)
        if name is None:
            name = self._known[tag] = _short(tag, element.prefix or "")
        return name


def _short(tag: str, prefix: str) -> str:
    if tag.startswith("{"):
        uri, local = tag[1:].split("}", 1)
        prefix = _prefix(uri.lower().rstrip("/#"), prefix)
    else:
        # A prefix nobody declared stays part of the tag.
        prefix, _, local = tag.rpartition(":")
    prefix = prefix.lower()
    return local.lower() if not prefix or prefix in _PLAIN_PREFIXES else f"{prefix}:{local.lower()}"


def _prefix(uri: str, given: str) -> str:
    if "backend.userland.com/rss" in uri:
        return ""
    return _PREFIXES.get(uri, given)


def attribute(element: etree._Element, name: str) -> str:
    """The attribute's value whatever the case and namespace of its name; empty when absent."""
    value = element.get(name)
    if value is not None:
        return str(value)
    for key, other in element.attrib.items():
        if str(key).rpartition("}")[2].lower() == name:
            return str(other)
    return ""
