"""Search a replica as of one commit: by words, by vectors, both fused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tantivy import Searcher

from core.search import ranking
from core.search.io import replica_spelling, replica_terms, replica_vectors, replica_words
from core.search.io.replica_graph import Matrix, VectorGraph
from core.search.io.replica_lexical import LexicalIndex, reading
from core.search.io.replica_state import ReplicaState
from core.search.io.replica_table import ChunkColumns, Mask
from core.search.io.replica_words import FoundByWords
from core.search.models import ChunkText, Filters, Hit, Hits, QueryVector
from core.search.protocols import Vector
from core.search.ranking import FusedHit
from core.search.spelling import Correction

MOST_GUESSES = 3
"""Chunks that are shown for what looks like no words at all."""
FUSION_DEPTH = 200
"""How many chunks each side contributes to the fusion. Further down there are words alone."""


@dataclass(frozen=True, slots=True)
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

    @property
    def has_others(self) -> bool:
        """Whether any chunk has a vector of other languages."""
        return bool(len(self.columns.other_rows))

    def count(self) -> int:
        """Return the number of chunks."""
        return int(np.count_nonzero(self.columns.is_live))

    def ids(self) -> Iterator[tuple[str, str, str]]:
        """Yield id, item id and version of every chunk."""
        for row in np.flatnonzero(self.columns.is_live).tolist():
            page = self.columns.pages[self.columns.page_of[row]]
            yield self.columns.chunk_ids[row], page.item_id, page.version

    def search(
        self,
        text: str,
        vector: Vector | None,
        filters: Filters,
        limit: int,
        lexical_weight: float = 0.5,
        model_languages: frozenset[str] | None = None,
        other: QueryVector | None = None,
    ) -> Hits:
        """Return the best chunks, best first. Raises InvalidVector for a vector of another space."""
        if limit <= 0 or not self.columns.size:
            return Hits()
        terms = replica_terms.query_terms(text, replica_words.languages(self.columns))
        if terms.is_phrase_alone:
            vector = other = None  # quotes ask for these very words; what only means the same is no match
        has_meaning = vector is not None or other is not None
        weight = min(1.0, max(0.0, lexical_weight)) if terms.words and has_meaning else float(not has_meaning)
        main, others = self._eligible(vector, model_languages, other)
        foreign = self.columns.foreign(_understood(vector, model_languages, other)) if has_meaning else None
        pending = self.columns.pending(foreign, main | others) if has_meaning and weight > 0 else None
        masks = [mask for mask in (foreign, pending) if mask is not None]
        words_only = np.logical_or.reduce(masks) if masks else None
        most = limit if limit > 2 * FUSION_DEPTH else FUSION_DEPTH + 1  # one more than is fused: are there more?
        words = self._by_words(terms, filters, most) if weight > 0 or words_only is not None else replica_words.NOTHING
        depth = FUSION_DEPTH if weight > 0 else limit  # whatever the limit, the same are fused
        by_vector = self._by_vectors(vector, other, filters, (main, others), depth) if weight < 1 else []
        is_guess = bool(by_vector) and words.is_unknown and not replica_terms.is_sentence(text)
        if is_guess:
            by_vector = by_vector[:MOST_GUESSES]
        weight = ranking.comparable_weight(words.first, weight, _is_in(pending))
        confidence = trusted_words(words.confidence, len(by_vector))
        fused = ranking.weighted(words.first, by_vector, weight, _is_in(words_only), confidence)
        if len(by_vector) >= FUSION_DEPTH:  # of fewer chunks than that the farthest may be near
            fused = ranking.without_faint(fused)
        fused = ranking.phrases_first(fused, words.phrases)
        hits = self._hits([*fused, *_below(words, fused)][:limit])
        return Hits(hits, has_more=words.has_more, is_guess=is_guess)

    def corrected(self, text: str) -> Correction:
        """Return a question with its unknown words corrected by the words that texts have."""
        return replica_spelling.corrected(self.lexical, self.searcher, text, replica_words.languages(self.columns))

    def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """Return the texts of these hits by chunk id, without those that are gone."""
        chunk_ids = {hit.number: hit.chunk_id for hit in hits}
        with reading():
            texts = self.lexical.texts(self.searcher, list(chunk_ids))
        # A rebuilt replica uses the numbers again: what has another id is another chunk.
        return {chunk_id: text for number, (chunk_id, text) in texts.items() if chunk_id == chunk_ids[number]}

    def _by_words(self, terms: replica_terms.QueryTerms, filters: Filters, most: int) -> FoundByWords:
        return replica_words.find((self.lexical, self.searcher), self.columns, terms, filters, FUSION_DEPTH, most)

    def _eligible(
        self, vector: Vector | None, languages: frozenset[str] | None, other: QueryVector | None
    ) -> tuple[Mask, Mask]:
        """Return which rows can be compared with the vector, and which with that of other languages."""
        none = np.zeros(len(self.columns.is_live), dtype=np.bool_)
        main = none if vector is None else _without(self.columns.is_comparable, self.columns.foreign(languages))
        others = none if other is None else _without(self.columns.is_other, self.columns.foreign(other.languages))
        return main, others & ~main

    def _by_vectors(
        self,
        vector: Vector | None,
        other: QueryVector | None,
        filters: Filters,
        eligible: tuple[Mask, Mask],
        depth: int,
    ) -> list[tuple[int, float]]:
        """Return the nearest rows of both models with their scores, best first; each row is compared by one of them."""
        allowed = self.columns.allowed(filters)
        main, others = (mask if allowed is None else mask & allowed for mask in eligible)
        near: list[tuple[int, float]] = []
        if vector is not None:
            query = replica_vectors.parse(vector, self.state.dimension)
            if self.matrix is not None:
                near = replica_vectors.nearest(self.matrix, query, main, depth, self.graph)
        if other is not None and self.others is not None:
            query, rows = replica_vectors.parse(other.vector, self.state.other_dimension), self.columns.other_rows
            found = replica_vectors.nearest(self.others, query, others[rows], depth)
            near = sorted([*near, *((int(rows[row]), score) for row, score in found)], key=lambda hit: -hit[1])[:depth]
        return near

    def _hits(self, fused: Sequence[FusedHit[int]]) -> list[Hit]:
        """Add the pages; numpy is asked once for all, since one by one takes ten times as long."""
        rows = [hit.key for hit in fused]
        pages, numbers = self.columns.page_of[rows].tolist(), self.columns.numbers[rows].tolist()
        return [
            Hit(self.columns.chunk_ids[hit.key], page.item_id, page.version, *hit[1:], page, number)
            for hit, page, number in zip(fused, map(self.columns.pages.__getitem__, pages), numbers, strict=True)
        ]


def trusted_words(confidence: float, vectors: int) -> float:
    """Return how much words count beside meaning: in full in a small store, where the nearest vector says little."""
    return confidence if vectors >= FUSION_DEPTH else 1.0


def _below(words: FoundByWords, fused: Sequence[FusedHit[int]]) -> list[FusedHit[int]]:
    """Return what words alone found further down, to stand after all that was fused: the first places do not depend on
    the limit."""
    known, floor = {hit.key for hit in fused}, fused[-1].score if fused else 1.0
    best = words.first[0][1] if words.first else 1.0
    return [
        FusedHit(row, min(floor, score / best), min(1.0, score / best), 0.0)
        for row, score in words.below
        if row not in known
    ]


def _without(rows: Mask, others: Mask | None) -> Mask:
    return rows if others is None else rows & ~others


def _understood(
    vector: Vector | None, languages: frozenset[str] | None, other: QueryVector | None
) -> frozenset[str] | None:
    """Return the languages in which pages can be compared with the question; None: all."""
    if vector is not None and languages is None:
        return None
    main = languages or frozenset() if vector is not None else frozenset()
    return main | (other.languages if other else frozenset())


def _is_in(rows: Mask | None) -> Callable[[int], bool]:
    return (lambda row: False) if rows is None else lambda row: bool(rows[row])
