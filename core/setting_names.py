"""Names that look like settings and are none: a typo would otherwise be ignored without a word."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import NamedTuple

FILE_SIMILARITY = 0.6
ENVIRONMENT_SIMILARITY = 0.85
"""High: GITHUB_ACTION and GITHUB_GRAPHQL_URL, which GitHub's machines set, are 0.8 of one of ours."""


def misnamed(file_names: Iterable[str], environment_names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return a sentence for each unknown name; names are compared without case.

    Every foreign name in `.env` counts, since that file is ours. The environment is everybody's: there only a name
    counts that is plainly one of ours, misspelt.
    """
    ours = frozenset(name.upper() for name in known)
    foreign = {name.upper() for name in file_names} - ours
    sentences = {name: _sentence(f".env: {name}", _nearest(name, ours, FILE_SIMILARITY)) for name in sorted(foreign)}
    for name in sorted({name.upper() for name in environment_names} - ours - foreign):
        if nearest := _nearest_of_kin(name, ours) or _misspelt(name, ours):
            sentences[name] = _sentence(name, nearest)
    return sentences


def _sentence(name: str, nearest: str | None) -> str:
    advice = f"did you mean {nearest}?" if nearest else "it is ignored. .env.example has them all."
    return f"{name} is not a setting; {advice}"


def _nearest(name: str, known: Collection[str], similarity: float) -> str | None:
    longer = [ours for ours in known if ours.startswith(f"{name}_")]  # the unit is missing: FETCH_TIMEOUT
    return min(longer, key=lambda ours: (len(ours), ours)) if longer else _closest(name, known, similarity)


def _nearest_of_kin(name: str, known: frozenset[str]) -> str | None:
    """Return the nearest of ours with the same first word."""
    first, _, rest = name.partition("_")
    kin = _spellings(known).by_first_word.get(first.rstrip("S"), ())
    return _nearest(name, kin, ENVIRONMENT_SIMILARITY) if rest and kin else None


@functools.cache
def _misspelt(name: str, known: frozenset[str]) -> str | None:
    """Return ours with the same words in another order, or nearly the same letters; DB_LOG_LEVEL is someone else's."""
    words, spellings = tuple(sorted(name.split("_"))), _spellings(known)
    if any(name.endswith(f"_{ours}") for ours in known):
        return None
    if words in spellings.by_words:
        return spellings.by_words[words]
    plain = name.replace("_", "")
    # Each letter that only one of them has, and each by which one is longer, is one that differs. Without this look
    # difflib, which is slow, would compare every name of the environment at every start.
    alike = []
    for ours, letters in spellings.letters.items():
        most = (1 - ENVIRONMENT_SIMILARITY) * (len(plain) + len(ours))
        if abs(len(plain) - len(ours)) <= most and len(letters.symmetric_difference(plain)) <= most:
            alike.append(ours)
    closest = _closest(plain, alike, ENVIRONMENT_SIMILARITY)
    return spellings.by_letters[closest] if closest else None


class _Spellings(NamedTuple):
    """Our names in the forms in which others are compared with them."""

    by_words: dict[tuple[str, ...], str]
    by_letters: dict[str, str]
    letters: dict[str, frozenset[str]]
    by_first_word: dict[str, list[str]]


@functools.cache
def _spellings(known: frozenset[str]) -> _Spellings:
    names = sorted(known, reverse=True)  # of two with the same words the first one counts
    by_letters = {ours.replace("_", ""): ours for ours in sorted(known)}
    by_words = {tuple(sorted(ours.split("_"))): ours for ours in names}
    by_first_word: dict[str, list[str]] = {}
    for ours in known:
        by_first_word.setdefault(ours.partition("_")[0].rstrip("S"), []).append(ours)
    return _Spellings(by_words, by_letters, {ours: frozenset(ours) for ours in by_letters}, by_first_word)


def _closest(name: str, known: Collection[str], similarity: float) -> str | None:
    if not known:
        return None
    import difflib  # here: hardly ever is a name in doubt

    return next(iter(difflib.get_close_matches(name, known, 1, similarity)), None)
