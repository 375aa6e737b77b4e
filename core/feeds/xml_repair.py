"""Repair text that is almost XML: mistakes that lxml stumbles over and a reader never sees.

Junk before the first tag, a DOCTYPE, HTML's named entities, bare ampersands and characters XML forbids. Every step
is one pass over the text. Entities a feed declares itself are honoured only when short and flat, so that no text can
grow more than eightfold.
"""

from __future__ import annotations

import re
from html import escape
from html.entities import html5

_LONGEST_ENTITY_CHARS = 24
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")
_ENTITY = re.compile(r"""<!ENTITY\s+([A-Za-z_][\w.-]{0,60})\s+(?:"([^"<&%]*)"|'([^'<&%]*)')\s*>""")
_SPACE = re.compile(r"\s*")
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*[\[>]", re.IGNORECASE)
_SUBSET_END = re.compile(r"\]\s*>")
# All references but the ones that XML knows itself; most of those are the escapes of a feed full of HTML.
_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d\d);)(?:(#[xX]?[0-9A-Fa-f]{1,8};)|([A-Za-z_][\w.-]{0,60});)?")


def repair(text: str) -> str:
    """Return the document without declaration and DOCTYPE, with only the references and characters that XML allows."""
    text = _FORBIDDEN.sub("", _without_junk(text))
    text, entities = _without_doctype(_DECLARATION.sub("", text, count=1))
    head, *sections = text.split("<![CDATA[")
    pieces = [_mend_references(head, entities)]
    for section in sections:
        inside, end, outside = section.partition("]]>")
        pieces += ["<![CDATA[", inside, end, _mend_references(outside, entities)]
    return "".join(pieces)


def _without_junk(text: str) -> str:
    """Cut what comes before the XML declaration, if there is one near the start, else before the first tag."""
    start = text.find("<?xml ", 0, 4096)
    return text[max(start, text.find("<") if start < 0 else start, 0) :]


def _without_doctype(text: str) -> tuple[str, dict[str, str]]:
    """Return the text without its DOCTYPE, and those entities declared there that cannot blow up."""
    start = _doctype_start(text)
    doctype = _DOCTYPE.match(text, start) if start >= 0 else None
    if not doctype:
        return text, {}
    end = doctype.end()
    if text[end - 1] == "[":
        closing = _SUBSET_END.search(text, end)
        end = closing.end() if closing else len(text)
    declared = {name: first or second for name, first, second in _ENTITY.findall(text[doctype.end() : end])}
    flat = {name: value for name, value in declared.items() if len(value) <= _LONGEST_ENTITY_CHARS}
    return text[:start] + text[end:], flat


def _doctype_start(text: str) -> int:
    """Return where the DOCTYPE begins, past declarations and comments; -1 when the first element comes before."""
    at = 0
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches the empty string too
        if text.startswith("<?", at):
            end = text.find("?>", at) + 2
        elif text.startswith("<!--", at):
            end = text.find("-->", at) + 3
        else:
            return at if text[at : at + 9].upper() == "<!DOCTYPE" else -1
        if end <= at:
            return -1
        at = end


def _mend_references(text: str, entities: dict[str, str]) -> str:
    def mend(reference: re.Match[str]) -> str:
        number, name = reference.groups()
        if number:
            return _mend_number(number)
        value = entities.get(name) or html5.get(f"{name};")
        return escape(value) if value else f"&amp;{reference.group()[1:]}"

    return _REFERENCE.sub(mend, text)


def _mend_number(number: str) -> str:
    """Return a numeric reference as XML spells it; nothing for code points that are no characters."""
    digits = number[1:-1].lower()
    try:
        code = int(digits[1:], 16) if digits.startswith("x") else int(digits)
    except ValueError:
        return f"&amp;{number}"
    is_allowed = code <= 0x10FFFF and (code >= 32 or code in (9, 10, 13)) and not _FORBIDDEN.match(chr(code))
    return f"&#{code};" if is_allowed else ""
