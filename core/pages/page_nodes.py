"""The elements of a page without what is no text, what their names say, and its text cut into runs.

Everything that looks for the main text works on these lists.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate, compress, islice
from typing import NamedTuple

from lxml import etree

from core.pages.class_name_hints import BYLINE, UNLIKELY, name_bits, name_weight
from core.pages.data_detection import remove_stray_data
from core.pages.flat_tree import FlatTree, unescape_xml
from core.pages.lxml_page import text_length

# Never text of an article.
_NO_TEXT = (
    *("script", "style", "svg", "iframe", "template", "link", "meta", "canvas", "video", "audio", "object", "embed"),
    *("input", "select", "noscript", "textarea", "button", "head", "map", "math", "datalist", "option", "base"),
    *("source", "track", "param", "frame", "frameset", "applet", "rp", "rt", "dialog"),
)
# A quarter of all elements, and hardly ever part of an article.
_NAVIGATION = ("nav", "footer")
_MAX_NAVIGATIONS = 50
"""How many are looked at: what stands behind so many of them holds little."""
# Parts of a sentence or a table; unwrapped in C, so that a fifth of all nodes need not be looked at.
_UNWRAPPED = (
    *("b", "i", "em", "strong", "u", "font", "small", "sup", "sub", "abbr", "acronym", "cite", "mark", "s", "ins"),
    *("bdi", "bdo", "kbd", "samp", "var", "dfn", "big", "tt", "strike", "nobr", "wbr", "ruby", "data", "tbody"),
    *("thead", "tfoot", "picture", "hgroup", "q", "center", "del"),
)
_INLINE = frozenset(("a", "span", "time", "label", "img", "br", "code"))
UNLIKELY_ROLES = frozenset(("menu", "menubar", "complementary", "navigation", "alert", "alertdialog", "dialog"))
_DROPPABLE_TAGS = ("table", "code", "h1", "h2")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_COMMA = re.compile("[,\u060c\ufe50\ufe10\ufe11\u2e41\u2e34\u2e32\uff0c]")
# What anybody asks of an element. The rest (`title`, `src`, `data-…`) differs from tag to tag.
_ASKED = re.compile(r' (class|id|role|rel|itemprop|href|style|hidden|aria-hidden|summary)="([^"]*)"')
_MAX_CACHED = 20_000
_MAX_CACHED_CHARS = 300
"""Longer lists of attributes are hardly ever repeated, and hostile ones would fill the memory."""
_OWN_ANCHOR_TENTHS = 3
"""A link to another place of the same page, as in a table of contents, is less of a link."""


class TextRun(NamedTuple):
    """A run of text without a block inside: a paragraph, an item, a cell, a heading, words between two blocks."""

    owner: int
    """The block it stands in."""
    text: str
    link_chars: int
    first_piece: int
    end_piece: int
    """The pieces of text it is made of."""


class NodeNames(NamedTuple):
    """What the attributes of an element say, of those that anybody asks for."""

    attributes: dict[str, str]
    class_: str = ""
    id_: str = ""
    bits: int = 0
    """Of class and id, see `class_name_hints`."""
    weight: int = 0
    """How much class and id sound like an article: 25 each, or -25."""
    is_hidden: bool = False
    is_droppable: bool = False
    """May be clutter to a reader mode (`readability_score`); most elements are not."""


class PageNodes(FlatTree):
    """The elements of a page as lists; the number of an element is its place in each."""

    def __init__(self, root: etree._Element) -> None:
        """Remove what is no text of an article and unwrap what is part of a sentence. Changes `root`."""
        etree.strip_elements(root, *_NO_TEXT, with_tail=False)
        _remove_navigation(root)
        remove_stray_data(root)
        etree.strip_tags(root, *_UNWRAPPED)
        super().__init__(root)
        names = zip(*map(_names.__getitem__, self.raw_attributes), strict=True)
        self.attributes, self.classes, self.ids, self.bits, self.name_weights, hidden, droppable = names
        self.hidden = bytes(hidden)
        self.by_tag = self._group_by_tag()
        self.links = self._weigh_links()
        tagged = {number for tag in _DROPPABLE_TAGS for number in self.by_tag[tag]}
        self.droppable = sorted(tagged.union(compress(range(self.size), droppable)) - {0})
        self.own_chars, self.own_commas = self._measure()
        self.is_inline = self._find_inline()

    def _group_by_tag(self) -> defaultdict[str, list[int]]:
        by_tag: defaultdict[str, list[int]] = defaultdict(list)
        for number, tag in enumerate(self.tags):
            by_tag[tag].append(number)
        return by_tag

    def _weigh_links(self) -> list[tuple[int, int]]:
        """Return the links, the last first, and how much of a link each is, in tenths."""
        attributes = self.attributes
        return [
            (link, _OWN_ANCHOR_TENTHS if attributes[link].get("href") else 10) for link in reversed(self.by_tag["a"])
        ]

    def _measure(self) -> tuple[list[int], list[int]]:
        """Return for each node how many characters and commas its own text has, each piece with a space behind it."""
        chars, commas = [0] * self.size, [0] * self.size
        for number, is_tail, text in self.pieces:
            if not text.isspace():
                holder = self.parents[number] if is_tail else number
                chars[holder] += len(" ".join(text.split())) + 1
                commas[holder] += text.count(",") if text.isascii() else len(_COMMA.findall(text))
        return chars, commas

    def _find_inline(self) -> bytearray:
        """Which nodes are parts of a sentence: by their tag, and without a block inside."""
        is_inline = bytearray(map(_INLINE.__contains__, self.tags))
        parents = self.parents
        for number in range(self.size - 1, 0, -1):
            if not is_inline[number]:
                is_inline[parents[number]] = 0
        return is_inline

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


def _remove_navigation(root: etree._Element) -> None:
    """Remove navigation and footers. One with half of the page's text is none: perhaps it was never closed."""
    parts = list(islice(root.iter(*_NAVIGATION), _MAX_NAVIGATIONS))
    most = text_length(root) / 2 if parts else 0
    for part in parts:
        if text_length(part) > most:
            part.tag = "div"
    etree.strip_elements(root, *_NAVIGATION, with_tail=False)


