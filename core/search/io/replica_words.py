"""Search a replica by words: chunks by their own words and by those of their whole page, and quoted phrases."""

from __future__ import annotations

from tantivy import Searcher

from core.search import ranking
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.io.replica_stemming import QueryTerms
from core.search.io.replica_table import ChunkColumns
from core.search.models import Filters
from core.search.ranking import QuestionWords, WordMatches


def languages(columns: ChunkColumns) -> list[str]:
    """Return the languages in which pages were stemmed: those of their texts, else those that they state."""
    return [*dict.fromkeys((*filter(None, columns.detected), *sorted(filter(None, columns.languages))))]


def find(
    index: tuple[LexicalIndex, Searcher],
    columns: ChunkColumns,
    terms: QueryTerms,
    filters: Filters,
    most: int,
) -> WordMatches[int]:
    """Return what has the words of a query; `most` chunks are looked for."""
    lexical, searcher = index
    with reading():
        strict = lexical.find_phrases(searcher, terms, filters, ranking.FUSION_DEPTH)
        if terms.is_phrase_alone:
            chunks, pages = strict, []
        else:
            chunks = lexical.find(searcher, terms, filters, most)
            pages = lexical.find_pages(searcher, terms, filters, ranking.FUSION_DEPTH)
        is_known = any(lexical.has_word(searcher, variants) for variants in terms.words)
        question = QuestionWords(len(terms.words), bool(terms.phrases), is_known, *lexical.most_score(searcher, terms))
    by_chunk, by_page, by_phrase = (_rows(columns, found) for found in (chunks, pages, strict))
    rows = [row for row, _ in (*by_chunk, *by_page)]
    pages_of_rows = dict(zip(rows, columns.page_of[rows].tolist() if rows else (), strict=True))
    return ranking.word_matches(by_chunk, by_page, by_phrase, pages_of_rows.__getitem__, question, most)


def _rows(columns: ChunkColumns, found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    rows = columns.rows([number for number, _ in found])
    return [(row, score) for row, (_, score) in zip(rows, found, strict=True) if row is not None]
