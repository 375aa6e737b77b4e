"""Show where a text answers a query: the best piece of it, and which letters of that piece to mark.

Language-neutral: case and diacritics do not matter, word forms count when they begin alike, and scripts without
spaces match by pairs of characters. Gives plain text and ranges; `to_html` escapes, nothing else here makes HTML.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

Range = tuple[int, int]
"""First letter, and the one after the last."""

MOST_CHARS = 50_000
"""A chunk is a fiftieth of this; of a longer text only the beginning is looked at."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # CJK
)
"""Scripts that write words without spaces, or glue endings to them (Korean); the inside of a character class."""

_SAME_START_CHARS = 4
_MOST_ENDING_CHARS = 3
_MOST_LETTERS = 20_000
_ELLIPSIS = "…"
_WORD = re.compile(rf"[^\W{UNSPACED}]+")
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


def words(query: str) -> tuple[str, ...]:
    """The words of a query, folded, each once."""
    folded, _ = _fold(query)
    return tuple(dict.fromkeys([*_UNSPACED_RUN.findall(folded), *_WORD.findall(folded)]))


def snippet(text: str, query_words: Sequence[str], width: int = 240) -> tuple[str, list[Range]]:
    """About `width` letters of the text around most of the query's words, and the ranges to mark in them."""
    text = text[:MOST_CHARS]
    matches = _matches(text, query_words)
    start, end = _window(text, matches, max(1, width))
    before, after = _ELLIPSIS * (start > 0), _ELLIPSIS * (end < len(text))
    shift = len(before) - start
    ranges = [(first + shift, last + shift) for first, last, _ in matches if first >= start and last <= end]
    return before + text[start:end] + after, ranges


def to_html(shown: str, ranges: Sequence[Range], tag: str = "mark") -> str:
    """A snippet as HTML: everything escaped, the ranges in tags."""
    parts, at = [], 0
    for first, last in ranges:
        parts += [html.escape(shown[at:first]), f"<{tag}>", html.escape(shown[first:last]), f"</{tag}>"]
        at = last
    return "".join([*parts, html.escape(shown[at:])])


def _matches(text: str, query_words: Sequence[str]) -> list[tuple[int, int, str]]:
    """First letter, end and word of every match, in order and without overlap."""
    wanted = _wanted(tuple(query_words))
    if not wanted.spaced and not wanted.unspaced:
        return []
    folded, origin = _fold(text)
    found = [*_spaced_matches(folded, wanted), *_unspaced_matches(folded, wanted)]
    ends = (_with_marks(text, origin[last - 1] + 1) for _, last, _ in found)
    return _merged(sorted((origin[first], end, word) for (first, _, word), end in zip(found, ends, strict=True)))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The words of a query, ready to be looked for in many texts."""

    spaced: Mapping[str, list[str]]
    """By their first letters: nothing else can be alike."""
    unspaced: re.Pattern[str] | None


@lru_cache(maxsize=16)
def _wanted(query_words: tuple[str, ...]) -> _Wanted:
    folded = dict.fromkeys(word for given in query_words for word in words(given))
    spaced: dict[str, list[str]] = {}
    pairs: set[str] = set()
    for word in folded:
        if _UNSPACED_RUN.match(word):
            pairs.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            spaced.setdefault(word[:_SAME_START_CHARS], []).append(word)
    return _Wanted(spaced, re.compile(f"(?=({'|'.join(map(re.escape, sorted(pairs)))}))") if pairs else None)


def _with_marks(text: str, end: int) -> int:
    """An accent that stands on its own goes with its letter."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return end


def _spaced_matches(folded: str, wanted: _Wanted) -> list[tuple[int, int, str]]:
    found = []
    for token in _WORD.finditer(folded) if wanted.spaced else ():
        for word in wanted.spaced.get(token[0][:_SAME_START_CHARS], ()):
            if _is_alike(word, token[0]):
                found.append((*token.span(), word))
                break
    return found


def _is_alike(word: str, token: str) -> bool:
    """The same word, perhaps with another ending."""
    if word == token:
        return True
    same = 0
    for one, other in zip(word, token, strict=False):
        if one != other:
            break
        same += 1
    return same >= _SAME_START_CHARS and max(len(word), len(token)) - same <= _MOST_ENDING_CHARS


def _unspaced_matches(folded: str, wanted: _Wanted) -> list[tuple[int, int, str]]:
    return [(*match.span(1), match[1]) for match in wanted.unspaced.finditer(folded)] if wanted.unspaced else []


def _merged(matches: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    merged: list[tuple[int, int, str]] = []
    for first, last, word in matches:
        if merged and first < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], last), before[2])
        else:
            merged.append((first, last, word))
    return merged


def _window(text: str, matches: list[tuple[int, int, str]], width: int) -> Range:
    """Where to cut: the stretch with most different words, then most matches, then the earliest."""
    if len(text) <= width:
        return 0, len(text)
    first, last = _densest(matches, width)
    room = max(0, width - (last - first))
    start = max(0, min(first - room // 2, len(text) - width))
    end = min(len(text), max(start + width, last))
    return _snapped(text, start, min(first, end), forward=True), _snapped(text, end, max(last, start), forward=False)


def _densest(matches: list[tuple[int, int, str]], width: int) -> Range:
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
    """The nearest gap between words towards `limit`, if there is one; else not inside a letter and its marks."""
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
    """The text without case and diacritics, and for each of its letters where it came from."""
    if text.isascii():
        return text.lower(), range(len(text))
    folded = text.translate(_plain)
    if _plain.longer_or_gone.isdisjoint(text):
        return folded, range(len(text))
    return folded, [at for at, letter in enumerate(text) for _ in _plain[ord(letter)]]


class _Plain(dict[int, str]):
    """Letters folded, as far as they were met; Hangul stays whole, since NFKD takes it apart."""

    longer_or_gone: set[str]
    """Letters that do not become one letter: ß, ligatures, accents that stand on their own."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        parts = letter if "\uac00" <= letter <= "\ud7af" else unicodedata.normalize("NFKD", letter.casefold())
        plain = "".join(part for part in parts if not unicodedata.combining(part))
        if len(plain) != 1:
            self.longer_or_gone.add(letter)
        if len(self) >= _MOST_LETTERS:
            self.clear()
        self[code] = plain
        return plain


_plain = _Plain()
_plain.longer_or_gone = set()
