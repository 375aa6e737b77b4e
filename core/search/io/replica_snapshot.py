"""Search one moment of a replica: words, vectors, both joined. Writes nothing, and never sees a commit in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tantivy import Searcher

from core.search import fusion
from core.search.io import replica_terms, replica_vectors
from core.search.io.replica_graph import VectorGraph
from core.search.io.replica_lexical import LexicalIndex
from core.search.io.replica_state import ReplicaState
from core.search.io.replica_table import ChunkColumns
from core.search.io.replica_vectors import Matrix
from core.search.models import ChunkText, Filters, Hit, Hits
from core.search.protocols import Vector

FUSION_DEPTH = 200
"""How many chunks each side contributes to what is joined. Further down there are words alone."""


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """A replica as of one commit."""

    state: ReplicaState
    columns: ChunkColumns
    languages: frozenset[str]
    matrix: Matrix | None
    lexical: LexicalIndex
    searcher: Searcher
    graph: VectorGraph | None = None

    def count(self) -> int:
        """How many chunks there are."""
        return int(np.count_nonzero(self.columns.is_live))

    def ids(self) -> Iterator[tuple[str, str, str]]:
        """Every chunk: its id, item and version."""
        for slot in np.flatnonzero(self.columns.is_live).tolist():
            page = self.columns.pages[self.columns.page_of[slot]]
            yield self.columns.chunk_ids[slot], page.item_id, page.version

    def search(
        self,
        text: str,
        vector: Vector | None,
        filters: Filters,
        limit: int,
        lexical_weight: float,
        spoken: frozenset[str] | None = None,
    ) -> Hits:
        """The best chunks, best first."""
        if limit <= 0 or not self.columns.size:
            return Hits()
        question = replica_terms.question(text, {replica_terms.stemmer(language) for language in self.languages})
        if question.phrases:
            vector = None  # quotes ask for these very words; what only means the same is no answer
        weight = _weight(bool(question.terms), vector is not None, lexical_weight)
        unspoken = self.columns.unspoken(spoken) if vector is not None else None
        pending = self.columns.pending(unspoken) if vector is not None and weight > 0 else None
        most = (
            limit if limit > 2 * FUSION_DEPTH else FUSION_DEPTH + 1
        )  # one more than is joined tells whether there are more
        by_words = _either(unspoken, pending)
        words = self._by_words(question, filters, most) if weight > 0 or by_words is not None else []
        depth = FUSION_DEPTH if weight > 0 else limit  # however few are asked for, the same are joined
        meaning = self._by_meaning(vector, filters, unspoken, depth) if vector is not None and weight < 1 else []
        weight = fusion.comparable_weight(words[:FUSION_DEPTH], weight, _among(pending))
        joined = fusion.weighted(words[:FUSION_DEPTH], meaning, weight, _among(by_words))
        return Hits(self._hits([*joined, *_below(words, joined)][:limit]), is_cut=len(words) >= most)

    def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """What the chunks of these hits say, by chunk id, as far as they are still there."""
        wanted = {hit.number: hit.chunk_id for hit in hits}
        places = self.lexical.places(self.searcher, list(wanted))
        bodies = [(number, self.lexical.body(self.searcher, place)) for number, place in places.items()]
        # A replica made anew uses the numbers again: what has another id is another chunk.
        return {
            body.chunk_id: ChunkText(body.text, body.headings, body.level, body.types)
            for number, body in bodies
            if body.chunk_id == wanted[number]
        }

    def _by_words(self, question: replica_terms.QueryTerms, filters: Filters, depth: int) -> list[tuple[int, float]]:
        found = self.lexical.find(self.searcher, question, filters, depth)
        slots = self.columns.slots([number for number, _ in found])
        return [(slot, score) for slot, (_, score) in zip(slots, found, strict=True) if slot is not None]

    def _by_meaning(
        self, vector: Vector, filters: Filters, unspoken: NDArray[np.bool_] | None, depth: int
    ) -> list[tuple[int, float]]:
        query = replica_vectors.read(vector, self.state.dimension)
        if self.matrix is None:
            return []
        eligible, allowed = self.columns.is_comparable, self.columns.allowed(filters)
        if allowed is not None:
            eligible = eligible & allowed
        if unspoken is not None:
            eligible = eligible & ~unspoken
        return replica_vectors.nearest(self.matrix, query, eligible, depth, self.graph)

    def _hits(self, found: Sequence[fusion.Fused[int]]) -> list[Hit]:
        """With their pages; numpy is asked once for all, since one by one takes ten times as long."""
        slots = [one.key for one in found]
        pages, numbers = self.columns.page_of[slots].tolist(), self.columns.numbers[slots].tolist()
        return [
            Hit(self.columns.chunk_ids[one.key], page.item_id, page.version, *one[1:], page, number)
            for one, page, number in zip(found, map(self.columns.pages.__getitem__, pages), numbers, strict=True)
        ]


def _below(words: Sequence[tuple[int, float]], joined: Sequence[fusion.Fused[int]]) -> list[fusion.Fused[int]]:
    """What words alone found further down, after all that was joined: the first places do not depend on how many more
    are asked for."""
    known, floor = {one.key for one in joined}, joined[-1].score if joined else 1.0
    return [
        fusion.Fused(slot, min(floor, score / words[0][1]), score / words[0][1], 0.0)
        for slot, score in words[FUSION_DEPTH:]
        if slot not in known
    ]


def _either(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Rows of one or the other; None has none."""
    return one | other if one is not None and other is not None else one if other is None else other


def _among(rows: NDArray[np.bool_] | None) -> Callable[[int], bool]:
    return (lambda row: False) if rows is None else lambda row: bool(rows[row])


def _weight(has_words: bool, has_vector: bool, lexical_weight: float) -> float:
    """What words count, given what there is to ask with."""
    if not has_vector:
        return 1.0
    return min(1.0, max(0.0, lexical_weight)) if has_words else 0.0
