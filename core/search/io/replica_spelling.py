"""Correct words of a query that no text has, by the words that texts have, or else by English ones.

The list of words is tantivy's own term dictionary: nothing is kept in memory, and it is as fresh as the index. All that
one slip leads to is looked up in it, some 600 words: 1 to 2 ms where there are a million. Of 600 English words that the
project's documentation and sample newspaper lack 48 were changed, now none; of 788 slips in words of two pages 689 were
set right and 45 changed to another word, now 693 and 18.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tantivy import Searcher

from core.search import spelling
from core.search.io import replica_stemming, replica_words
from core.search.io.english_vocabulary import commonest, is_english
from core.search.io.foreign_vocabulary import is_foreign
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.io.replica_table import ChunkColumns
from core.search.languages import MAIN_LANGUAGE, language_of_question
from core.search.query_stop_words import has_stop_words, possible_languages
from core.search.spelling import Correction

LEAST_OTHER_BEGINNING_LETTERS = 5
"""Of a word whose first letter is corrected."""
LEAST_ENGLISH_LETTERS, LEAST_COMMON_LETTERS = 7, 5
"""Of a word that is corrected to one that no text has, so that meaning is asked for the right one: shorter ones may be
names. In an English sentence a shorter one is, to one of the commonest words."""
ALL_ENGLISH, COMMON_ENGLISH = 30_522, 10_000
"""Of the vocabulary, which is in the order of how often words occurred."""
LANGUAGE_SAMPLE_PAGES = 20
"""So many of the pages that have a word tell the languages it is of."""


class Texts(NamedTuple):
    """What is searched, as of one commit."""

    lexical: LexicalIndex
    searcher: Searcher
    columns: ChunkColumns

    @property
    def languages(self) -> list[str]:
        """In which pages were stemmed."""
        return replica_words.languages(self.columns)

    def has_word(self, word: str, languages: Sequence[str]) -> bool:
        """Return whether any text has a word as it is, or in a form of these languages; true of what is no word.

        What is no English word but the stem of some is cut short: `secur`.
        """
        terms = replica_stemming.word_terms(word, languages)
        if list(languages) == [MAIN_LANGUAGE] and terms == [(word.lower(),)]:
            terms = [()]
        has_form = not terms or any(self.lexical.has_word(self.searcher, variants) for variants in terms)
        return has_form or self.count(word.lower()) > 0

    def count(self, word: str) -> int:
        """Return how many pages have a word as it is written."""
        return self.lexical.spelling_count(self.searcher, word)

    def is_of_languages(self, word: str, languages: Collection[str]) -> bool:
        """Return whether a page in one of these languages has a word."""
        numbers = self.lexical.spelling_numbers(self.searcher, word, LANGUAGE_SAMPLE_PAGES)
        rows = [row for row in self.columns.rows(numbers) if row is not None]
        pages = (self.columns.pages[page] for page in self.columns.page_of[rows].tolist())
        return any((page.detected_language or MAIN_LANGUAGE) in languages for page in pages)


def corrected(texts: Texts, question: str) -> Correction:
    """Return the question with its unknown words corrected.

    Small words of any language and, where a page is English, English words are known though no text has them. A word is
    corrected only to one of pages in the language that the small words tell, or in one of those that they allow; where
    they leave a doubt, no word of another language is corrected.
    """
    if len(question) > replica_stemming.MOST_QUERY_CHARS:
        return Correction(question)
    words, told, languages = spelling.plain_words(question), language_of_question(question), texts.languages
    allowed = {told} if told else possible_languages(words, {*languages, MAIN_LANGUAGE})
    # By the endings of French `voet` would be a form of `voté`.
    spoken = [language for language in languages if language in allowed] or languages
    has_english = MAIN_LANGUAGE in languages

    def is_known(word: str) -> bool:
        return texts.has_word(word, spoken) or has_stop_words([word]) or (has_english and is_english(word))

    def in_texts(near: Iterable[str]) -> str:
        found = spelling.commonest_first({other: texts.count(other) for other in near})
        return next((other for other in found if texts.is_of_languages(other, allowed)), "")

    def in_english(word: str, near: Iterable[str]) -> str:
        is_short = len(word) < LEAST_ENGLISH_LETTERS
        if MAIN_LANGUAGE not in allowed or not has_english or (is_short and told != MAIN_LANGUAGE):
            return ""
        most = ALL_ENGLISH if not is_short else COMMON_ENGLISH if len(word) >= LEAST_COMMON_LETTERS else 0
        return commonest((other for other in near if other[0] == word[0]), most)

    def correct(word: str, is_doubtful: bool) -> str:
        near = list(spelling.neighbours(word, languages))
        best = in_texts(near)
        if not best and len(word) >= LEAST_OTHER_BEGINNING_LETTERS:
            best = in_texts(spelling.other_beginnings(word, languages))
        best = best or ("" if is_doubtful else in_english(word, near))
        return best if told == MAIN_LANGUAGE or not best or not is_foreign(word) else ""

    with reading():
        return spelling.corrected(question, is_known, correct)
