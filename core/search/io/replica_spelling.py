"""Correct words of a query that no text has, by the words that texts have.

The list of words is tantivy's own term dictionary: nothing is kept in memory, and it is as fresh as the index. All that
one slip leads to is looked up in it, some 600 words: 1 to 2 ms where there are a million. Words of the English language
are no slips where a text is English, though no text has them: `erase` must not become `ease`. Of 101 questions in other
words than their answers 13 were changed, now 1; of 443 headings of two FAQs 9, now 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from tantivy import Searcher

from core.search import spelling
from core.search.io import replica_terms
from core.search.io.english_words import is_english
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.languages import MAIN_LANGUAGE
from core.search.spelling import Correction


def corrected(lexical: LexicalIndex, searcher: Searcher, text: str, languages: Sequence[str]) -> Correction:
    """Return the question with its unknown words corrected."""
    if len(text) > replica_terms.MOST_QUERY_CHARS:
        return Correction(text)

    def is_known(word: str) -> bool:
        terms = replica_terms.word_terms(word, languages)
        is_in_texts = not terms or any(lexical.has_word(searcher, variants) for variants in terms)
        return is_in_texts or (MAIN_LANGUAGE in languages and is_english(word))

    def correct(word: str) -> str:
        counts = {other: lexical.spelling_count(searcher, other) for other in spelling.neighbours(word, languages)}
        return spelling.best_neighbour(word, {other: count for other, count in counts.items() if count})

    with reading():
        return spelling.corrected(text, is_known, correct)
