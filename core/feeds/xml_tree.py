"""Parse bytes into an XML tree, fast and hardened: no entity is expanded, no DTD, file or network is opened.

Well-formed bodies take one pass of libxml2. Those with the usual slips are repaired as text and parsed again. What is
still broken comes back as far as libxml2 could read it, marked as not sound, and the caller decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from core.feeds.encoding import decode, xml_encoding
from core.feeds.xml_repair import repair

# Errors that cost nothing: prefixes nobody declared, and text after the last tag.
_HARMLESS = frozenset(
    ("ERR_DOCUMENT_END", "WAR_UNKNOWN_VERSION", "WAR_NS_URI", "WAR_NS_URI_RELATIVE", "WAR_LANG_VALUE")
)
_PROLOG_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class XmlTree:
    """A document's root, and whether nothing was lost in parsing."""

    root: etree._Element
    is_sound: bool


def parse_xml(body: bytes, content_type: str = "") -> XmlTree | None:
    """Return the document's tree; None when there is not even one element."""
    tree = None
    if b"<!ENTITY" not in body[:_PROLOG_BYTES]:
        tree = _parse(body, xml_encoding(body, content_type))
        if tree and tree.is_sound:
            return tree
    text = repair(decode(body, content_type))
    return _parse(text.encode("utf-8", "replace"), "utf-8") or tree


def _parse(body: bytes, encoding: str | None) -> XmlTree | None:
    parser = etree.XMLParser(
        encoding=encoding,
        recover=True,
        collect_ids=False,
        strip_cdata=False,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, LookupError):
        return None
    if root is None:
        return None
    # lxml logs the first hundred errors, so a long run of harmless ones may hide a later loss: still a usable tree.
    is_sound = all(_is_harmless(error) for error in parser.error_log)
    return XmlTree(root, is_sound and not _declares_entities(root))


def _declares_entities(root: etree._Element) -> bool:
    """Whether the prolog declares entities that its bytes did not show (UTF-16, say): only repair removes them."""
    dtd = root.getroottree().docinfo.internalDTD
    return dtd is not None and any(True for _ in dtd.iterentities())  # type: ignore[attr-defined]  # not in the stubs


def _is_harmless(error: etree._LogEntry) -> bool:
    return error.domain_name == "NAMESPACE" or error.type_name in _HARMLESS
