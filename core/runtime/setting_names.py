"""Find names that look like settings and are none: a typo would otherwise be ignored without a word.

Every foreign name in `.env` is told, since that file is ours. The environment is everybody's: there only a name that
is plainly one of ours, misspelt, is told.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

FILE_SIMILARITY = 0.6
ENVIRONMENT_SIMILARITY = 0.85
"""High: GITHUB_ACTION and GITHUB_GRAPHQL_URL, which GitHub's machines set, are 0.8 of one of ours."""


def misnamed(in_file: Iterable[str], in_environment: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return a sentence for each unknown name; names are compared without case."""
    ours = {name.upper() for name in known}
    foreign = {name.upper() for name in in_file} - ours
    found = {name: _sentence(f".env: {name}", _nearest(name, ours, FILE_SIMILARITY)) for name in sorted(foreign)}
    for name in sorted({name.upper() for name in in_environment} - ours - foreign):
        nearest = _plainly_ours(name, ours)
        if nearest:
            found[name] = _sentence(name, nearest)
    return found


def _sentence(name: str, nearest: str | None) -> str:
    advice = f"did you mean {nearest}?" if nearest else "it is ignored. .env.example has them all."
    return f"{name} is not a setting; {advice}"


def _nearest(name: str, known: Collection[str], similarity: float) -> str | None:
    longer = [ours for ours in known if ours.startswith(f"{name}_")]  # the unit is missing: FETCH_TIMEOUT
    close = difflib.get_close_matches(name, known, 1, similarity)
    return min(longer, key=lambda ours: (len(ours), ours)) if longer else next(iter(close), None)


def _plainly_ours(name: str, known: Collection[str]) -> str | None:
    first, _, rest = name.partition("_")
    kin = [ours for ours in known if ours.partition("_")[0].rstrip("S") == first.rstrip("S")]
    nearest = _nearest(name, kin, ENVIRONMENT_SIMILARITY) if rest and kin else None
    return nearest or _misspelt(name, known)


def _misspelt(name: str, known: Collection[str]) -> str | None:
    """Ours with the same words in another order, or with nearly the same letters; DB_LOG_LEVEL is somebody else's."""
    words = sorted(name.split("_"))
    if any(name.endswith(f"_{ours}") for ours in known):
        return None
    for ours in sorted(known):
        if sorted(ours.split("_")) == words:
            return ours
    letters = {ours.replace("_", ""): ours for ours in sorted(known)}
    close = difflib.get_close_matches(name.replace("_", ""), letters, 1, ENVIRONMENT_SIMILARITY)
    return letters[close[0]] if close else None
