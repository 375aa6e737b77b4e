"""Compare two versions of a text: added and removed lines, and the words in them that differ.

Bounded by counted steps and not by a clock, so that the same texts always give the same answer: what would take more
steps is shown as replaced as a whole.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from difflib import Match
from enum import StrEnum

from core.value_class import value_class

MOST_LINES = 5_000
MOST_CHARS = 500_000
"""Longer texts are not compared."""
MOST_STEPS = 300_000
"""Comparisons for all lines, and as many for all words: about a tenth of a second."""
CONTEXT_LINES = 1
"""Unchanged lines that are shown around a change."""
_WORD = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


class DiffKind(StrEnum):
    """What became of a line."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    GAP = "gap"
    """Unchanged lines that are left out; the text says how many."""


@value_class
class DiffLine:
    """A line, in parts that differ from the other version or not."""

    kind: DiffKind
    """Of `gap` the text says how many lines are left out."""
    parts: tuple[tuple[str, bool], ...]
    """Pieces of the line, and whether each differs."""


def diff_texts(older: str, newer: str) -> list[DiffLine] | None:
    """Return the changes from one text to another; None if they are too long to be compared."""
    before, after = older.splitlines(), newer.splitlines()
    if max(len(before), len(after)) > MOST_LINES or max(len(older), len(newer)) > MOST_CHARS:
        return None
    word_budget = _Budget(MOST_STEPS)
    lines: list[DiffLine] = []
    opcodes = _opcodes(before, after, _Budget(MOST_STEPS))
    for number, (tag, first, last, new_first, new_last) in enumerate(opcodes):
        if tag == "equal":
            lines += _context(before[first:last], is_first=number == 0, is_last=number == len(opcodes) - 1)
        else:
            lines += _changed(before[first:last], after[new_first:new_last], word_budget)
    return lines


class _Budget:
    """Steps that are left for all comparisons together."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def take(self, steps: int) -> bool:
        """Take so many steps; False if there are not enough."""
        self.steps -= steps
        return self.steps >= 0


class _BoundedMatcher(difflib.SequenceMatcher[str]):
    """Finds no more matches when the budget is used up."""

    def __init__(self, a: Sequence[str], b: Sequence[str], budget: _Budget) -> None:
        super().__init__(None, a, b)
        self._before = a
        self._budget = budget

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return the longest match, or an empty one."""
        places: dict[str, list[int]] = self.b2j  # type: ignore[attr-defined]
        if not self._budget.take(1 + sum(1 + len(places.get(one, ())) for one in self._before[alo:ahi])):
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


Opcode = tuple[str, int, int, int, int]


def _opcodes(before: Sequence[str], after: Sequence[str], budget: _Budget) -> list[Opcode]:
    """Return how to turn one sequence into the other; what both begin and end with costs nothing."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    middle = _BoundedMatcher(before[start : len(before) - end], after[start : len(after) - end], budget).get_opcodes()
    found: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    found += [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in middle]
    if end:
        found.append(("equal", len(before) - end, len(before), len(after) - end, len(after)))
    return found


def _context(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[DiffLine]:
    """Yield the lines next to a change, and how many are left out."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    hidden = len(lines) - head - tail
    if hidden <= 1:
        yield from (DiffLine(DiffKind.SAME, ((line, False),)) for line in lines)
        return
    yield from (DiffLine(DiffKind.SAME, ((line, False),)) for line in lines[:head])
    yield DiffLine(DiffKind.GAP, ((str(hidden), False),))
    yield from (DiffLine(DiffKind.SAME, ((line, False),)) for line in lines[len(lines) - tail :])


def _changed(before: Sequence[str], after: Sequence[str], budget: _Budget) -> Iterator[DiffLine]:
    """Yield removed and added lines; as many of one as of the other are compared word by word."""
    if len(before) != len(after):
        yield from (DiffLine(DiffKind.REMOVED, ((line, False),)) for line in before)
        yield from (DiffLine(DiffKind.ADDED, ((line, False),)) for line in after)
        return
    for old, new in zip(before, after, strict=True):
        old_words, new_words = _WORD.findall(old), _WORD.findall(new)
        opcodes = _opcodes(old_words, new_words, budget)
        is_alike = any(tag == "equal" for tag, *_ in opcodes)
        yield DiffLine(
            DiffKind.REMOVED,
            tuple(("".join(old_words[a:b]), is_alike and tag != "equal") for tag, a, b, _, _ in opcodes if a < b),
        )
        yield DiffLine(
            DiffKind.ADDED,
            tuple(("".join(new_words[c:d]), is_alike and tag != "equal") for tag, _, _, c, d in opcodes if c < d),
        )
