"""Cut the passage of a text that answers a query best, and return which characters of it to highlight."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from core.search.snippet_matching import Match, Question

Range = tuple[int, int]
"""The first letter, and the one after the last."""

MOST_CHARS = 50_000
"""A chunk is a fiftieth of this; of a longer text only the beginning is read."""

_ELLIPSIS = "…"
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]{0,3}(?=\s)|[。！？]|\n")
_SPACE = re.compile(r"\s")


def snippet(text: str, question: Question, width: int) -> tuple[str, list[Range]]:
    """Return at most `width` letters of the text around most of the question's words, and the ranges to highlight.

    Dots where it was cut come on top.
    """
    text = text[:MOST_CHARS]
    matches = question.matches(text)
    start, end = _window(text, matches, max(1, width))
    before, after = _ELLIPSIS * (start > 0), _ELLIPSIS * (end < len(text))
    shift = len(before) - start
    ranges = [(one.first + shift, one.last + shift) for one in matches if one.first >= start and one.last <= end]
    return before + text[start:end] + after, ranges


def marked_parts(text: str, ranges: Sequence[Range]) -> list[tuple[str, bool]]:
    """Return the text in parts, and whether each is to be highlighted; for pages, which escape every part."""
    parts: list[tuple[str, bool]] = []
    end = 0
    for first, last in ranges:
        parts += [(text[end:first], False), (text[first:last], True)]
        end = max(end, last)
    return [(part, is_hit) for part, is_hit in [*parts, (text[end:], False)] if part]


def _window(text: str, matches: list[Match], width: int) -> Range:
    """Return where to cut: around the best stretch, at the ends of sentences where they are near, else of words."""
    if len(text) <= width:
        return 0, len(text)
    first, last = _best_stretch(matches, width)
    room = width - (last - first)
    start = _start(text, max(0, min(first - room // 2, len(text) - width)), max(0, last - width), first)
    return start, _end(text, min(len(text), start + width), max(last, start + 1), width // 4)


def _best_stretch(matches: list[Match], width: int) -> Range:
    """Return the stretch with most different words, then with the rarest of this text, then most, then the first."""
    matches = [one for one in matches if one.last - one.first <= width]
    totals = Counter(one.word for one in matches)
    best, best_score, begin = (0, 0), (0, 0.0, 0), 0
    inside: dict[str, int] = {}
    weights: dict[str, int] = {one.word: one.weight for one in matches}
    for at, match in enumerate(matches):
        inside[match.word] = inside.get(match.word, 0) + 1
        while match.last - matches[begin].first > width:
            leaving = matches[begin].word
            inside[leaving] -= 1
            if not inside[leaving]:
                del inside[leaving]
            begin += 1
        rarity = sum(1 / totals[word] for word in inside)
        score = (sum(weights[word] for word in inside), rarity, at - begin + 1)
        if score > best_score:
            best, best_score = (matches[begin].first, match.last), score
    return best


def _start(text: str, ideal: int, earliest: int, latest: int) -> int:
    """Return the beginning of a sentence that is nearest to the ideal, else of a word, else the ideal."""
    if ideal == 0:
        return 0
    begins = [_after_spaces(text, one.end(), latest) for one in _SENTENCE_END.finditer(text, earliest, latest)]
    begins += [0] * (earliest == 0)
    if near := [at for at in begins if at <= latest]:
        return min(near, key=lambda at: abs(at - ideal))
    gap = _SPACE.search(text, max(0, ideal - 1), latest)
    at = gap.end() if gap else ideal
    while at < latest and unicodedata.combining(text[at]):
        at += 1
    return at


def _after_spaces(text: str, at: int, latest: int) -> int:
    while at < latest and text[at].isspace():
        at += 1
    return at


def _end(text: str, end: int, earliest: int, near: int) -> int:
    """Return the last end of a sentence that is near, else of a word, else before a letter with its accents."""
    if end == len(text):
        return end
    ends = [one.end() for one in _SENTENCE_END.finditer(text, max(earliest, end - near) - 1, end)]
    if ends and ends[-1] >= earliest:
        return len(text[: ends[-1]].rstrip()) if text[ends[-1] - 1].isspace() else ends[-1]
    gaps = [one.start() for one in _SPACE.finditer(text, earliest, min(len(text), end + 1))]
    if gaps:
        return gaps[-1]
    at = end
    while at > earliest and unicodedata.combining(text[at]):
        at -= 1
    return at
