"""Cut the snippet of a text that fits a query best, and find the letters to highlight in it.

Language-neutral: case and diacritics do not matter, word forms count when they begin alike, and scripts without
spaces match by pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

Range = tuple[int, int]
"""The first letter, and the one after the last."""
Match = tuple[int, int, str]
"""A range, and the word of the query that is there."""

MOST_CHARS = 50_000
"""A chunk is a fiftieth of this; of a longer text only the beginning is read."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # CJK
)
"""Scripts that write words without spaces, or glue endings to them (Korean); the inside of a character class."""

_SAME_START_CHARS = 4
_MOST_ENDING_CHARS = 3
_MOST_CACHED_LETTERS = 20_000
_ELLIPSIS = "…"
_WORD = re.compile(rf"[^\W{UNSPACED}]+")
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


def words(query: str) -> tuple[str, ...]:
    """Return the words of a query, folded, each once."""
    folded, _ = _fold(query)
    return tuple(dict.fromkeys([*_UNSPACED_RUN.findall(folded), *_WORD.findall(folded)]))


def snippet(text: str, query_words: Sequence[str], width: int = 240) -> tuple[str, list[Range]]:
    """Return about `width` letters of the text around most of the query's words, and the ranges to highlight."""
    text = text[:MOST_CHARS]
    matches = _matches(text, query_words)
    start, end = _window(text, matches, max(1, width))
    before, after = _ELLIPSIS * (start > 0), _ELLIPSIS * (end < len(text))
    shift = len(before) - start
    ranges = [(first + shift, last + shift) for first, last, _ in matches if first >= start and last <= end]
    return before + text[start:end] + after, ranges


def marked_parts(text: str, ranges: Sequence[Range]) -> list[tuple[str, bool]]:
    """Return the text in parts, and whether each is to be highlighted; for pages, which escape every part."""
    parts: list[tuple[str, bool]] = []
    end = 0
    for first, last in ranges:
        parts += [(text[end:first], False), (text[first:last], True)]
        end = max(end, last)
    return [(part, is_hit) for part, is_hit in [*parts, (text[end:], False)] if part]


def _matches(text: str, query_words: Sequence[str]) -> list[Match]:
    """Return every match, in order and without overlap."""
    patterns = _patterns(tuple(query_words))
    if not patterns.words and not patterns.pairs:
        return []
    folded, origin = _fold(text)
    matches: list[Match] = []
    for token in _WORD.finditer(folded) if patterns.words else ():
        for word in patterns.words.get(token[0][:_SAME_START_CHARS], ()):
            if _is_alike(word, token[0]):
                matches.append((*token.span(), word))
                break
    if patterns.pairs:
        matches += [(*pair.span(1), pair[1]) for pair in patterns.pairs.finditer(folded)]
    in_text = [(origin[first], _with_marks(text, origin[last - 1] + 1), word) for first, last, word in matches]
    return _merged(sorted(in_text))


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The words of a query, prepared to be found in many texts."""

    words: Mapping[str, list[str]]
    """By their first letters: nothing else can be alike."""
    pairs: re.Pattern[str] | None
    """Pairs of characters, of scripts without spaces."""


@lru_cache(maxsize=16)
def _patterns(query_words: tuple[str, ...]) -> _Patterns:
    by_start: dict[str, list[str]] = {}
    pairs: set[str] = set()
    for word in dict.fromkeys(word for given in query_words for word in words(given)):
        if _UNSPACED_RUN.match(word):
            pairs.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            by_start.setdefault(word[:_SAME_START_CHARS], []).append(word)
    return _Patterns(by_start, re.compile(f"(?=({'|'.join(map(re.escape, sorted(pairs)))}))") if pairs else None)


def _with_marks(text: str, end: int) -> int:
    """Move an end behind the accents that stand on their own: they go with their letter."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return end


def _is_alike(word: str, token: str) -> bool:
    """Whether it is the same word, perhaps with another ending."""
    if word == token:
        return True
    same = 0
    for one, other in zip(word, token, strict=False):
        if one != other:
            break
        same += 1
    return same >= _SAME_START_CHARS and max(len(word), len(token)) - same <= _MOST_ENDING_CHARS


def _merged(matches: list[Match]) -> list[Match]:
    merged: list[Match] = []
    for first, last, word in matches:
        if merged and first < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], last), before[2])
        else:
            merged.append((first, last, word))
    return merged


def _window(text: str, matches: list[Match], width: int) -> Range:
    """Return where to cut: the stretch with most different words, then most matches, then the earliest."""
    if len(text) <= width:
        return 0, len(text)
    first, last = _densest(matches, width)
    room = max(0, width - (last - first))
    start = max(0, min(first - room // 2, len(text) - width))
    end = min(len(text), max(start + width, last))
    return _snapped(text, start, min(first, end), forward=True), _snapped(text, end, max(last, start), forward=False)


def _densest(matches: list[Match], width: int) -> Range:
    if not matches:
        return 0, 0
    best, best_score, begin = (matches[0][0], min(matches[0][1], matches[0][0] + width)), (0, 0), 0
    counts: dict[str, int] = {}
    for at, (_, last, word) in enumerate(matches):
        counts[word] = counts.get(word, 0) + 1
        while begin < at and last - matches[begin][0] > width:
            leaving = matches[begin][2]
            counts[leaving] -= 1
            if not counts[leaving]:
                del counts[leaving]
            begin += 1
        score = (len(counts), at - begin + 1)
        if score > best_score:
            best, best_score = (matches[begin][0], last), score
    return best


def _snapped(text: str, at: int, limit: int, forward: bool) -> int:
    """Return the nearest gap between words towards `limit`, else behind the marks of a letter."""
    if at in (0, len(text)):
        return at
    if forward:
        gap = re.compile(r"\s").search(text, max(0, at - 1), limit)
        at = gap.end() if gap else at
    else:
        gap_at = max((text.rfind(space, limit, at + 1) for space in " \n\t"), default=-1)
        at = gap_at if gap_at >= limit and gap_at > 0 else at
    return _with_marks(text, at)


def _fold(text: str) -> tuple[str, Sequence[int]]:
    """Return the text without case and diacritics, and for each of its letters where it came from."""
    if text.isascii():
        return text.lower(), range(len(text))
    folded = text.translate(_folded_letters)
    if _folded_letters.longer_or_gone.isdisjoint(text):
        return folded, range(len(text))
    return folded, [at for at, letter in enumerate(text) for _ in _folded_letters[ord(letter)]]


class _FoldedLetters(dict[int, str]):
    """A cache of letters without case and diacritics. Hangul stays whole, since NFKD takes it apart."""

    def __init__(self) -> None:
        super().__init__()
        self.longer_or_gone: set[str] = set()
        """Letters that do not become one letter: ß, ligatures, accents that stand on their own."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        parts = letter if "\uac00" <= letter <= "\ud7af" else unicodedata.normalize("NFKD", letter.casefold())
        plain = "".join(part for part in parts if not unicodedata.combining(part))
        if len(plain) != 1:
            self.longer_or_gone.add(letter)
        if len(self) >= _MOST_CACHED_LETTERS:
            self.clear()
        self[code] = plain
        return plain


_folded_letters = _FoldedLetters()