def _read_names(asked: Iterable[tuple[str, str]]) -> NodeNames:
    attributes = {name: unescape_xml(value) if "&" in value else value for name, value in asked}
    class_, id_ = attributes.get("class", ""), attributes.get("id", "")
    of_class, of_id = name_bits(class_) if class_ else 0, name_bits(id_) if id_ else 0
    weight = name_weight(of_class) + name_weight(of_id)
    bits, is_hidden = of_class | of_id, _is_hidden(attributes)
    is_author = "author" in attributes.get("itemprop", "") or attributes.get("rel") == "author"
    is_droppable = is_hidden or is_author or bits & (BYLINE | UNLIKELY) or attributes.get("role") in UNLIKELY_ROLES
    return NodeNames(attributes, class_, id_, bits, weight, is_hidden, bool(is_droppable))


class _NamesByAttributes(dict[str, NodeNames]):
    """What attributes say, by how they are written: a dictionary is asked in a third of the time of `lru_cache`."""

    def __init__(self) -> None:
        super().__init__()
        # Of 146 tags of a page that are written like no other, 44 are known by what is asked: in a quarter of the time.
        self._by_asked: dict[tuple[tuple[str, str], ...], NodeNames] = {}

    def __missing__(self, raw: str) -> NodeNames:
        asked = tuple(_ASKED.findall(raw))
        names = self._by_asked.get(asked) or _read_names(asked)
        if len(raw) <= _MAX_CACHED_CHARS:
            if len(self) >= _MAX_CACHED:
                self.clear()
                self._by_asked.clear()
            self[raw] = self._by_asked[asked] = names
        return names


_names = _NamesByAttributes()


def _is_hidden(attributes: dict[str, str]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return "fallback-image" not in attributes.get("class", "")
    style = attributes.get("style")
    return bool(style) and _HIDDEN_STYLE.search(style or "") is not None


def text_runs(nodes: PageNodes) -> list[TextRun]:
    """Return the page's text in order, cut where a block begins or ends; none empty."""
    blocks, is_linked, started = _blocks_around(nodes)
    parents, ends = nodes.parents, nodes.ends
    runs: list[TextRun] = []
    words: list[str] = []
    owner = last_block = -1
    link_chars = first = 0
    for place, (number, is_tail, text) in enumerate(nodes.pieces):
        # Two thirds of the pieces indent the source. They only separate words: a block that begins or ends at one of
        # them does so for the next words too.
        if text.isspace():
            words.append(" ")
            continue
        # A block that began since the last piece ends a run, also if it is empty; where one ended, the owner differs.
        if is_tail:
            holder, block = parents[number], started[ends[number]]
        else:
            holder, block = number, started[number + 1]
        if block != last_block or blocks[holder] != owner:
            if line := " ".join("".join(words).split()):
                runs.append(TextRun(owner, line, link_chars, first, place))
            words, link_chars, first = [], 0, place
            owner, last_block = blocks[holder], block
        words.append(text)
        if is_linked[holder]:
            link_chars += len(text.strip())
    if line := " ".join("".join(words).split()):
        runs.append(TextRun(owner, line, link_chars, first, len(nodes.pieces)))
    return runs


def _blocks_around(nodes: PageNodes) -> tuple[list[int], bytearray, list[int]]:
    """Return for each node the block it is part of, whether it is in a link, and how many blocks began before it."""
    blocks, is_linked = list(range(nodes.size)), bytearray(nodes.size)
    for number in compress(range(1, nodes.size), nodes.is_inline[1:]):
        blocks[number] = blocks[nodes.parents[number]]
    for link in nodes.by_tag["a"]:
        end = nodes.ends[link]
        is_linked[link:end] = b"\1" * (end - link)
    return blocks, is_linked, [0, *accumulate(1 - is_inline for is_inline in nodes.is_inline)]
