"""Find the article inside `<noscript>`, which nearly always holds a tracking pixel or a plea for JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy

from lxml import etree

MIN_CHARS = 250
"""A shorter text is a plea for JavaScript."""
_SAMPLE_CHARS = 80
_REACT_COMMENT = "<!-- -->"
_MISLEADING = re.compile(rf"<(?:(/?)noscript\b[^<>]{{0,1000}}>|{_REACT_COMMENT[1:]})", re.IGNORECASE)
_MARKUP = re.compile(r"<[^<>]{0,2000}>")
_INVISIBLE_TAGS = ("script", "style", "template", "svg", "iframe", "head")
# Text in these does not count against the text in `<noscript>`.
_NAVIGATION_TAGS = ("nav", "header", "footer", "aside", "form", "button", "a", "label", "dialog", "select")


def drop_misleading_tags(html: str) -> str:
    """Remove what would mislead a parser: `<noscript>` that is never closed, into which it would put all that follows,
    and the comments by which React separates words, at each of which text would break.

    One look for both: each takes as long as a fifth of lexbor's parse.
    """
    found = list(_MISLEADING.finditer(html))
    tags = [match for match in found if match[0] != _REACT_COMMENT]
    pairs = zip(tags, [*tags[1:], None], strict=False)
    unclosed = {tag.start() for tag, following in pairs if not tag[1] and not (following is not None and following[1])}
    kept, position = [], 0
    for match in found:
        if match[0] == _REACT_COMMENT or match.start() in unclosed:
            kept.append(html[position : match.start()])
            position = match.end()
    return "".join((*kept, html[position:])) if kept else html


def is_article_in_noscript(inside: Iterable[str], outside: str) -> bool:
    """Do the long texts inside `<noscript>` say more than the page without them, and something else?"""
    hidden = " ".join(text for text in map(_words, inside) if len(text) >= MIN_CHARS)
    if not hidden:  # as nearly always: then nobody looks at the page again
        return False
    outside = _words(outside)
    middle = len(hidden) // 2
    return len(hidden) > len(outside) and hidden[middle : middle + _SAMPLE_CHARS] not in outside


def is_long_text(text: str) -> bool:
    """Return whether this is more than a plea for JavaScript."""
    return len(_words(text)) >= MIN_CHARS


def unwrap_noscript_article(root: etree._Element) -> None:
    """Turn `<noscript>` into ordinary elements where they hold the article. Changes `root`."""
    # Nearly all are short, and the copy below takes as long as a parse.
    if all(len(_text(element)) < MIN_CHARS for element in root.iter("noscript")):
        return
    rest = copy(root)
    etree.strip_elements(rest, *_INVISIBLE_TAGS, with_tail=False)
    inside = [_text(element) for element in rest.iter("noscript")]
    etree.strip_elements(rest, "noscript", *_NAVIGATION_TAGS, with_tail=False)
    if is_article_in_noscript(inside, _text(rest)):
        for element in root.iter("noscript"):
            if is_long_text(_text(element)):
                element.tag = "div"


def _text(element: etree._Element) -> str:
    return " ".join(map(str, element.itertext()))


def _words(text: str) -> str:
    """Remove markup that stands as text inside `<noscript>` in pages saved by a browser."""
    return " ".join(_MARKUP.sub(" ", text).split())
