"""Read a tree once into flat lists, in document order: a number for each element, `ends` for where its subtree ends.

libxml2 writes the tree as XML, and one pattern cuts that into tags. Asking lxml element by element takes three times as
long, since each answer makes an object, and all of them have to go again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, islice

from lxml import etree

# What libxml2 writes is well-formed: `<` and `>` are escaped in text and in values, and a value stands in quotes.
_TAG = re.compile(r"<(/?)([^\s/>]+)([^>]*)>([^<]*)")
_ATTRIBUTE = re.compile(r'([^\s="]+)="([^"]*)"')
# Nobody asks for targets but for those on the same page. Without them most tags of a page are equal to others.
_OTHER_TARGET = re.compile(r' href="[^#"][^"]*"')


class FlatTree:
    """The elements of a tree as lists; the number of an element is its place in each."""

    def __init__(self, root: etree._Element) -> None:
        self.tags: list[str] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        self.raw_attributes: list[str] = []
        """As written in the tag, see `parse_attributes`; without links to other pages."""
        self.texts: list[str] = []
        self.tails: list[str] = []
        self.pieces: list[tuple[int, bool, str]] = []
        """All text in document order: of an element or, if True, behind it; a line break is a space."""
        self.first_pieces: list[int] = []
        """Where the text of each element begins in `pieces`."""
        self._read(etree.tostring(root, encoding="unicode", with_tail=False))
        self.size = len(self.tags)

    def _read(self, markup: str) -> None:
        tags, parents, ends, attributes = self.tags, self.parents, self.ends, self.raw_attributes
        texts, tails, pieces, first_pieces = self.texts, self.tails, self.pieces, self.first_pieces
        parent = number = -1
        for is_end, tag, rest, words in _TAG.findall(markup):
            if words and "&" in words:
                words = unescape_xml(words)
            if is_end:
                ends[parent] = number + 1
                if words:
                    tails[parent] = words
                    pieces.append((parent, True, words))
                parent = parents[parent]
                continue
            number += 1
            tags.append(tag)
            parents.append(parent)
            ends.append(number + 1)
            first_pieces.append(len(pieces))
            if tag == "br":
                pieces.append((number, False, " "))
            elif tag == "a":
                rest = _OTHER_TARGET.sub("", rest)  # before the loop it would cut samples of code too
            if rest[-1:] == "/":
                attributes.append(rest[:-1])
                texts.append("")
                tails.append(words)
                if words:
                    pieces.append((number, True, words))
                continue
            attributes.append(rest)
            texts.append(words)
            tails.append("")
            if words:
                pieces.append((number, False, words))
            parent = number

    def text_of(self, number: int) -> str:
        """Return the text of an element as one line; a line break separates nothing here."""
        end, words = self.ends[number], []
        for holder, is_tail, text in islice(self.pieces, self.first_pieces[number], None):
            if holder < number or holder >= end or (is_tail and holder == number):
                break
            if is_tail or self.tags[holder] != "br":
                words.append(text)
        return " ".join("".join(words).split())

    def children(self, number: int) -> list[int]:
        found, child = [], number + 1
        while child < self.ends[number]:
            found.append(child)
            child = self.ends[child]
        return found

    def sums(self, values: list[int]) -> list[int]:
        """Return for every element what the values of its subtree add up to."""
        before = [0, *accumulate(values)]
        return [before[end] - start for start, end in zip(before, self.ends, strict=False)]


class SubtreeSum:
    """Adds up values over the subtrees of those nodes that are asked for."""

    __slots__ = ("_before", "_ends")

    def __init__(self, tree: FlatTree, values: Iterable[int]) -> None:
        self._before, self._ends = [0, *accumulate(values)], tree.ends

    def __getitem__(self, number: int) -> int:
        return self._before[self._ends[number]] - self._before[number]


def parse_attributes(raw: str) -> dict[str, str]:
    """Return the attributes of a tag by name."""
    found = dict(_ATTRIBUTE.findall(raw))
    return {name: unescape_xml(value) for name, value in found.items()} if "&" in raw else found


def unescape_xml(text: str) -> str:
    """Undo what libxml2 does to text and values; a control character, which it cannot write, is left out."""
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    if "&#" in text:
        text = text.replace("&#13;", "\r").replace("&#10;", "\n").replace("&#9;", "\t").replace("&#xFFFD;", "")
    return text.replace("&amp;", "&")
