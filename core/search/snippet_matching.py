"""Find the words of a query in a text: whole words with the same stem, quoted phrases, pairs of characters.

Case and diacritics do not matter. Scripts without spaces match by pairs of characters. Stop words of a question
are not looked for, unless it has no others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from core.search.languages import MAIN_LANGUAGE, language_of
from core.search.letters import PHRASE, UNSPACED, end_with_accents, fold_letters
from core.search.query_stop_words import is_stop_word, without_stop_words
from core.value_class import value_class

Stem = Callable[[str, str], str]
"""Returns the term under which the index keeps a word of a text in a language."""

MOST_QUESTION_CHARS = 2_000
MOST_WORDS = 64
"""Of a question; as many as the index looks for."""
MOST_PHRASE_WORDS = 32
MOST_KNOWN, MOST_KNOWN_CHARS = 20_000, 100
"""Words whose terms are remembered: most come again in other texts, and stemming them took half the time. A longer one
is compared as it is written."""

# As the index cuts, at every sign. In India's scripts vowel signs are no letters for `re`, but belong to words.
_SIGNS = "\u0900-\u0963\u0966-\u0dff"
_LETTERS = rf"[^\W_{UNSPACED}]"
_WORD = re.compile(rf"{_LETTERS}++(?:[{_SIGNS}]++{_LETTERS}*+)*+")
_INDIC = re.compile("[\u0900-\u0dff]")
_NON_ASCII_WORD = re.compile(r"[^\x00-\x7f](?<=\w)(?<!\w.)\w*+")
_WORD_OR_CHARACTER = re.compile(rf"{_WORD.pattern}|[{UNSPACED}]")
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


class Match(NamedTuple):
    """Where a word or phrase of the question is."""

    first: int
    last: int
    """The letter after it."""
    word: str
    weight: int = 1
    """How many words it is."""


def as_written(word: str, language: str) -> str:
    """Stem nothing: the word itself."""
    del language
    return word


@value_class
class Question:
    """A question, prepared to be found in many texts of one language."""

    language: str
    stem: Stem
    folded: Mapping[str, str]
    """The words by how they look without case and diacritics."""
    stems: Mapping[str, str]
    initials: frozenset[str]
    """First letters of the words: stemming changes ends, so no other word needs to be stemmed."""
    phrases: tuple[tuple[frozenset[str], ...], ...]
    """Of each word in quotes its forms."""
    pairs: re.Pattern[str] | None
    """Of scripts without spaces."""

    def matches(self, text: str) -> list[Match]:
        """Return every match, in order and without overlap."""
        folded, origin = fold_letters(text)
        found: list[Match] = []
        for token in self._candidates(folded):
            written = text[origin[token.start()] : origin[token.end() - 1] + 1]
            if word := self._word(token[0], written):
                found.append(Match(*token.span(), word))
        if self.pairs:
            found += [Match(*pair.span(1), pair[1]) for pair in self.pairs.finditer(folded)]
        if self.phrases:
            found += self._phrase_matches(folded)
        ends = ((origin[one.first], end_with_accents(text, origin[one.last - 1] + 1)) for one in found)
        return _merged(sorted(Match(*end, one.word, one.weight) for end, one in zip(ends, found, strict=True)))

    def _candidates(self, folded: str) -> Iterator[re.Match[str]]:
        """Yield the words of a text that may be of the question. What is not ASCII may lose its first letters too."""
        is_ascii = folded.isascii()
        if not is_ascii and (_UNSPACED_RUN.search(folded) or _INDIC.search(folded)):
            words = _WORD.finditer(folded)
            yield from (word for word in words if word[0][0] in self.initials or not word[0].isascii())
            return
        # Elsewhere a word is \w but for `_`; a pattern for each first letter takes half the time.
        spaced = folded.replace("_", " ")
        for initial in filter(str.isascii, self.initials):
            yield from _words_with(initial).finditer(spaced)
        if self.folded and not is_ascii:
            yield from _NON_ASCII_WORD.finditer(spaced)

    def _word(self, plain: str, written: str) -> str:
        """Return the word of the question that this is, perhaps with another ending; empty: none."""
        if word := self.folded.get(plain):
            return word
        if len(written) > MOST_KNOWN_CHARS:
            return ""
        for term in _terms(plain, written, self.language, self.stem):
            if word := self.stems.get(term):
                return word
        return ""

    def _phrase_matches(self, folded: str) -> Iterator[Match]:
        tokens = [(one.span(), _forms(one[0], self.language, self.stem)) for one in _WORD_OR_CHARACTER.finditer(folded)]
        for phrase in self.phrases:
            size = len(phrase)
            for at in range(len(tokens) - size + 1):
                if all(wanted & tokens[at + place][1] for place, wanted in enumerate(phrase)):
                    yield Match(tokens[at][0][0], tokens[at + size - 1][0][1], " ".join(map(min, phrase)), size)


@lru_cache(maxsize=16)
def read_question(question: str, language: str = "", stem: Stem = as_written) -> Question:
    """Return a question as it is looked for in texts of a language."""
    question = question[:MOST_QUESTION_CHARS]
    languages = [language_of(question) or MAIN_LANGUAGE, language]
    quoted = [_phrase(one, language, stem) for one in PHRASE.findall(question)]
    phrases = tuple(filter(None, quoted))
    outside = PHRASE.sub(" ", question) if phrases else question
    plain, _ = fold_letters(outside)
    # Beside a phrase, small words are not all that the question has.
    words = _without_stop_words(_words(outside), languages, has_others=bool(phrases))[:MOST_WORDS]
    runs = _UNSPACED_RUN.findall(plain)
    pairs = without_stop_words([run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))], ())
    return Question(
        language,
        stem,
        {fold_letters(word)[0]: word for word in words},
        {term: word for word in words for term in _forms(word, language, stem) if term},
        frozenset(fold_letters(word)[0][0] for word in words),
        phrases,
        re.compile(f"(?=({'|'.join(map(re.escape, sorted(set(pairs))))}))") if pairs else None,
    )


def _words(text: str) -> list[str]:
    """Return the words as they are written, each once."""
    folded, origin = fold_letters(text)
    spans = ((origin[one.start()], origin[one.end() - 1] + 1) for one in _WORD.finditer(folded))
    return [*dict.fromkeys(text[first : end_with_accents(text, last)].lower() for first, last in spans)]


def _without_stop_words(words: list[str], languages: list[str], *, has_others: bool) -> list[str]:
    kept = without_stop_words(words, languages)
    is_small = has_others and kept == words and all(any(is_stop_word(word, one) for one in languages) for word in words)
    return [] if is_small else kept


def _phrase(quoted: str, language: str, stem: Stem) -> tuple[frozenset[str], ...]:
    tokens = _WORD_OR_CHARACTER.findall(fold_letters(quoted)[0])[:MOST_PHRASE_WORDS]
    return tuple(_forms(token, language, stem) for token in tokens)


@lru_cache(maxsize=MOST_KNOWN)
def _terms(plain: str, written: str, language: str, stem: Stem) -> tuple[str, ...]:
    """Return the terms of a word of a text; none of a stop word, which a question has only as it is written."""
    if is_stop_word(plain, language):
        return ()
    return tuple(stem(form, language) for form in dict.fromkeys((written, plain)))


@lru_cache(maxsize=64)
def _words_with(initial: str) -> re.Pattern[str]:
    return re.compile(rf"{initial}(?<!\w.)\w*+")


def _forms(word: str, language: str, stem: Stem) -> frozenset[str]:
    """Return a word without diacritics, and its stem with and without them."""
    if len(word) > MOST_KNOWN_CHARS:
        return frozenset((fold_letters(word)[0],))
    return _known_forms(word, language, stem)


@lru_cache(maxsize=MOST_KNOWN)
def _known_forms(word: str, language: str, stem: Stem) -> frozenset[str]:
    plain = fold_letters(word)[0]
    return frozenset(filter(None, (plain, stem(plain, language), stem(word, language))))


def _merged(matches: list[Match]) -> list[Match]:
    merged: list[Match] = []
    for match in matches:
        if merged and match.first < merged[-1].last:
            before = merged[-1]
            heavier = max(before, match, key=lambda one: one.weight)
            merged[-1] = Match(before.first, max(before.last, match.last), heavier.word, heavier.weight)
        else:
            merged.append(match)
    return merged
