"""Search a replica by words: chunks by their own words and by those of their whole page, and quoted phrases."""

from __future__ import annotations

from tantivy import Searcher

from core.search import ranking
from core.search.io.english_words import strange_share
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.io.replica_table import ChunkColumns
from core.search.io.replica_terms import QueryTerms
from core.search.models import Filters
from core.search.ranking import WordMatches


def languages(columns: ChunkColumns) -> list[str]:
    """Return the languages in which pages were stemmed: those of their texts, else those that they state."""
    return [*dict.fromkeys((*filter(None, columns.detected), *sorted(filter(None, columns.languages))))]


def find(
    index: tuple[LexicalIndex, Searcher],
    columns: ChunkColumns,
    terms: QueryTerms,
    filters: Filters,
    depth: int,
    most: int,
) -> WordMatches[int]:
    """Return what has the words of a query; `depth` of each kind are fused, `most` chunks are looked for.

    A page that was found by all its words together, and none of whose chunks was, is there with its first chunk.
    """
    lexical, searcher = index
    with reading():
        strict = lexical.find_phrases(searcher, terms, filters, depth)
        if terms.is_phrase_alone:
            chunks, pages = strict, []
        else:
            chunks = lexical.find(searcher, terms, filters, most)
            pages = lexical.find_pages(searcher, terms, filters, depth)
        most_score, rarest = lexical.most_score(searcher, terms)
        known = [lexical.has_word(searcher, variants) for variants in terms.words]
    by_chunk, by_page, by_phrase = (_rows(columns, found) for found in (chunks, pages, strict))
    rows = [row for row, _ in (*by_chunk, *by_page)]
    pages_of_rows = dict(zip(rows, columns.page_of[rows].tolist() if rows else (), strict=True))
    first = ranking.by_chunk_and_page(by_chunk[:depth], by_page, pages_of_rows.__getitem__)
    listed = {row for row, _ in first}
    first += [(row, 0.0) for row, _ in by_phrase if row not in listed]
    return WordMatches(
        first,
        by_chunk[depth:],
        frozenset(row for row, _ in by_phrase),
        ranking.word_confidence(first[0][1] if first else 0.0, most_score, rarest, len(terms.words)),
        len(chunks) >= most,
        len(terms.words),
        not chunks and not any(known),
        strange_share(terms.written, known),
        bool(terms.phrases) and not strict,
    )


def _rows(columns: ChunkColumns, found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    rows = columns.rows([number for number, _ in found])
    return [(row, score) for row, (_, score) in zip(rows, found, strict=True) if row is not None]
