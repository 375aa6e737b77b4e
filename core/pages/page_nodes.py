"""Read a page's tree once into flat lists, in document order, and cut its text into runs.

Everything that looks for the main text works on these lists: a number for a node, `end` for where its subtree ends.
Asking lxml again and again would cost ten times as much.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple, cast

from lxml import etree

# Never text of an article.
_NO_TEXT = (
    *("script", "style", "svg", "iframe", "template", "link", "meta", "canvas", "video", "audio", "object", "embed"),
    *("input", "select", "noscript", "textarea", "button", "head", "map", "math", "datalist", "option", "base"),
    *("source", "track", "param", "frame", "frameset", "applet", "rp", "rt", "dialog"),
)
# Parts of a sentence or a table; unwrapped in C, so that a fifth of all nodes need not be looked at.
_UNWRAPPED = (
    *("b", "i", "em", "strong", "u", "font", "small", "sup", "sub", "abbr", "acronym", "cite", "mark", "s", "ins"),
    *("bdi", "bdo", "kbd", "samp", "var", "dfn", "big", "tt", "strike", "nobr", "wbr", "ruby", "data", "tbody"),
    *("thead", "tfoot", "picture", "hgroup", "q", "center", "del"),
)
_INLINE = frozenset(("a", "span", "time", "label", "img", "br", "code"))
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_COMMA = re.compile("[,\u060c\ufe50\ufe10\ufe11\u2e41\u2e34\u2e32\uff0c]")
_NO_ATTRIBUTES: dict[str, str] = {}
_OWN_ANCHOR_WEIGHT = 0.3
"""A link to another place of the same page, as in a table of contents, is less of a link."""


class TextRun(NamedTuple):
    """A run of text without a block inside: a paragraph, an item, a cell, a heading, words between two blocks."""

    owner: int
    """The block it stands in."""
    text: str
    link_chars: int
    pieces: list[tuple[int, bool]]
    """The nodes whose text it is made of; True for the text behind the node."""


class PageNodes:
    """The elements of a page as lists; the number of an element is its place in each."""

    def __init__(self, root: etree._Element) -> None:
        """Remove what is no text and unwrap what is part of a sentence. Changes `root`."""
        etree.strip_elements(root, *_NO_TEXT, with_tail=False)
        etree.strip_tags(root, *_UNWRAPPED)
        self.elements: list[etree._Element] = []
        self.tags: list[str] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        self.classes: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.hidden = bytearray()
        self.own_chars: list[int] = []
        self.own_commas: list[int] = []
        self.link_weights: list[float] = []
        self._add(root, -1)
        self.size = len(self.elements)
        self.has_block_inside = self._find_blocks_inside()

    def _add(self, element: etree._Element, parent: int) -> None:
        number = len(self.elements)
        tag = str(element.tag)
        attributes = cast("dict[str, str]", dict(element.items()) or _NO_ATTRIBUTES)
        self.elements.append(element)
        self.tags.append(tag)
        self.parents.append(parent)
        self.ends.append(0)
        self.attributes.append(attributes)
        self.classes.append(attributes.get("class", ""))
        self.ids.append(attributes.get("id", ""))
        self.hidden.append(attributes is not _NO_ATTRIBUTES and _is_hidden(attributes))
        is_own_anchor = tag == "a" and attributes.get("href", "").startswith("#")
        self.link_weights.append(_OWN_ANCHOR_WEIGHT if is_own_anchor else float(tag == "a"))
        self.own_chars.append(0)
        self.own_commas.append(0)
        self._measure(number, element.text)
        for child in element:
            self._add(child, number)
            self._measure(number, child.tail)
        self.ends[number] = len(self.elements)

    def _measure(self, number: int, text: str | None) -> None:
        if text and (words := text.split()):
            self.own_chars[number] += sum(map(len, words)) + len(words)
            self.own_commas[number] += len(_COMMA.findall(text))

    def _find_blocks_inside(self) -> bytearray:
        has_block = bytearray(self.size)
        for number in range(self.size - 1, 0, -1):
            if has_block[number] or self.tags[number] not in _INLINE:
                has_block[self.parents[number]] = 1
        return has_block

    def text_of(self, number: int) -> str:
        return " ".join("".join(map(str, self.elements[number].itertext())).split())

    def names_of(self, number: int) -> str:
        """Return class and id as one text."""
        return f"{self.classes[number]} {self.ids[number]}".strip()

    def children(self, number: int) -> list[int]:
        found, child = [], number + 1
        while child < self.ends[number]:
            found.append(child)
            child = self.ends[child]
        return found

    def ancestors(self, number: int) -> list[int]:
        """Return the ancestors, the nearest first; at most 256, which is as deep as libxml2 reads."""
        found, parent = [], self.parents[number]
        while parent >= 0:
            found.append(parent)
            parent = self.parents[parent]
        return found

    def clear(self, flags: bytearray, number: int) -> None:
        """Take the flag from a node and everything in it."""
        end = self.ends[number]
        flags[number:end] = bytes(end - number)

    def is_inline(self, number: int) -> bool:
        return self.tags[number] in _INLINE and not self.has_block_inside[number]

    def sums(self, values: list[int]) -> list[int]:
        """Return for every node what the values of its subtree add up to."""
        before = [0, *accumulate(values)]
        return [before[end] - before[number] for number, end in enumerate(self.ends)]


def _is_hidden(attributes: dict[str, str]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return "fallback-image" not in attributes.get("class", "")
    style = attributes.get("style")
    return bool(style) and _HIDDEN_STYLE.search(style or "") is not None


class _RunCollector:
    """Walks the tree and cuts its text into runs."""

    def __init__(self, nodes: PageNodes) -> None:
        self._nodes = nodes
        self.runs: list[TextRun] = []
        self._owner = -1
        self._words: list[str] = []
        self._pieces: list[tuple[int, bool]] = []
        self._link_chars = 0

    def walk(self, number: int, owner: int, in_link: bool) -> None:
        nodes = self._nodes
        is_inline = nodes.is_inline(number)
        if nodes.tags[number] == "br":
            self._words.append(" ")
        if not is_inline:
            self.end_run()
            owner = number
        in_link = in_link or nodes.tags[number] == "a"
        self._put(owner, nodes.elements[number].text, (number, False), in_link)
        for child in nodes.children(number):
            self.walk(child, owner, in_link)
            self._put(owner, nodes.elements[child].tail, (child, True), in_link)
        if not is_inline:
            self.end_run()

    def _put(self, owner: int, text: str | None, piece: tuple[int, bool], in_link: bool) -> None:
        if not text:
            return
        if owner != self._owner:
            self.end_run()
            self._owner = owner
        self._words.append(text)
        self._pieces.append(piece)
        if in_link:
            self._link_chars += len(text.strip())

    def end_run(self) -> None:
        if self._words and (text := " ".join("".join(self._words).split())):
            self.runs.append(TextRun(self._owner, text, self._link_chars, self._pieces))
        self._words, self._pieces, self._link_chars, self._owner = [], [], 0, -1


def text_runs(nodes: PageNodes) -> list[TextRun]:
    """Return the page's text in order, none empty."""
    collector = _RunCollector(nodes)
    collector.walk(0, 0, False)
    collector.end_run()
    return collector.runs
