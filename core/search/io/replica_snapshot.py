"""Search a replica as of one commit: by words, by vectors, both fused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tantivy import Searcher

from core.search import ranking
from core.search.io import index_answer, replica_spelling, replica_vectors, replica_words
from core.search.io.replica_graph import Matrix, VectorGraph
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.io.replica_state import ReplicaState
from core.search.io.replica_table import ChunkColumns, Mask
from core.search.models import ChunkText, Filters, Hit, Hits, IndexQuery
from core.search.ranking import FusedHit, Kinds, WordMatches
from core.search.spelling import Correction
from core.value_class import value_class


@value_class
class ReplicaSnapshot:
    """A replica as of one commit. Writes nothing, and never sees a later commit."""

    state: ReplicaState
    columns: ChunkColumns
    matrix: Matrix | None
    lexical: LexicalIndex
    searcher: Searcher
    graph: VectorGraph | None = None
    others: Matrix | None = None
    """The vectors of other languages."""

    def share_of_others(self, languages: frozenset[str], filters: Filters) -> float:
        """Return which share of the chunks the filters let through and has a vector of other languages, in these."""
        allowed = self.columns.allowed(filters)
        others = _without(self.columns.is_other, self.columns.foreign(languages))
        met = others if allowed is None else others & allowed
        return float(np.count_nonzero(met)) / max(1, self.count())

    def count(self) -> int:
        """Return the number of chunks."""
        return int(np.count_nonzero(self.columns.is_live))

    def ids(self) -> Iterator[tuple[str, str, str]]:
        """Yield id, item id and version of every chunk."""
        for row in np.flatnonzero(self.columns.is_live).tolist():
            page = self.columns.pages[self.columns.page_of[row]]
            yield self.columns.chunk_ids[row], page.item_id, page.version

    def search(self, query: IndexQuery) -> Hits:
        """Return the best chunks, best first. Raises InvalidVector for a vector of another space."""
        if query.limit <= 0 or not self.columns.size:
            return Hits()
        query, terms, weight = index_answer.asked(query, replica_words.languages(self.columns))
        main, others = self._eligible(query)
        foreign = self.columns.foreign(query.understood) if query.has_meaning else None
        pending = self.columns.pending(foreign, main | others) if query.has_meaning and weight > 0 else None
        masks = [mask for mask in (foreign, pending) if mask is not None]
        words_only = np.logical_or.reduce(masks) if masks else None
        words: WordMatches[int] = WordMatches()
        if weight > 0 or words_only is not None:
            index, most = (self.lexical, self.searcher), ranking.word_depth(query.limit)
            words = replica_words.find(index, self.columns, terms, query.filters, most)
        by_vector = self._by_vectors(query, (main, others), ranking.vector_depth(weight, query.limit))
        kinds = Kinds(_is_in(pending), _is_in(words_only), _is_in(others))
        return index_answer.answer(query, weight, words, by_vector, kinds, self._hits)

    def corrected(self, text: str) -> Correction:
        """Return a question with its unknown words corrected by the words that texts have."""
        texts = replica_spelling.Texts(self.lexical, self.searcher, self.columns)
        return replica_spelling.corrected(texts, text)

    def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """Return the texts of these hits by chunk id, without those that are gone."""
        chunk_ids = {hit.number: hit.chunk_id for hit in hits}
        with reading():
            texts = self.lexical.texts(self.searcher, list(chunk_ids))
        # A rebuilt replica uses the numbers again: what has another id is another chunk.
        return {chunk_id: text for number, (chunk_id, text) in texts.items() if chunk_id == chunk_ids[number]}

    def _eligible(self, query: IndexQuery) -> tuple[Mask, Mask]:
        """Return which rows can be compared with the vector, and which with that of other languages."""
        none, columns = np.zeros(len(self.columns.is_live), dtype=np.bool_), self.columns
        main = others = none
        if query.vector is not None:
            main = _without(columns.is_comparable, columns.foreign(query.model_languages))
        if query.other is not None:
            others = _without(columns.is_other, columns.foreign(query.other.languages))
        return main, others & ~main

    def _by_vectors(self, query: IndexQuery, eligible: tuple[Mask, Mask], depth: int) -> list[tuple[int, float]]:
        """Return the nearest rows of both models with their scores, best first; each row is compared by one of them."""
        if not depth:
            return []
        allowed = self.columns.allowed(query.filters)
        main, others = (mask if allowed is None else mask & allowed for mask in eligible)
        near: list[tuple[int, float]] = []
        if query.vector is not None:
            vector = replica_vectors.parse(query.vector, self.state.dimension)
            if self.matrix is not None:
                near = self._with_pages(self.matrix, vector, main, None, depth)
        if query.other is not None and self.others is not None:
            vector = replica_vectors.parse(query.other.vector, self.state.other_dimension)
            found = self._with_pages(self.others, vector, others, self.columns.other_rows, depth)
            near = sorted([*near, *found], key=lambda hit: -hit[1])[:depth]
        return near

    def _with_pages(
        self, matrix: Matrix, vector: NDArray[np.float32], eligible: Mask, row_of: NDArray[np.int32] | None, depth: int
    ) -> list[tuple[int, float]]:
        """Return the nearest rows, each with its own similarity and that of its page.

        `row_of`: the row of the table that each row of the matrix is of; None: the same one.
        """
        if row_of is not None:
            found = replica_vectors.nearest(matrix, vector, eligible[row_of], depth)
            found = [(int(row_of[row]), score) for row, score in found]
        else:
            found = replica_vectors.nearest(matrix, vector, eligible, depth, self.graph)
        if not found:
            return []
        mask = self.columns.rows_of_pages([row for row, _ in found]) & eligible
        own = np.flatnonzero(mask if row_of is None else mask[row_of])
        page_of = self.columns.page_of[own if row_of is None else row_of[own]]
        means = replica_vectors.mean_by_page(matrix, vector, own, page_of)
        return ranking.by_chunk_and_page_meaning(found, means, self.columns.page_of.__getitem__)

    def _hits(self, fused: Sequence[FusedHit[int]]) -> list[Hit]:
        """Add the pages; numpy is asked once for all, since one by one takes ten times as long."""
        rows = [hit.key for hit in fused]
        pages, numbers = self.columns.page_of[rows].tolist(), self.columns.numbers[rows].tolist()
        return [
            Hit(self.columns.chunk_ids[hit.key], page.item_id, page.version, *hit[1:], page, number)
            for hit, page, number in zip(fused, map(self.columns.pages.__getitem__, pages), numbers, strict=True)
        ]


def _without(rows: Mask, others: Mask | None) -> Mask:
    return rows if others is None else rows & ~others


def _is_in(rows: Mask | None) -> Callable[[int], bool]:
    return (lambda row: False) if rows is None else lambda row: bool(rows[row])
