"""Generate the words at one typing error from a word, and replace words of a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from core.search.letters import UNSPACED

LEAST_LETTERS, MOST_LETTERS = 4, 24
"""Of a word that is corrected: shorter ones have too many neighbours, longer ones are no words."""
MOST_CORRECTED = 4
SAME_START = 4.0
"""So many times commoner must a word be that begins with another letter: few slips are in the first one."""
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_OF_LANGUAGE = {
    "cs": "áčďéěíňóřšťúůýž",
    "da": "æøå",
    "de": "äöüß",
    "es": "áéíóúüñ",
    "fi": "äöå",
    "fr": "àâæçéèêëîïôœùûü",
    "hu": "áéíóöőúüű",
    "it": "àèéìòù",
    "nl": "ëïé",
    "no": "æøå",
    "pl": "ąćęłńóśźż",
    "pt": "áâãàçéêíóôõú",
    "ro": "ăâîșț",
    "sv": "åäö",
    "tr": "çğıöşü",
}
_SCRIPTS = (
    (re.compile("[\u0400-\u04ff]"), "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ"),
    (re.compile("[\u0370-\u03ff]"), "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώ"),
)
_WORD = re.compile(rf"[^\W\d_{UNSPACED}]+")
_QUOTED = re.compile('["“”„«»][^"“”„«»]+["“”„«»]')


class Correction(NamedTuple):
    """A question as it is asked of the index, and the words of it that were changed."""

    text: str
    changes: tuple[tuple[str, str], ...] = ()
    """As written, and as corrected."""


def words_to_check(question: str) -> list[str]:
    """Return the words of a question that may be corrected, each once: none in quotes, none with digits."""
    outside = _QUOTED.sub(" ", question)
    pieces = re.findall(r"\S+", outside)
    plain = " ".join(piece for piece in pieces if not re.search(r"[\d_/@\\]|\w[.:]\w", piece))
    return [*dict.fromkeys(word for word in _WORD.findall(plain) if LEAST_LETTERS <= len(word) <= MOST_LETTERS)]


def neighbours(word: str, languages: Sequence[str]) -> Iterator[str]:
    """Yield what a word becomes by one letter less, more or other, or two exchanged; by letters of its own script."""
    latin = _LATIN + "".join(_OF_LANGUAGE.get(language, "") for language in languages)
    letters = next((own for script, own in _SCRIPTS if script.search(word)), latin)
    seen = {word}
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        edits = [head + letter + tail for letter in letters]
        if tail:
            edits += [head + tail[1:], *(head + letter + tail[1:] for letter in letters)]
        if len(tail) > 1:
            edits.append(head + tail[1] + tail[0] + tail[2:])
        yield from (edit for edit in edits if not (edit in seen or seen.add(edit)))  # type: ignore[func-returns-value]


def best_neighbour(word: str, counts: Mapping[str, int]) -> str:
    """Return the commonest of the words, of which one that begins alike counts more; empty if there is none."""
    return max(
        counts, key=lambda other: (counts[other] * (SAME_START if other[0] == word[0] else 1), other), default=""
    )


def corrected(question: str, is_known: Callable[[str], bool], correct: Callable[[str], str]) -> Correction:
    """Return the question with its unknown words corrected.

    A question of which more than half is unknown is in another language or about something else: it stays as it is.
    """
    words = words_to_check(question)
    unknown = [word for word in words if not is_known(word)]
    if not unknown or 2 * len(unknown) > max(2, len(words)):
        return Correction(question)
    changes = tuple((word, right) for word in unknown[:MOST_CORRECTED] if (right := correct(word.lower())))
    replaced = dict(changes)
    parts = re.split(f"({_QUOTED.pattern})", question)
    parts[::2] = [_WORD.sub(lambda match: replaced.get(match[0], match[0]), part) for part in parts[::2]]
    return Correction("".join(parts), changes)
