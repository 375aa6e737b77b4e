"""What words find in a replica: chunks by their own words and by those of their whole page, and quoted phrases."""

from __future__ import annotations

from dataclasses import dataclass

from tantivy import Searcher

from core.search import ranking
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.io.replica_table import ChunkColumns
from core.search.io.replica_terms import QueryTerms
from core.search.models import Filters


@dataclass(frozen=True, slots=True)
class FoundByWords:
    """Rows with their scores, best first."""

    first: list[tuple[int, float]]
    """By chunk and page: what is fused with meaning."""
    below: list[tuple[int, float]]
    """Further chunks, for those who read on."""
    phrases: frozenset[int]
    """Those with all quoted phrases."""
    confidence: float
    """How much of the question the best has: 0 to 1."""
    has_more: bool
    is_unknown: bool = False
    """No text has any of the words."""


def languages(columns: ChunkColumns) -> list[str]:
    """Return the languages in which pages were stemmed: those of their texts, else those that they state."""
    return [*dict.fromkeys((*filter(None, columns.detected), *sorted(filter(None, columns.languages))))]


NOTHING = FoundByWords([], [], frozenset(), 0.0, False)


def find(
    index: tuple[LexicalIndex, Searcher],
    columns: ChunkColumns,
    terms: QueryTerms,
    filters: Filters,
    depth: int,
    most: int,
) -> FoundByWords:
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
        is_known = bool(chunks) or any(lexical.has_word(searcher, variants) for variants in terms.words)
    by_chunk, by_page, by_phrase = (_rows(columns, found) for found in (chunks, pages, strict))
    first = _by_chunk_and_page(columns, by_chunk[:depth], by_page)
    known = {row for row, _ in first}
    first += [(row, 0.0) for row, _ in by_phrase if row not in known]
    return FoundByWords(
        first,
        by_chunk[depth:],
        frozenset(row for row, _ in by_phrase),
        ranking.word_confidence(first[0][1] if first else 0.0, most_score, rarest),
        len(chunks) >= most,
        not is_known,
    )


def _rows(columns: ChunkColumns, found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    rows = columns.rows([number for number, _ in found])
    return [(row, score) for row, (_, score) in zip(rows, found, strict=True) if row is not None]


def _by_chunk_and_page(
    columns: ChunkColumns, by_chunk: list[tuple[int, float]], by_page: list[tuple[int, float]]
) -> list[tuple[int, float]]:
    """Return chunks by the mean of their score and their page's, best first."""
    page_of = columns.page_of
    page_scores = {int(page_of[row]): score for row, score in by_page}
    chunk_pages = page_of[[row for row, _ in by_chunk]].tolist() if by_chunk else []
    scores = {
        row: (score + page_scores.get(page, 0.0)) / 2 for (row, score), page in zip(by_chunk, chunk_pages, strict=True)
    }
    seen = set(chunk_pages)
    scores |= {row: score / 2 for row, score in by_page if int(page_of[row]) not in seen}
    return sorted(scores.items(), key=lambda pair: -pair[1])
