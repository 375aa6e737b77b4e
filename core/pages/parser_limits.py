"""Make a page safe for the fast parsers: limit its depth, its tags and its attributes, in linear time.

libxml2 stops reading at depth 256 and says so only in its log; lexbor needs time quadratic in the depth; both are
quadratic in the attributes of one tag. Only tags are dropped here, never text. Why BeautifulSoup does not read such
pages instead is in docs/decisions.md.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

MAX_DEPTH = 60
"""Counted elements; each may hold a few that close by themselves, and the whole stays below libxml2's 256."""
MAX_CHARS = 5_000_000
"""Of markup and text, without scripts; more than twice what is kept of any page's text."""
MAX_TAGS = 60_000
"""Six times the largest encyclopedia article we measured. Parsers need 200 bytes and more for each element."""
MANY_TAGS = 24_000
"""Below this many, lexbor is quick at any depth (half a second at worst)."""

# Long tags hold image sets and data for scripts. Hundreds of words in one are a flood, and 8 kB are for no reader.
_LONG, _TOO_LONG, _MANY_WORDS = 4096, 8192, 100
_LONG_TAG = re.compile(rf"<[A-Za-z][^<>]{{{_LONG},}}>?")
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)[^>]*>?")
_MARK_FLOOD = re.compile("<{2,}")
_RAW_TEXT = re.compile(r"<(?:(script|style|textarea|noembed|noframes|xmp)\b|!--)", re.IGNORECASE)
# Void elements, and those that the next of their kind closes: they add no depth of their own.
_VOID_TAGS = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"),
    *("html", "head", "body"),
}
_SELF_CLOSING_TAGS = {
    *_VOID_TAGS,
    *("p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "a"),
    *("rb", "rt", "rtc", "rp"),
}
# Nothing closes by itself inside these, and they hold no text of an article.
_DROPPED = {"svg", "math", "frameset", "select"}


def limit_markup(html: str, marks: int) -> str:
    """Remove tags of absurd length, and all tags after the first `MAX_TAGS`.

    Most pages come back unchanged. Text is cut only from a page with more than `MAX_CHARS` of markup and text.

    Args:
        marks: how often `<` is in the page. Counting takes a tenth of the time of a parse, and callers need it too.
    """
    is_large = len(html) > MAX_CHARS or marks > MAX_TAGS
    html = _LONG_TAG.sub(_unless_flood, html) if is_large else _without_floods(html)
    if is_large:
        # Without scripts and comments, so that neither cut falls inside one.
        html = _MARK_FLOOD.sub("<", _without_raw_text(html))[:MAX_CHARS]
    if not is_large or html.count("<") <= MAX_TAGS:
        return html
    last = next(islice(re.finditer("<", html), MAX_TAGS, None)).start()
    is_inside_tag = html.rfind(">", 0, last) < html.rfind("<", 0, last)
    return html[:last] + (">" if is_inside_tag else "") + _TAG.sub(" ", html[last:])


def _without_floods(html: str) -> str:
    """Do the same where few tags are long: go from `>` to `>` in steps that no long tag fits into.

    A page of 130 kB takes thirty steps; asking the pattern at every `<` takes five times as long.
    """
    kept: list[str] = []
    start = position = 0
    while len(html) - start > _LONG:
        closed = html.rfind(">", start, start + _LONG)
        if closed >= 0:
            start = closed + 1
            continue
        # A script, a long text or a long tag: nothing but that is given to the pattern.
        end = html.find(">", start + _LONG) + 1 or len(html)
        for tag in _LONG_TAG.finditer(html, start, end):
            kept += (html[position : tag.start()], _unless_flood(tag))
            position = tag.end()
        start = end
    return "".join((*kept, html[position:])) if kept else html


def _unless_flood(tag: re.Match[str]) -> str:
    is_flood = len(tag[0]) > _TOO_LONG or len(tag[0].split(maxsplit=_MANY_WORDS)) > _MANY_WORDS
    return " " if is_flood else tag[0]


def is_too_deep(html: str) -> bool:
    """Return whether tags are nested so deep that a fast parser would be slow; for pages of `MANY_TAGS`."""
    depth = _DepthFilter(_SELF_CLOSING_TAGS)
    for tag in _TAG.finditer(html):
        depth.replacement(tag)
        if depth.has_dropped:
            return True
    return False


def limit_depth(html: str, *, is_strict: bool = False) -> str:
    """Drop the tags below `MAX_DEPTH` and keep their text; scripts and styles go too.

    Args:
        is_strict: count also `<p>`, `<a>` and others that parsers close by themselves; for pages still too deep.
    """
    depth = _DepthFilter(_VOID_TAGS if is_strict else _SELF_CLOSING_TAGS)
    return _TAG.sub(depth.replacement, _without_raw_text(html))


class _DepthFilter:
    """Sees the tags in order and drops those that nest too deep."""

    def __init__(self, uncounted: set[str]) -> None:
        self._uncounted = uncounted
        self._open: list[str] = []
        self._count: Counter[str] = Counter()
        self._hidden: Counter[str] = Counter()
        self.has_dropped = False

    def replacement(self, tag: re.Match[str]) -> str:
        name = tag[2].lower()
        if name in self._uncounted:
            return tag[0]
        if name in _DROPPED:
            return " "
        if tag[1]:
            return self._closing(tag[0], name)
        if len(self._open) >= MAX_DEPTH:
            self._hidden[name] += 1
            self.has_dropped = True
            return " "
        self._open.append(name)
        self._count[name] += 1
        return tag[0]

    def _closing(self, tag: str, name: str) -> str:
        if self._hidden[name]:
            self._hidden[name] -= 1
            return " "
        if not self._count[name]:
            return ""  # closes nothing; kept, it would hide the depth
        while (last := self._open.pop()) != name:
            self._count[last] -= 1
        self._count[name] -= 1
        return tag


def _without_raw_text(html: str) -> str:
    """Remove comments and elements whose content is no markup; one that never ends takes the rest, as in a browser."""
    pieces, position = [], 0
    while start := _RAW_TEXT.search(html, position):
        pieces.append(html[position : start.start()])
        closing = rf"</{start[1]}\b[^>]*>?" if start[1] else "-->"
        end = re.compile(closing, re.IGNORECASE).search(html, start.end())
        position = end.end() if end else len(html)
    return "".join((*pieces, html[position:]))
