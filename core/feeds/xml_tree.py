"""Parse bytes into an XML tree, fast and hardened: no entity is expanded, no DTD, file or network is opened.

Well-formed bodies take one pass of libxml2. Those with the usual slips are repaired as text and parsed again. What is
still broken comes back as far as libxml2 could read it, marked as not sound, and the caller decides.
"""

from __future__ import annotations

import re
from html import escape
from html.entities import html5

from lxml import etree

from core.feeds.encoding import decode, xml_encoding
from core.value_class import value_class

# Errors that lose nothing: undeclared prefixes, and text after the last tag.
_HARMLESS = frozenset(
    ("ERR_DOCUMENT_END", "WAR_UNKNOWN_VERSION", "WAR_NS_URI", "WAR_NS_URI_RELATIVE", "WAR_LANG_VALUE")
)
_PROLOG_BYTES = 16_384


@value_class
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
    text = _repair(decode(body, content_type))
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
    is_sound = all(error.domain_name == "NAMESPACE" or error.type_name in _HARMLESS for error in parser.error_log)
    # Entities whose declaration the bytes did not show (in UTF-16, say): only repair removes them.
    dtd = root.getroottree().docinfo.internalDTD
    has_entities = dtd is not None and any(True for _ in dtd.iterentities())  # type: ignore[union-attr]  # no stub
    return XmlTree(root, is_sound and not has_entities)


# ── repair: mistakes that lxml stumbles over and a reader never sees ──
# Junk before the first tag, a DOCTYPE, HTML's named entities, bare ampersands and characters XML forbids. Every step
# is one pass over the text. Entities a feed declares itself are honoured only when short and flat, so that no text can
# grow more than eightfold.

_LONGEST_ENTITY_CHARS = 24
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")
_ENTITY = re.compile(r"""<!ENTITY\s+([A-Za-z_][\w.-]{0,60})\s+(?:"([^"<&%]*)"|'([^'<&%]*)')\s*>""")
# Declarations and comments may come before it; each is matched once, so that an unclosed one costs no more than a pass.
_DOCTYPE = re.compile(
    r"(?P<before>(?:\s++|(?><(?=\?).*?\?>)|(?><!(?=--).*?-->))*+)<!DOCTYPE[^\[>]*[\[>]", re.IGNORECASE | re.DOTALL
)
_SUBSET_END = re.compile(r"\]\s*>")
# All references but the ones that XML knows itself; most of those are the escapes of a feed full of HTML.
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d\d);)(?:(#[xX]?[0-9A-Fa-f]{1,8};)|([A-Za-z_][\w.-]{0,60});)?")


def _repair(text: str) -> str:
    """Return the document without declaration and DOCTYPE, with only the references and characters that XML allows."""
    start = text.find("<?xml ", 0, 4096)
    text = _FORBIDDEN.sub("", text[max(text.find("<") if start < 0 else start, 0) :])
    text, entities = _without_doctype(_DECLARATION.sub("", text, count=1))
    head, *sections = text.split("<![CDATA[")
    pieces = [_repair_references(head, entities)]
    for section in sections:
        inside, end, outside = section.partition("]]>")
        pieces += ["<![CDATA[", inside, end, _repair_references(outside, entities)]
    return "".join(pieces)


def _without_doctype(text: str) -> tuple[str, dict[str, str]]:
    """Return the text without its DOCTYPE, and those entities declared there that cannot blow up."""
    doctype = _DOCTYPE.match(text)
    if not doctype:
        return text, {}
    end = doctype.end()
    if text[end - 1] == "[":
        closing = _SUBSET_END.search(text, end)
        end = closing.end() if closing else len(text)
    declared = {name: first or second for name, first, second in _ENTITY.findall(text[doctype.end() : end])}
    flat = {name: value for name, value in declared.items() if len(value) <= _LONGEST_ENTITY_CHARS}
    return doctype["before"] + text[end:], flat


def _repair_references(text: str, entities: dict[str, str]) -> str:
    def repaired(reference: re.Match[str]) -> str:
        number, name = reference.groups()
        if number:
            return _repair_number(number)
        value = entities.get(name) or html5.get(f"{name};")
        return escape(value) if value else f"&amp;{reference.group()[1:]}"

    return _REFERENCE.sub(repaired, text)


def _repair_number(number: str) -> str:
    """Return a numeric reference as XML spells it; nothing for code points that are no characters."""
    digits = number[1:-1].lower()
    try:
        code = int(digits[1:], 16) if digits.startswith("x") else int(digits)
    except ValueError:
        return f"&amp;{number}"
    is_allowed = code <= 0x10FFFF and (code >= 32 or code in (9, 10, 13)) and not _FORBIDDEN.match(chr(code))
    return f"&#{code};" if is_allowed else ""
