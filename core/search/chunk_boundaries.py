"""Cut and join blocks by their content, never by offset, so that an edit moves only the cuts next to it.

A run of units that is too long is cut at the boundary with the least hash in its middle, and each part again, as a
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

from core.search.markdown_sections import BlockKind, MarkdownBlock

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
    """Text that stays together if it fits, with the white space after it."""

    text: str
    tokens: float
    key: int
    """Of the boundary before it; a run is cut at the least."""
    finer: tuple[Boundary, ...]
    """The ways to take it apart that are left."""
    kind: BlockKind
    """Of the block it is of."""
    fits: bool = False
    """It was counted and fits. False: its tokens are only its share of something longer."""


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

    def cut(self, blocks: list[MarkdownBlock]) -> Iterator[ChunkBody]:
        """Yield the blocks as texts of at most so many tokens, in order."""
        run: list[Unit] = []
        before = ""
        for block in blocks:
            whole = block.whole
            tokens = self._size(whole)
            frame = Frame(block.head, block.tail)
            is_long = tokens > self._most_tokens
            frame_tokens = self._size(block.head + block.tail) if block.head and is_long else 0
            # A frame that would take more than half of the room is text like any other.
            if 0 < frame_tokens * 2 <= self._most_tokens:
                yield from self._join(run)
                # Each row or line is heavier by its share of the frame.
                grown = tokens * self._most_tokens / (self._most_tokens - frame_tokens)
                unit = Unit(block.body, grown, 0, _FINER[block.kind], block.kind)
                yield from self._join(list(self._split(unit)), frame)
                run = []
            else:
                boundary = Boundary.ANNOUNCED if before.endswith(":") else Boundary.BLOCK
                key = _key(boundary, whole)
                run += self._split(Unit(whole + _GAP, tokens, key, _FINER[block.kind], block.kind, not is_long))
            before = whole
        yield from self._join(run)

    def _size(self, text: str) -> int:
        return max(1, self._count_tokens(text), len(text) // MOST_CHARS_PER_TOKEN)

    def _split(self, unit: Unit) -> Iterator[Unit]:
        """Split a unit into units that fit, judging by their share of its characters instead of counting."""
        if unit.tokens <= self._most_tokens or not unit.finer:
            yield unit
            return
        boundary, *finer = unit.finer
        per_char = unit.tokens / len(unit.text)
        key = unit.key  # the first part begins where the unit does
        for text in _split_at(boundary, unit.text, self._most_tokens / per_char):
            weight = len(text) * per_char
            yield from self._split(Unit(text, weight, key or _key(boundary, text), tuple(finer), unit.kind))
            key = 0

    def _join(self, units: list[Unit], frame: Frame = _BARE) -> Iterator[ChunkBody]:
        """Join units into texts that fit; these are counted once more, since tokens need not add up."""
        if not units:
            return
        ends = [0.0, *accumulate(unit.tokens for unit in units)]
        keys = [unit.key for unit in units]
        pending = [(0, len(units))]
        while pending:
            first, last = pending.pop()
            is_single = last - first == 1
            most = self._most_tokens if is_single else self._most_tokens * JOINED_SHARE
            if is_single and units[first].fits:
                yield ChunkBody(_framed(units[first].text, frame), (units[first].kind,))
            elif ends[last] - ends[first] <= most:
                yield from self._join_counted(units[first:last], frame)
            elif is_single:
                yield from self._split_further(units[first], frame)
            else:
                cut = _cut(ends, keys, first, last)
                pending += ((cut, last), (first, cut))

    def _join_counted(self, units: list[Unit], frame: Frame) -> Iterator[ChunkBody]:
        """Join units into one text if it fits when counted; otherwise begin again with heavier units."""
        words = "".join(unit.text for unit in units)
        if not words.strip():
            return
        text = _framed(words, frame)
        if (tokens := self._size(text)) <= self._most_tokens:
            yield ChunkBody(text, tuple(dict.fromkeys(unit.kind for unit in units)))
        else:
            by = 1.01 * tokens / sum(unit.tokens for unit in units)
            yield from self._join([unit._replace(tokens=unit.tokens * by) for unit in units], frame)

    def _split_further(self, unit: Unit, frame: Frame) -> Iterator[ChunkBody]:
        """Split a unit that did not fit; a single character stays as it is."""
        tokens = max(unit.tokens, self._most_tokens + 1)
        parts = list(self._split(unit._replace(tokens=tokens, finer=unit.finer or (Boundary.CHARACTER,))))
        if len(parts) > 1:
            yield from self._join(parts, frame)
        elif unit.text.strip():
            yield ChunkBody(_framed(unit.text, frame), (unit.kind,))


def _framed(text: str, frame: Frame) -> str:
    return frame.head + text.strip("\n").rstrip() + frame.tail


def _key(kind: Boundary, text: str) -> int:
    """Return the key of a boundary: structure first, then the hash of the first words after it."""
    return (kind << 32 | zlib.crc32(text[:_KEY_CHARS].encode())) + 1


def _cut(ends: list[float], keys: list[int], first: int, last: int) -> int:
    """Return the index of the unit before which the run from `first` to `last` is cut."""
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


def _split_at(boundary: Boundary, text: str, most_chars: float) -> list[str]:
    """Split a text at all boundaries of a kind; the parts joined are the text."""
    match boundary:
        case Boundary.SENTENCE:
            return _split_at_offsets(text, [match.end() for match in _SENTENCE_END.finditer(text)])
        case Boundary.ITEM:
            return _split_at_offsets(text, [match.start() for match in _ITEM_START.finditer(text)])
        case Boundary.LINE:
            return _LINE.findall(text)
        case Boundary.WORD:
            return _WORD.findall(text) or [text]
        case _:
            return _split_at_offsets(text, list(_character_cuts(text, max(1, int(most_chars / 4)))))


def _split_at_offsets(text: str, cuts: list[int]) -> list[str]:
    inner = [cut for cut in cuts if 0 < cut < len(text)]
    return [text[start:end] for start, end in zip([0, *inner], [*inner, len(text)], strict=True)]


def _character_cuts(text: str, most: int) -> Iterator[int]:
    """Yield cuts inside a word, by the hash of what follows; not inside what is seen as one character."""
    at = 0
    while len(text) - at > most:
        places = range(at + (most + 1) // 2, at + most + 1)
        best = min(places, key=lambda place: zlib.crc32(text[place : place + 4].encode()))
        earlier = range(best, max(at, best - _LONGEST_CLUSTER), -1)
        at = next((place for place in earlier if not _is_joined(text[place - 1], text[place])), best)
        yield at


def _is_joined(before: str, after: str) -> bool:
    """Return whether two characters are seen as one: marks, joiners, skin tones, flags and tags."""
    if after.isascii():
        return False
    return (
        _ZERO_WIDTH_JOINER in (before, after)
        or unicodedata.category(after)[0] == "M"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")
    )
