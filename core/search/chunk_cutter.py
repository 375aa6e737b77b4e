"""Where blocks are cut and joined: by content, never by offset, so that an edit moves only the cuts beside it.

A run of units that is too long is parted at the boundary with the least hash in its middle, and each part again, as a
treap would. The hash is of the words after the boundary alone: what happens elsewhere cannot move it. Structure goes
before chance: between blocks rather than items, items rather than sentences, sentences rather than words.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple

from core.search.markdown_blocks import BlockKind, MarkdownBlock

EDGE_SHARE = 0.25
"""How much of a run on either side is no place to cut: a quarter keeps parts useful and the work bounded."""
JOINED_SHARE = 0.85
"""Blocks are joined up to this share of the most: what is left of the window is for title and headings."""
MOST_CHARS_PER_TOKEN = 12
"""A tokenizer may call a word of any length one unknown token (BERT does): characters count as well."""
_KEY_CHARS = 48
_GAP = "\n\n"

# Dots of all kinds, then what closes quotes; Chinese and Japanese put no space after them.
_SENTENCE_END = re.compile(
    r"(?<![.!?…؟۔।॥።။។։])[.!?…؟۔।॥።။។։]++[\"'”’»)\]*_]*+\s++(?![a-z])|(?<![。！？｡])[。！？｡]++[」』）】》”’\"')]*+\s*+"
)
_WORD = re.compile(r"\s*+\S++\s*+")
_ITEM_START = re.compile(r"^(?=[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t])", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n+|[^\n]+")
_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST_CLUSTER = 32


class Frame(NamedTuple):
    """What is put around each part of a table or of code."""

    head: str = ""
    tail: str = ""


_BARE = Frame()


class Boundary(IntEnum):
    """What begins after a boundary; the less, the better to cut there."""

    BLOCK = 0
    ANNOUNCED = 1
    """A block after a line that ends in a colon."""
    ITEM = 2
    LINE = 3
    SENTENCE = 4
    WORD = 5
    CHARACTER = 6


class Unit(NamedTuple):
    """Words that stay together if they fit, with the white space after them."""

    text: str
    tokens: float
    key: int
    """Of the boundary before it: the run is cut at the least."""
    finer: tuple[Boundary, ...]
    """The ways to take it apart that are left."""
    kind: BlockKind
    """Of the block it is of."""
    fits: bool = False
    """It was counted. False: its tokens are only its share of something longer."""


class ChunkBody(NamedTuple):
    """A text that fits, and what it is made of."""

    text: str
    kinds: tuple[BlockKind, ...]


_FINER = {
    BlockKind.TEXT: (Boundary.SENTENCE, Boundary.LINE, Boundary.WORD, Boundary.CHARACTER),
    BlockKind.HEADING: (Boundary.SENTENCE, Boundary.LINE, Boundary.WORD, Boundary.CHARACTER),
    BlockKind.LIST: (Boundary.ITEM, Boundary.SENTENCE, Boundary.LINE, Boundary.WORD, Boundary.CHARACTER),
    BlockKind.TABLE: (Boundary.LINE, Boundary.SENTENCE, Boundary.WORD, Boundary.CHARACTER),
    BlockKind.CODE: (Boundary.LINE, Boundary.WORD, Boundary.CHARACTER),
}


class Cutter:
    """Cuts the blocks of a section for one tokenizer and one size."""

    def __init__(self, count_tokens: Callable[[str], int], most_tokens: int) -> None:
        self._count_tokens = count_tokens
        self._most_tokens = max(1, most_tokens)
        self._most_joined = self._most_tokens * JOINED_SHARE

    def pieces(self, blocks: list[MarkdownBlock]) -> Iterator[ChunkBody]:
        """The blocks as texts of at most so many tokens, in order."""
        run: list[Unit] = []
        before = ""
        for block in blocks:
            whole = block.whole
            tokens = self._size(whole)
            if tokens > self._most_tokens and (frame := self._frame(block)):
                yield from self._packed(run)
                yield from self._packed(self._framed(block, tokens), frame)
                run = []
            else:
                kind = Boundary.ANNOUNCED if before.endswith(":") else Boundary.BLOCK
                fits = tokens <= self._most_tokens
                run += self._refined(
                    Unit(whole + _GAP, tokens, _key(kind, whole), _FINER[block.kind], block.kind, fits)
                )
            before = whole
        yield from self._packed(run)

    def _size(self, text: str) -> int:
        return max(1, self._count_tokens(text), len(text) // MOST_CHARS_PER_TOKEN)

    def _frame(self, block: MarkdownBlock) -> Frame | None:
        """The frame of a block, unless it would take half of the room."""
        if not block.head or self._size(block.head + block.tail) * 2 > self._most_tokens:
            return None
        return Frame(block.head, block.tail)

    def _framed(self, block: MarkdownBlock, tokens: int) -> list[Unit]:
        """The rows or lines of a block that is too long, each heavier by its share of the frame."""
        most = self._most_tokens
        grown = tokens * most / (most - self._size(block.head + block.tail))
        return list(self._refined(Unit(block.body, grown, 0, _FINER[block.kind], block.kind)))

    def _refined(self, unit: Unit) -> Iterator[Unit]:
        """The unit in pieces that fit as far as can be told without counting: by their share of its characters."""
        if unit.tokens <= self._most_tokens or not unit.finer:
            yield unit
            return
        kind, *finer = unit.finer
        per_char = unit.tokens / len(unit.text)
        key = unit.key  # the first piece begins where the unit does
        for text in _split(kind, unit.text, self._most_tokens / per_char):
            weight = len(text) * per_char
            yield from self._refined(Unit(text, weight, key or _key(kind, text), tuple(finer), unit.kind))
            key = 0

    def _packed(self, units: list[Unit], frame: Frame = _BARE) -> Iterator[ChunkBody]:
        """The units joined into texts that fit; counted once more, since tokens need not add up."""
        if not units:
            return
        ends = [0.0, *accumulate(unit.tokens for unit in units)]
        keys = [unit.key for unit in units]
        waiting = [(0, len(units))]
        while waiting:
            first, last = waiting.pop()
            most = self._most_tokens if last - first == 1 else self._most_joined
            if last - first == 1 and units[first].fits:
                yield ChunkBody(_whole(units[first].text, frame), (units[first].kind,))
            elif ends[last] - ends[first] <= most:
                yield from self._checked(units[first:last], frame)
            elif last - first == 1:
                yield from self._apart(units[first], frame)
            else:
                cut = _cut(ends, keys, first, last)
                waiting += ((cut, last), (first, cut))

    def _checked(self, units: list[Unit], frame: Frame) -> Iterator[ChunkBody]:
        """One text, if it fits when counted; otherwise its units again with the weights they turned out to have."""
        words = "".join(unit.text for unit in units)
        if not words.strip():
            return
        text = _whole(words, frame)
        if (tokens := self._size(text)) <= self._most_tokens:
            yield ChunkBody(text, tuple(dict.fromkeys(unit.kind for unit in units)))
        else:
            by = 1.01 * tokens / sum(unit.tokens for unit in units)
            yield from self._packed([unit._replace(tokens=unit.tokens * by) for unit in units], frame)

    def _apart(self, unit: Unit, frame: Frame) -> Iterator[ChunkBody]:
        """A unit that did not fit, in pieces; a single character stays as it is."""
        tokens = max(unit.tokens, self._most_tokens + 1)
        pieces = list(self._refined(unit._replace(tokens=tokens, finer=unit.finer or (Boundary.CHARACTER,))))
        if len(pieces) > 1:
            yield from self._packed(pieces, frame)
        elif unit.text.strip():
            yield ChunkBody(_whole(unit.text, frame), (unit.kind,))


def _whole(text: str, frame: Frame) -> str:
    return frame.head + text.strip("\n").rstrip() + frame.tail


def _key(kind: Boundary, text: str) -> int:
    """Structure first, then the hash of the first words after the boundary."""
    return (kind << 32 | zlib.crc32(text[:_KEY_CHARS].encode())) + 1


def _cut(ends: list[float], keys: list[int], first: int, last: int) -> int:
    """The index of the unit before which the run from `first` to `last` is cut."""
    total = ends[last] - ends[first]
    edge = total * EDGE_SHARE
    low = bisect_left(ends, ends[first] + edge, first + 1, last)
    high = bisect_right(ends, ends[last] - edge, first + 1, last)
    middle = bisect_left(ends, ends[first] + total / 2, first + 1, last)
    if low >= high:  # one long unit covers the middle: cut at its nearer end
        ways = [at for at in (middle - 1, middle) if first < at < last]
        return min(ways, key=lambda at: abs(ends[at] - ends[first] - total / 2))
    least = min(keys[low:high])
    # Of equals, as in a text that repeats itself, the one in the middle: halves keep the work within n log n.
    for start in (middle, (low + middle) // 2, low):
        try:
            return keys.index(least, max(low, start), high)
        except ValueError:
            continue
    return middle


def _split(kind: Boundary, text: str, most_chars: float) -> list[str]:
    """The text in pieces of a kind; joined they are the text."""
    match kind:
        case Boundary.SENTENCE:
            return _parted(text, [found.end() for found in _SENTENCE_END.finditer(text)])
        case Boundary.ITEM:
            return _parted(text, [found.start() for found in _ITEM_START.finditer(text)])
        case Boundary.LINE:
            return _LINE.findall(text)
        case Boundary.WORD:
            return _WORD.findall(text) or [text]
        case _:
            return _parted(text, list(_character_cuts(text, max(1, int(most_chars / 4)))))


def _parted(text: str, cuts: list[int]) -> list[str]:
    inner = [cut for cut in cuts if 0 < cut < len(text)]
    return [text[start:end] for start, end in zip([0, *inner], [*inner, len(text)], strict=True)]


def _character_cuts(text: str, most: int) -> Iterator[int]:
    """Cuts inside a word, by the hash of what follows; not inside what is seen as one character."""
    at = 0
    while len(text) - at > most:
        low, high = at + (most + 1) // 2, at + most
        best = min(range(low, high + 1), key=lambda place: zlib.crc32(text[place : place + 4].encode()))
        at = _outside_cluster(text, best, at)
        yield at


def _outside_cluster(text: str, place: int, after: int) -> int:
    """The nearest place before this one where no cluster is cut; this one if there is none near."""
    for earlier in range(place, max(after, place - _LONGEST_CLUSTER), -1):
        if not _is_joined(text[earlier - 1], text[earlier]):
            return earlier
    return place


def _is_joined(before: str, after: str) -> bool:
    """Marks, joiners, skin tones, flags and tags belong to the character before them."""
    if after.isascii():
        return False
    return (
        _ZERO_WIDTH_JOINER in (before, after)
        or unicodedata.category(after)[0] == "M"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")
    )
