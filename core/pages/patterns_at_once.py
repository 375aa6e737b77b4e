"""Ask many patterns of a short text at once, as bits.

Most alternatives of such patterns (`menu|pager|skip-?link|tags?(?:-|$)`) are plain strings, and the others contain one,
their needle (`link`, `tag`). One regular expression looks for all strings and needles; a real pattern is tried only
where its needle is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby

_PLAIN = re.compile(r"[\w-]+")
_INNER_GROUP = re.compile(r"\([^()]*\)")
# What stands for one of several things or for nothing: `[-_]{0,2}`, `\b`, `s?`.
_UNCERTAIN = re.compile(r"(?:\[[^]]*\]|\\?.)(?:[?*]|\{[^}]*\})|\[[^]]*\]|\\.")

# Compiled when first needed: all of them at import would take 3 ms.
_compiled = cache(re.compile)
# A bit and the pattern that must be found for it.
_Trial = tuple[int, str]


def bits_at_once(patterns: Mapping[int, str], needles: Mapping[int, Sequence[str]]) -> Callable[[str], int]:
    """Return a function from a text to all bits whose pattern is found in it.

    An alternative with all its letters in groups (`(?:my|your)-?(?:ad|tag)`) has no needle that can be read from it:
    `needles` has strings for its bit, one of which is in all that it matches (`ad`, `tag`).
    """
    plain, trials = _strings(patterns, needles)
    # Inside a lookahead, which takes no letters, so that strings that overlap are all found.
    find_strings = re.compile(f"(?=({_longest_of(sorted({*plain, *trials}))}))").findall

    @cache
    def meaning(string: str) -> tuple[int, list[_Trial]]:
        """Only the longest string at a place is found: it speaks for those that it begins with, too."""
        beginnings = [string[:end] for end in range(1, len(string) + 1)]
        bits = 0
        for beginning in beginnings:
            bits |= plain.get(beginning, 0)
        return bits, [trial for beginning in beginnings for trial in trials.get(beginning, ()) if not bits & trial[0]]

    def bits_of(text: str) -> int:
        bits = 0
        for string in find_strings(text):
            certain, possible = meaning(string)
            bits |= certain
            for bit, pattern in possible:
                if not bits & bit and _compiled(pattern).search(text):
                    bits |= bit
        return bits

    return bits_of


def _strings(
    patterns: Mapping[int, str], needles: Mapping[int, Sequence[str]]
) -> tuple[dict[str, int], dict[str, list[_Trial]]]:
    """Return the bits of the plain strings, and what is to be tried where a needle is found."""
    plain: dict[str, int] = {}
    trials: dict[str, list[_Trial]] = {}
    for bit, pattern in patterns.items():
        for alternative in _alternatives(pattern):
            if _PLAIN.fullmatch(alternative):
                plain[alternative] = plain.get(alternative, 0) | bit
                continue
            for needle in _needle(alternative) or needles[bit]:
                trials.setdefault(needle, []).append((bit, alternative))
    return plain, trials


def _alternatives(pattern: str) -> list[str]:
    """Split a pattern at the bars that are in no group."""
    alternatives: list[str] = []
    for part in pattern.split("|"):
        if alternatives and alternatives[-1].count("(") > alternatives[-1].count(")"):
            alternatives[-1] += f"|{part}"
        else:
            alternatives.append(part)
    return alternatives


def _needle(alternative: str) -> list[str]:
    """Return the longest string that is in all that an alternative matches, if one can be read from it."""
    groups = 1
    while groups:
        # A class in its place: a group may be followed by `?` as well.
        alternative, groups = _INNER_GROUP.subn("[]", alternative)
    return sorted(_PLAIN.findall(_UNCERTAIN.sub(" ", alternative)), key=len)[-1:]


def _longest_of(strings: Sequence[str]) -> str:
    """Return a pattern of the longest of sorted strings; beginnings that they share are in it once.

    `re` tries alternatives one after the other: 200 in a row take five times as long as this tree of them.
    """
    if len(strings) == 1:
        return strings[0]
    by_first_letter = groupby(filter(None, strings), key=lambda string: string[0])
    branches = [letter + _longest_of([string[1:] for string in group]) for letter, group in by_first_letter]
    any_branch = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return any_branch if strings[0] else f"(?:{any_branch})?"
