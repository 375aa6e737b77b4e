"""Read the text of a short page without what it says of other stories: teasers, links, asides, footers."""

from __future__ import annotations

import re
from itertools import islice

from lxml import etree

from core.pages.lxml_page import parse_html
from core.pages.time_elements import is_class_of_others

_NOT_OWN = ("script", "style", "template", "svg", "nav", "aside", "footer", "dialog", "ul", "ol", "select")
_HEADINGS = ("h2", "h3", "h4", "h5", "h6")
_CLASS_OF_TEASER = re.compile(
    r"(?:^|[\s_-])(?:teasers?|promos?|cards?|newsletter|more-stories)(?:$|[\s_-])", re.IGNORECASE
)
# There the request to pay is often a link.
_CLASS_OF_PAYWALL = re.compile(r"pay-?wall|reg-?wall|subscri|(?:^|[\s_-])offers?(?:$|[\s_-])", re.IGNORECASE)
_MAX_SEARCHED_CHARS = 1_000_000
_MAX_ARTICLES = 50


def own_text(html: str) -> str:
    """Return what the page says itself, in one line; empty if it cannot be read."""
    root = parse_html(html[:_MAX_SEARCHED_CHARS])
    body = root.find("body") if root is not None else None
    if body is None:
        return ""
    etree.strip_elements(body, *_NOT_OWN, with_tail=False)
    longest = max(islice(body.iter("article"), _MAX_ARTICLES), key=_chars, default=body)
    own = longest if 2 * _chars(longest) >= _chars(body) else body
    around_own = {own, *own.iterancestors()}
    for element in [one for one in body.iter(etree.Element) if one not in around_own and _is_of_others(one)]:
        tail = element.tail
        element.clear()
        element.tail = tail
    return " ".join(" ".join(map(str, body.itertext())).split())


def _is_of_others(element: etree._Element) -> bool:
    """Return whether this belongs to another story: its article, its teaser, a link that is no part of a sentence."""
    tag, name = str(element.tag), element.get("class") or ""
    if tag == "a":
        return _is_alone(element) and not _asks_for_money(element)
    if tag == "article" or is_class_of_others(tag, name) or _CLASS_OF_TEASER.search(name):
        return True
    return tag in ("div", "section") and any(map(_is_linked_headline, element))


def _is_alone(link: etree._Element) -> bool:
    parent = link.getparent()
    before = parent.text if parent is not None else None
    return not (before or "").strip() and not (link.tail or "").strip()


def _asks_for_money(link: etree._Element) -> bool:
    boxes = (link, *islice(link.iterancestors(), 2))
    return any(_CLASS_OF_PAYWALL.search(one.get("class") or "") for one in boxes)


def _is_linked_headline(element: etree._Element) -> bool:
    """Return whether this is the headline of another story: the lines beside it are the story's."""
    if element.tag == "a":
        return any(one.tag in _HEADINGS for one in element)
    return element.tag in _HEADINGS and element.find(".//a") is not None


def _chars(element: etree._Element) -> int:
    return sum(len(str(piece).strip()) for piece in element.itertext())
