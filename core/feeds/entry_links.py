"""Which of an entry's links is the article, and where does it point? Strings in, strings out.

Enclosures, comments, self and edit links are never the article. Bases are inherited as XML Base says, starting from
the feed's own URL.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin

from lxml import etree

from core.feeds.elements import XML_BASE, attribute
from core.feeds.text import plain

_EXTRA_SLASHES = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)/+")
# `?a=1&b;=2` is what `?a=1&b=2` becomes in the hands of a careless serialiser.
_STRAY_SEMICOLON = re.compile(r"&([A-Za-z0-9_]+);")
_BASE_SCHEMES = frozenset(("http", "https", "ftp", "feed", "file"))
_HTML_TYPES = frozenset(("", "text/html", "html", "application/xhtml+xml", "xhtml"))


def resolve(base: str, link: str) -> str:
    """The link made absolute; as written when it is absolute already or cannot be joined."""
    link = link.strip()
    if link[:8].lower().startswith(("http://", "https://")):
        return _EXTRA_SLASHES.sub(r"\1", link)
    if not base or not link:
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def base_of(element: etree._Element, inherited: str) -> str:
    """The base for links inside this element. `base` without its `xml:` is common, and meant."""
    own = element.get(XML_BASE) or element.get("base") or element.get("BASE")
    if not own:
        return inherited
    joined = resolve(inherited, str(own))
    is_usable = not inherited or joined.partition(":")[0].lower() in _BASE_SCHEMES
    return joined if is_usable else inherited


def article(links: list[etree._Element], base: str) -> str:
    """The article among an entry's link elements: the last HTML alternate, else the last alternate of another type."""
    html = other = ""
    for element in links:
        if (attribute(element, "rel") or "alternate").lower() != "alternate":
            continue
        target = resolve(base_of(element, base), target_of(element))
        if attribute(element, "type").lower() in _HTML_TYPES:
            html = target or html
        else:
            other = target or other
    return html or other


def target_of(element: etree._Element) -> str:
    """What a link element points at: Atom's attribute, RSS's text, or an attribute with another name."""
    text = str(element.get("href") or "") or plain(element)
    text = text or attribute(element, "href") or attribute(element, "url") or attribute(element, "uri")
    return _STRAY_SEMICOLON.sub(r"&\1", text.replace("&amp;", "&")) if "&" in text else text


def permalink(guid: str, base: str) -> str:
    """A guid that serves as the link. Only paths are resolved: joining a bare word would invent a page."""
    if guid.startswith(("/", "http://", "https://")):
        return resolve(base, guid)
    return guid
