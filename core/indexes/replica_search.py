"""Search one moment of a replica: words, vectors, both joined. Writes nothing, and never sees a commit in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tantivy import DocAddress, Searcher

from core import fusion
from core.indexes import replica_vectors, replica_words
from core.indexes.protocols import Filters, Hit, Vector
from core.indexes.replica_lexical import Lexical
from core.indexes.replica_state import State
from core.indexes.replica_table import Columns
from core.indexes.replica_vectors import Matrix

DEPTH = 200
"""How many chunks each side contributes at least; about a hundred pages."""


@dataclass(frozen=True, slots=True)
class View:
    """A replica as of one commit."""

    state: State
    columns: Columns
    languages: frozenset[str]
    matrix: Matrix | None
    lexical: Lexical
    searcher: Searcher

    def count(self) -> int:
        """How many chunks there are."""
        return int(np.count_nonzero(self.columns.is_live))

    def ids(self) -> Iterator[tuple[str, str, str]]:
        """Every chunk: its id, item and version."""
        for slot in np.flatnonzero(self.columns.is_live).tolist():
            page = self.columns.pages[self.columns.page_of[slot]]
            yield self.columns.chunk_ids[slot], page.item_id, page.version

    def search(
        self, text: str, vector: Vector | None, filters: Filters, limit: int, lexical_weight: float
    ) -> list[Hit]:
        """The best chunks, best first."""
        if limit <= 0 or not self.columns.size:
            return []
        question = replica_words.question(text, {replica_words.stemmer(language) for language in self.languages})
        if question.phrases:
            vector = None  # quotes ask for these very words; what only means the same is no answer
        weight = _weight(bool(question.terms), vector is not None, lexical_weight)
        depth = max(DEPTH, limit)
        words = self._by_words(question, filters, depth) if weight > 0 else []
        meaning = self._by_meaning(vector, filters, depth) if vector is not None and weight < 1 else []
        found = fusion.weighted([(slot, score) for slot, score, _ in words], meaning, weight)[:limit]
        return self._hits(found, {slot: place for slot, _, place in words})

    def _by_words(
        self, question: replica_words.Question, filters: Filters, depth: int
    ) -> list[tuple[int, float, DocAddress]]:
        found = self.lexical.find(self.searcher, question, filters, depth)
        slots = self.columns.slots([number for number, _, _ in found])
        known = zip(slots, found, strict=True)
        return [(slot, score, place) for slot, (_, score, place) in known if slot is not None]

    def _by_meaning(self, vector: Vector, filters: Filters, depth: int) -> list[tuple[int, float]]:
        query = replica_vectors.read(vector, self.state.dimension)
        if self.matrix is None:
            return []
        allowed = self.columns.allowed(filters)
        eligible = self.columns.is_comparable if allowed is None else self.columns.is_comparable & allowed
        return replica_vectors.nearest(self.matrix, query, eligible, depth)

    def _hits(self, found: list[fusion.Fused[int]], places: dict[int, DocAddress]) -> list[Hit]:
        numbers = {int(self.columns.numbers[hit.key]): hit.key for hit in found if hit.key not in places}
        others = self.lexical.places(self.searcher, list(numbers))
        places = places | {numbers[number]: place for number, place in others.items()}
        hits = (self._hit(hit, places[hit.key]) for hit in found if hit.key in places)
        return [hit for hit in hits if hit]

    def _hit(self, found: fusion.Fused[int], place: DocAddress) -> Hit | None:
        body = self.lexical.body(self.searcher, place)
        chunk_id = self.columns.chunk_ids[found.key]
        if body.chunk_id != chunk_id:
            return None  # files of two moments: somebody tampered, or a crash left tantivy ahead of the state
        page = self.columns.pages[self.columns.page_of[found.key]]
        return Hit(
            chunk_id,
            page.item_id,
            page.version,
            found.score,
            found.lexical,
            found.semantic,
            body.text,
            body.headings,
            page,
        )


def _weight(has_words: bool, has_vector: bool, lexical_weight: float) -> float:
    """What words count, given what there is to ask with."""
    if not has_vector:
        return 1.0
    return min(1.0, max(0.0, lexical_weight)) if has_words else 0.0
