"""`<noscript>`: nearly always a counting pixel or a plea for JavaScript, and on some pages the whole article."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy

from lxml import etree

MIN_CHARS = 250
"""With less text it is a plea."""
_SAMPLE_CHARS = 80
_TAG = re.compile(r"<(/?)noscript\b[^<>]{0,1000}>", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]{0,2000}>")
_NO_TEXT = ("script", "style", "template", "svg", "iframe", "head")
# Not what a reader came for: it does not outweigh what stands in the noscript.
_CHROME = ("nav", "header", "footer", "aside", "form", "button", "a", "label", "dialog", "select")


def drop_unclosed_noscript(html: str) -> str:
    """The page without the opening tags that are never closed: in a parser's hands they swallow all that follows."""
    tags = list(_TAG.finditer(html))
    closes = [bool(tag[1]) for tag in tags]
    unclosed = [
        tag
        for tag, closing, next_closes in zip(tags, closes, [*closes[1:], False], strict=False)
        if not closing and not next_closes
    ]
    if not unclosed:
        return html
    starts = [0, *(tag.end() for tag in unclosed)]
    ends = [*(tag.start() for tag in unclosed), len(html)]
    return "".join(html[start:end] for start, end in zip(starts, ends, strict=True))


def is_article_in_noscript(inside: Iterable[str], outside: str) -> bool:
    """Do the long texts inside `<noscript>` say more than the page without them, and something else?"""
    found = " ".join(text for text in map(_words, inside) if len(text) >= MIN_CHARS)
    outside = _words(outside)
    middle = len(found) // 2
    return len(found) > len(outside) and found[middle : middle + _SAMPLE_CHARS] not in outside


def is_long_text(text: str) -> bool:
    """Is this more than a plea?"""
    return len(_words(text)) >= MIN_CHARS


def unwrap_noscript_article(root: etree._Element) -> None:
    """Make ordinary elements of the page's `<noscript>` where they hold the article. Changes `root`."""
    if root.find(".//noscript") is None:
        return
    rest = copy(root)
    etree.strip_elements(rest, *_NO_TEXT, with_tail=False)
    inside = [_text(found) for found in rest.iter("noscript")]
    etree.strip_elements(rest, "noscript", *_CHROME, with_tail=False)
    if is_article_in_noscript(inside, _text(rest)):
        for found in root.iter("noscript"):
            if is_long_text(_text(found)):
                found.tag = "div"


def _text(element: etree._Element) -> str:
    return " ".join(map(str, element.itertext()))


def _words(text: str) -> str:
    """Without the markup that stands as text in `<noscript>` of pages that a browser has saved."""
    return " ".join(_MARKUP.sub(" ", text).split())
