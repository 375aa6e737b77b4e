"""Read a page's tree once into flat lists, in document order, and cut its text into runs.

Everything that looks for the main text works on these lists: a number for a node, `end` for where its subtree ends.
Asking lxml again and again would cost ten times as much.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple, cast

from lxml import etree

from core.pages.name_hints import name_bits

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
        self.class_bits: list[int] = []
        self.id_bits: list[int] = []
        """What the names say, see `name_hints`."""
        self.attributes: list[dict[str, str]] = []
        self.hidden = bytearray()
        self.own_chars: list[int] = []
        self.own_commas: list[int] = []
        self.link_weights: list[float] = []
        self.pieces: list[tuple[int, bool, str]] = []
        """All text in document order: of a node or, if True, behind it; a line break is a space."""
        self._add(root, -1)
        self.size = len(self.elements)
        self.is_inline = self._find_inline()

    def _add(self, element: etree._Element, parent: int) -> None:
        number = len(self.elements)
        tag = str(element.tag)
        self.elements.append(element)
        self.tags.append(tag)
        self.parents.append(parent)
        self.ends.append(0)
        self.link_weights.append(1.0 if tag == "a" else 0.0)
        self.own_chars.append(0)
        self.own_commas.append(0)
        if items := element.items():
            self._add_attributes(number, cast("dict[str, str]", dict(items)))
        else:
            self.attributes.append(_NO_ATTRIBUTES)
            self.classes.append("")
            self.ids.append("")
            self.class_bits.append(0)
            self.id_bits.append(0)
            self.hidden.append(0)
        if tag == "br":
            self.pieces.append((number, False, " "))
        if text := element.text:
            self.pieces.append((number, False, text))
            if not text.isspace():
                self._measure(number, text)
        for child in element:
            following = len(self.elements)
            self._add(child, number)
            if text := child.tail:
                self.pieces.append((following, True, text))
                if not text.isspace():
                    self._measure(number, text)
        self.ends[number] = len(self.elements)

    def _add_attributes(self, number: int, attributes: dict[str, str]) -> None:
        class_, id_ = attributes.get("class", ""), attributes.get("id", "")
        self.attributes.append(attributes)
        self.classes.append(class_)
        self.ids.append(id_)
        self.class_bits.append(name_bits(class_) if class_ else 0)
        self.id_bits.append(name_bits(id_) if id_ else 0)
        self.hidden.append(_is_hidden(attributes))
        if self.link_weights[number] and attributes.get("href", "").startswith("#"):
            self.link_weights[number] = _OWN_ANCHOR_WEIGHT

    def _measure(self, number: int, text: str) -> None:
        self.own_chars[number] += len(" ".join(text.split())) + 1
        self.own_commas[number] += text.count(",") if text.isascii() else len(_COMMA.findall(text))

    def _find_inline(self) -> bytearray:
        """Which nodes are parts of a sentence: by their tag, and without a block inside."""
        is_inline = bytearray(tag in _INLINE for tag in self.tags)
        for number in range(self.size - 1, 0, -1):
            if not is_inline[number]:
                is_inline[self.parents[number]] = 0
        return is_inline

    def text_of(self, number: int) -> str:
        return " ".join("".join(map(str, self.elements[number].itertext())).split())

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

    def sums(self, values: list[int]) -> list[int]:
        """Return for every node what the values of its subtree add up to."""
        before = [0, *accumulate(values)]
        return [before[end] - start for start, end in zip(before, self.ends, strict=False)]


def _is_hidden(attributes: dict[str, str]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return "fallback-image" not in attributes.get("class", "")
    style = attributes.get("style")
    return bool(style) and _HIDDEN_STYLE.search(style or "") is not None


def text_runs(nodes: PageNodes) -> list[TextRun]:
    """Return the page's text in order, cut where a block begins or ends; none empty."""
    blocks, is_linked, started = _blocks_around(nodes)
    runs: list[TextRun] = []
    words: list[str] = []
    pieces: list[tuple[int, bool]] = []
    owner = last_block = -1
    link_chars = 0
    for number, is_tail, text in nodes.pieces:
        holder = nodes.parents[number] if is_tail else number
        # A block that began since the last piece ends a run, also if it is empty; where one ended, the owner differs.
        block = started[nodes.ends[number] if is_tail else number + 1]
        if blocks[holder] != owner or block != last_block:
            _end_run(runs, owner, words, link_chars, pieces)
            words, pieces, link_chars = [], [], 0
            owner, last_block = blocks[holder], block
        words.append(text)
        pieces.append((number, is_tail))
        if is_linked[holder]:
            link_chars += len(text.strip())
    _end_run(runs, owner, words, link_chars, pieces)
    return runs


def _blocks_around(nodes: PageNodes) -> tuple[list[int], bytearray, list[int]]:
    """Return for each node the block it is part of, whether it is in a link, and how many blocks began before it."""
    blocks, is_linked = [0] * nodes.size, bytearray(nodes.size)
    for number, (tag, parent) in enumerate(zip(nodes.tags, nodes.parents, strict=True)):
        is_inline = nodes.is_inline[number] and number
        blocks[number] = blocks[parent] if is_inline else number
        is_linked[number] = tag == "a" or (number > 0 and is_linked[parent])
    return blocks, is_linked, [0, *accumulate(1 - is_inline for is_inline in nodes.is_inline)]


def _end_run(
    runs: list[TextRun], owner: int, words: list[str], link_chars: int, pieces: list[tuple[int, bool]]
) -> None:
    if text := " ".join("".join(words).split()):
        runs.append(TextRun(owner, text, link_chars, pieces))
