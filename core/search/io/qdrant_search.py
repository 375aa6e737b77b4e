"""Search an index in Qdrant: by words, by vectors, both fused as for the local replica."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qdrant_client import models

from core.search import ranking
from core.search.io import index_answer
from core.search.io import qdrant_points as points
from core.search.io.replica_lexical import FULL_MATCH, rarity
from core.search.io.replica_stemming import QueryTerms
from core.search.models import Filters, Hit, Hits, IndexQuery
from core.search.ranking import FUSION_DEPTH, FusedHit, Kinds, QuestionWords, WordMatches
from core.value_class import value_class

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

PHRASE_FACTOR = 5
"""Chunks that have the words of a phrase, for each that is wanted: not all have them side by side."""
MOST_COUNTED = 16
"""Words of a question whose rarity is asked for, to know how far words can be trusted."""
_HIT_FIELDS = ["chunk_id", "item_id", "version", "page", "has_vector", "has_other", "detected"]

Payload = Mapping[str, Any]
Scores = list[tuple[str, float]]
"""Point ids with their scores, best first."""


class QdrantSearch:
    """One search."""

    def __init__(
        self, client: AsyncQdrantClient, collection: str, languages: Sequence[str], dimensions: Mapping[str, int]
    ) -> None:
        self._client = client
        self._collection = collection
        self._languages = languages
        self._dimensions = dimensions
        self._payloads: dict[str, Payload] = {}
        """Of all points that were found."""

    async def search(self, query: IndexQuery) -> Hits:
        """Return the best chunks, best first. Raises InvalidVector for a vector of another space."""
        if query.limit <= 0:
            return Hits()
        query, terms, weight = index_answer.asked(query, self._languages)
        wants_words = weight > 0 or query.understood is not None
        words, by_vector = await asyncio.gather(
            self._by_words(terms, query.filters, ranking.word_depth(query.limit) if wants_words else 0),
            self._by_vectors(query, ranking.vector_depth(weight, query.limit)),
        )
        found = _FoundPayloads(self._payloads, query, can_wait=query.has_meaning and weight > 0)
        kinds = Kinds(found.is_pending, found.is_words_only, found.is_by_other)
        return index_answer.answer(query, weight, words, by_vector, kinds, self._hits)

    async def _by_words(self, terms: QueryTerms, filters: Filters, most: int) -> WordMatches[str]:
        if not most or not (terms.words or terms.phrases):
            return WordMatches()
        alone, query, must = terms.is_phrase_alone, points.word_query(terms), points.conditions(filters)
        strict, chunks, pages, (total, *counts) = await asyncio.gather(
            self._phrases(terms, filters),
            self._query(query, points.WORDS, must, 0 if alone else most),
            self._query(query, points.PAGE_WORDS, must, 0 if alone else FUSION_DEPTH),
            self._counts(terms),
        )
        chunks = strict if alone else chunks
        question = QuestionWords(len(terms.words), bool(terms.phrases), any(counts), *_most_score(total, counts))
        return ranking.word_matches(chunks, pages, strict, self._page_key, question, most)

    def _page_key(self, name: str) -> tuple[str, str]:
        return self._payloads[name]["item_id"], self._payloads[name]["version"]

    async def _phrases(self, terms: QueryTerms, filters: Filters) -> Scores:
        """Return the chunks that have each of the quoted phrases."""
        if not terms.phrases:
            return []
        must = [*points.conditions(filters), *points.phrase_conditions(terms)]
        words = tuple((word,) for variants in terms.phrases for phrase in variants for word in phrase)
        query, limit = points.word_query(QueryTerms(words)), FUSION_DEPTH * PHRASE_FACTOR
        found = await self._query(query, points.WORDS, must, limit, ("text", "headings"))
        return [pair for pair in found if points.has_phrases(self._payloads[pair[0]], terms)][:FUSION_DEPTH]

    async def _counts(self, terms: QueryTerms) -> list[int]:
        """Return the number of chunks, and of those that have each word of the question."""
        which = [None, *(points.has_any(variants) for variants in terms.words[:MOST_COUNTED])]
        replies = [self._client.count(self._collection, count_filter=one, exact=False) for one in which]
        return [reply.count for reply in await asyncio.gather(*replies)]

    async def _by_vectors(self, query: IndexQuery, depth: int) -> Scores:
        """Return the nearest points of both models, best first; each is compared by one of them."""
        if not depth:
            return []
        must, found = points.conditions(query.filters), []
        if query.vector is not None:
            spoken = [*must, *points.spoken_condition(query.model_languages)]
            vector = points.checked_numbers(query.vector, points.MEANING, self._dimensions)
            found += await self._query(vector, points.MEANING, spoken, depth)
        if query.other is not None:
            spoken = [*must, *points.spoken_condition(query.other.languages)]
            if query.vector is not None:
                spoken.append(points.not_by_main(query.model_languages))
            vector = points.checked_numbers(query.other.vector, points.OTHER, self._dimensions)
            found += await self._query(vector, points.OTHER, spoken, depth)
        # As the replica: what points away says nothing.
        return sorted((pair for pair in found if pair[1] > 0), key=lambda pair: -pair[1])[:depth]

    async def _query(
        self,
        query: list[float] | models.SparseVector,
        using: str,
        must: list[models.Condition],
        limit: int,
        more: Sequence[str] = (),
    ) -> Scores:
        if not limit:
            return []
        which = models.Filter(must=must) if must else None
        fields = [*_HIT_FIELDS, *more]
        reply = await self._client.query_points(
            self._collection, query, using=using, query_filter=which, limit=limit, with_payload=fields
        )
        for one in reply.points:
            self._payloads[str(one.id)] = {**self._payloads.get(str(one.id), {}), **(one.payload or {})}
        return [(str(one.id), one.score) for one in reply.points]

    def _hits(self, fused: Sequence[FusedHit[str]]) -> list[Hit]:
        """Add the pages."""
        found = [(one, self._payloads[one.key]) for one in fused]
        pages = [points.page_of(payload) for _, payload in found]
        return [
            Hit(payload["chunk_id"], page.item_id, page.version, *one[1:], page)
            for (one, payload), page in zip(found, pages, strict=True)
        ]


@value_class
class _FoundPayloads:
    """Which of the found chunks are compared by words alone."""

    payloads: Mapping[str, Payload]
    query: IndexQuery
    can_wait: bool

    def is_by_other(self, name: str) -> bool:
        """Return whether it was compared by the model of other languages."""
        return not self._is_by_main(self.payloads[name])

    def is_foreign(self, name: str) -> bool:
        """Return whether no model that was asked understands its language."""
        return self.query.has_meaning and _is_foreign(self.payloads[name], self.query.understood)

    def is_pending(self, name: str) -> bool:
        """Return whether it has no vector yet, and could be compared if it had one."""
        payload, query = self.payloads[name], self.query
        if not self.can_wait or self.is_foreign(name):
            return False
        by_other = query.other is not None and payload["has_other"] and not _is_foreign(payload, query.other.languages)
        return not self._is_by_main(payload) and not by_other

    def _is_by_main(self, payload: Payload) -> bool:
        query = self.query
        is_asked = query.vector is not None and bool(payload["has_vector"])
        return is_asked and not _is_foreign(payload, query.model_languages)

    def is_words_only(self, name: str) -> bool:
        """Return whether it has nothing to compare but words."""
        return self.is_foreign(name) or self.is_pending(name)


def _most_score(total: int, counts: Sequence[int]) -> tuple[float, float]:
    """Return about what a chunk would score with all words of the question, and with one very rare."""
    full = sum(FULL_MATCH * rarity(min(count, total), max(1, total)) for count in counts)
    return full, FULL_MATCH * rarity(0, max(1, total))


def _is_foreign(payload: Payload, languages: frozenset[str] | None) -> bool:
    return languages is not None and bool(payload["detected"]) and payload["detected"] not in languages
