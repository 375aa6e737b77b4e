"""Search an index in Qdrant: by words, by vectors, both fused as for the local replica."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qdrant_client import models

from core.search import ranking
from core.search.io import qdrant_points as points
from core.search.io import replica_terms
from core.search.io.replica_lexical import FULL_MATCH, rarity
from core.search.io.replica_snapshot import FUSION_DEPTH
from core.search.io.replica_terms import QueryTerms
from core.search.models import Filters, Hit, Hits
from core.search.ranking import FusedHit

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

PHRASE_FACTOR = 5
"""Chunks that have the words of a phrase, for each that is wanted: not all have them side by side."""
MOST_COUNTED = 16
"""Words of a question whose rarity is asked for, to know how far words can be trusted."""
_HIT_FIELDS = ["chunk_id", "item_id", "version", "page", "has_vector", "detected"]

Payload = Mapping[str, Any]
Scores = list[tuple[str, float]]
"""Point ids with their scores, best first."""


@dataclass(frozen=True, slots=True)
class _WordMatches:
    first: Scores
    """By chunk and page: what is fused with meaning."""
    below: Scores
    phrases: frozenset[str]
    confidence: float
    has_more: bool


NOTHING = _WordMatches([], [], frozenset(), 0.0, False)


class QdrantSearch:
    """One search."""

    def __init__(self, client: AsyncQdrantClient, collection: str, languages: Sequence[str]) -> None:
        self._client = client
        self._collection = collection
        self._languages = languages
        self._payloads: dict[str, Payload] = {}
        """Of all points that were found."""

    async def search(
        self,
        text: str,
        vector: list[float] | None,
        filters: Filters,
        limit: int,
        lexical_weight: float,
        model_languages: frozenset[str] | None,
    ) -> Hits:
        """Return the best chunks, best first."""
        if limit <= 0:
            return Hits()
        terms = replica_terms.query_terms(text, self._languages)
        if terms.is_phrase_alone:
            vector = None  # quotes ask for these very words; what only means the same is no match
        if vector is None:
            model_languages = None
        weight = 1.0 if vector is None else min(1.0, max(0.0, lexical_weight)) if terms.words else 0.0
        most = limit if limit > 2 * FUSION_DEPTH else FUSION_DEPTH + 1  # one more than is fused: are there more?
        wants_words, wants_meaning = weight > 0 or model_languages is not None, vector is not None and weight < 1
        words, by_vector = await asyncio.gather(
            self._by_words(terms, filters, most if wants_words else 0),
            self._by_vector(vector if wants_meaning else None, filters, model_languages, weight, limit),
        )
        kinds = _Kinds(self._payloads, model_languages, can_wait=vector is not None and weight > 0)
        weight = ranking.comparable_weight(words.first, weight, kinds.is_pending)
        fused = ranking.weighted(words.first, by_vector, weight, kinds.is_words_only, words.confidence)
        fused = ranking.phrases_first(fused, words.phrases)
        hits = [self._hit(one) for one in [*fused, *_below(words, fused)][:limit]]
        return Hits(hits, has_more=words.has_more)

    async def _by_words(self, terms: QueryTerms, filters: Filters, most: int) -> _WordMatches:
        if not most or not (terms.words or terms.phrases):
            return NOTHING
        alone, query, must = terms.is_phrase_alone, points.word_query(terms), points.conditions(filters)
        strict, chunks, pages, full = await asyncio.gather(
            self._phrases(terms, filters),
            self._query(query, points.WORDS, must, 0 if alone else most),
            self._query(query, points.PAGE_WORDS, must, 0 if alone else FUSION_DEPTH),
            self._most_score(terms),
        )
        chunks = strict if alone else chunks
        first = self._by_chunk_and_page(chunks[:FUSION_DEPTH], pages)
        known = {name for name, _ in first}
        first += [(name, 0.0) for name, _ in strict if name not in known]
        confidence = ranking.word_confidence(first[0][1] if first else 0.0, *full)
        phrases = frozenset(name for name, _ in strict)
        return _WordMatches(first, chunks[FUSION_DEPTH:], phrases, confidence, len(chunks) >= most)

    def _by_chunk_and_page(self, by_chunk: Scores, by_page: Scores) -> Scores:
        """Return chunks by the mean of their score and their page's, best first."""
        page_scores = {self._page_key(name): score for name, score in by_page}
        scores = {name: (score + page_scores.get(self._page_key(name), 0.0)) / 2 for name, score in by_chunk}
        seen = {self._page_key(name) for name, _ in by_chunk}
        scores |= {name: score / 2 for name, score in by_page if self._page_key(name) not in seen}
        return sorted(scores.items(), key=lambda pair: -pair[1])

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

    async def _most_score(self, terms: QueryTerms) -> tuple[float, float]:
        """Return about what a chunk would score with all words of the question, and with one very rare."""
        which = [None, *(points.has_any(variants) for variants in terms.words[:MOST_COUNTED])]
        replies = [self._client.count(self._collection, count_filter=one, exact=False) for one in which]
        total, *counts = [reply.count for reply in await asyncio.gather(*replies)]
        full = sum(FULL_MATCH * rarity(min(count, total), max(1, total)) for count in counts)
        return full, FULL_MATCH * rarity(0, max(1, total))

    async def _by_vector(
        self,
        vector: list[float] | None,
        filters: Filters,
        model_languages: frozenset[str] | None,
        weight: float,
        limit: int,
    ) -> Scores:
        if vector is None:
            return []
        depth = FUSION_DEPTH if weight > 0 else limit  # whatever the limit, the same are fused
        must = [*points.conditions(filters), *points.spoken_condition(model_languages)]
        found = await self._query(vector, points.MEANING, must, depth)
        return [pair for pair in found if pair[1] > 0]  # as the replica: what points away says nothing

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

    def _hit(self, fused: FusedHit[str]) -> Hit:
        payload = self._payloads[fused.key]
        page = points.page_of(payload)
        return Hit(payload["chunk_id"], page.item_id, page.version, *fused[1:], page)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Which of the found chunks are compared by words alone."""

    payloads: Mapping[str, Payload]
    model_languages: frozenset[str] | None
    can_wait: bool

    def is_foreign(self, name: str) -> bool:
        """Whether the model does not understand its language."""
        detected = self.payloads[name]["detected"]
        return self.model_languages is not None and bool(detected) and detected not in self.model_languages

    def is_pending(self, name: str) -> bool:
        """Whether it has no vector yet, and could be compared if it had one."""
        return self.can_wait and not self.payloads[name]["has_vector"] and not self.is_foreign(name)

    def is_words_only(self, name: str) -> bool:
        return self.is_foreign(name) or self.is_pending(name)


def _below(words: _WordMatches, fused: Sequence[FusedHit[str]]) -> list[FusedHit[str]]:
    """Return what words alone found further down, to stand after all that was fused."""
    known, floor = {hit.key for hit in fused}, fused[-1].score if fused else 1.0
    best = words.first[0][1] if words.first else 1.0
    return [
        FusedHit(name, min(floor, score / best), min(1.0, score / best), 0.0)
        for name, score in words.below
        if name not in known
    ]
