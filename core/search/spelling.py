"""Generate the words at one typing error from a word, and replace words of a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from core.search.letters import UNSPACED

LEAST_LETTERS, MOST_LETTERS = 4, 24
"""Of a word that is corrected: shorter ones have too many neighbours, longer ones are no words."""
LEAST_DOUBTFUL_LETTERS = 5
"""A shorter word is corrected only if letters were exchanged or one was left out: `vole` is none but `vote`."""
MOST_CORRECTED = 4
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


def plain_words(question: str) -> list[str]:
    """Return the words of a question, each once: none in quotes, none with digits."""
    outside = _QUOTED.sub(" ", question)
    pieces = re.findall(r"\S+", outside)
    plain = " ".join(piece for piece in pieces if not re.search(r"[\d_/@\\]|\w[.:]\w", piece))
    return [*dict.fromkeys(_WORD.findall(plain))]


def _letters(word: str, languages: Sequence[str]) -> str:
    latin = _LATIN + "".join(_OF_LANGUAGE.get(language, "") for language in languages)
    return next((own for script, own in _SCRIPTS if script.search(word)), latin)


def neighbours(word: str, languages: Sequence[str]) -> Iterator[str]:
    """Yield what a word becomes by one letter less, more or other, or two exchanged; by letters of its own script.

    The first letter stays, or is one of the two. Nor does a word lose its only accent: `mansión` is not `mansion`.
    """
    letters = _letters(word, languages)
    seen, has_accents = {word}, not word.isascii()
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        edits = [head + letter + tail for letter in letters] if head else []
        if head and tail and len(word) >= LEAST_DOUBTFUL_LETTERS:
            edits += [head + tail[1:], *(head + letter + tail[1:] for letter in letters)]
        if len(tail) > 1:
            edits.append(head + tail[1] + tail[0] + tail[2:])
        for edit in edits:
            if edit not in seen and not (has_accents and edit.isascii()):
                seen.add(edit)
                yield edit


def other_beginnings(word: str, languages: Sequence[str]) -> Iterator[str]:
    """Yield what a word becomes by another first letter, or one before it; not without it: `katomic` is a name."""
    letters = _letters(word, languages)
    yield from (letter + word[1:] for letter in letters if letter != word[0])
    yield from (letter + word for letter in letters)


def commonest_first(counts: Mapping[str, int]) -> list[str]:
    """Return the words that occur at all, the commonest first."""
    return sorted(filter(counts.__getitem__, counts), key=lambda word: (-counts[word], word))


def corrected(question: str, is_known: Callable[[str], bool], correct: Callable[[str, bool], str]) -> Correction:
    """Return the question with its unknown words corrected.

    A question of which more than half is unknown may be in another language or about something else: it stays as it
    is, unless each of these words is one slip away from a word of the texts. `correct` is told so by its second value.
    """
    words = plain_words(question)
    unknown = [word for word in words if LEAST_LETTERS <= len(word) <= MOST_LETTERS and not is_known(word)]
    is_doubtful = 2 * len(unknown) > max(2, len(words))
    if is_doubtful and len(unknown) > MOST_CORRECTED:
        return Correction(question)
    some = unknown[:MOST_CORRECTED]
    changes = tuple((word, right) for word in some if (right := correct(word.lower(), is_doubtful)))
    if not changes or (is_doubtful and len(changes) < len(unknown)):
        return Correction(question)
    replaced = dict(changes)
    parts = re.split(f"({_QUOTED.pattern})", question)
    parts[::2] = [_WORD.sub(lambda match: replaced.get(match[0], match[0]), part) for part in parts[::2]]
    return Correction("".join(parts), changes)
