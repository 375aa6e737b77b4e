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
from core.search.io.replica_snapshot import FUSION_DEPTH, trusted_words
from core.search.io.replica_terms import QueryTerms
from core.search.models import Filters, Hit, Hits
from core.search.ranking import FusedHit

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


@dataclass(frozen=True, slots=True)
class Meaning:
    """A question as the models understand it."""

    main: list[float] | None = None
    languages: frozenset[str] | None = None
    """Of the main model; None: all."""
    other: list[float] | None = None
    other_languages: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return self.main is not None or self.other is not None

    @property
    def understood(self) -> frozenset[str] | None:
        """The languages in which pages can be compared with the question; None: all."""
        if self.main is not None and self.languages is None:
            return None
        main = self.languages or frozenset() if self.main is not None else frozenset()
        return main | (self.other_languages if self.other is not None else frozenset())


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

    async def search(self, text: str, meaning: Meaning, filters: Filters, limit: int, lexical_weight: float) -> Hits:
        """Return the best chunks, best first."""
        if limit <= 0:
            return Hits()
        terms = replica_terms.query_terms(text, self._languages)
        if terms.is_phrase_alone:
            meaning = Meaning()  # quotes ask for these very words; what only means the same is no match
        weight = min(1.0, max(0.0, lexical_weight)) if terms.words and meaning else float(not meaning)
        most = limit if limit > 2 * FUSION_DEPTH else FUSION_DEPTH + 1  # one more than is fused: are there more?
        wants_words = weight > 0 or (bool(meaning) and meaning.understood is not None)
        depth = FUSION_DEPTH if weight > 0 else limit  # whatever the limit, the same are fused
        words, by_vector = await asyncio.gather(
            self._by_words(terms, filters, most if wants_words else 0),
            self._by_vectors(meaning if weight < 1 else Meaning(), filters, depth),
        )
        kinds = _Kinds(self._payloads, meaning, can_wait=bool(meaning) and weight > 0)
        weight = ranking.comparable_weight(words.first, weight, kinds.is_pending)
        confidence = trusted_words(words.confidence, len(by_vector))
        fused = ranking.weighted(words.first, by_vector, weight, kinds.is_words_only, confidence)
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

    async def _by_vectors(self, meaning: Meaning, filters: Filters, depth: int) -> Scores:
        """Return the nearest points of both models, best first; each is compared by one of them."""
        must, found = points.conditions(filters), []
        if meaning.main is not None:
            spoken = [*must, *points.spoken_condition(meaning.languages)]
            found += await self._query(meaning.main, points.MEANING, spoken, depth)
        if meaning.other is not None:
            spoken = [*must, *points.spoken_condition(meaning.other_languages)]
            if meaning.main is not None:
                spoken.append(points.not_by_main(meaning.languages))
            found += await self._query(meaning.other, points.OTHER, spoken, depth)
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

    def _hit(self, fused: FusedHit[str]) -> Hit:
        payload = self._payloads[fused.key]
        page = points.page_of(payload)
        return Hit(payload["chunk_id"], page.item_id, page.version, *fused[1:], page)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Which of the found chunks are compared by words alone."""

    payloads: Mapping[str, Payload]
    meaning: Meaning
    can_wait: bool

    def is_foreign(self, name: str) -> bool:
        """Whether no model that was asked understands its language."""
        return bool(self.meaning) and _is_foreign(self.payloads[name], self.meaning.understood)

    def is_pending(self, name: str) -> bool:
        """Whether it has no vector yet, and could be compared if it had one."""
        payload, meaning = self.payloads[name], self.meaning
        if not self.can_wait or self.is_foreign(name):
            return False
        by_main = meaning.main is not None and payload["has_vector"] and not _is_foreign(payload, meaning.languages)
        by_other = meaning.other is not None and payload["has_other"]
        return not by_main and not (by_other and not _is_foreign(payload, meaning.other_languages))

    def is_words_only(self, name: str) -> bool:
        return self.is_foreign(name) or self.is_pending(name)


def _is_foreign(payload: Payload, languages: frozenset[str] | None) -> bool:
    return languages is not None and bool(payload["detected"]) and payload["detected"] not in languages


def _below(words: _WordMatches, fused: Sequence[FusedHit[str]]) -> list[FusedHit[str]]:
    """Return what words alone found further down, to stand after all that was fused."""
    known, floor = {hit.key for hit in fused}, fused[-1].score if fused else 1.0
    best = words.first[0][1] if words.first else 1.0
    return [
        FusedHit(name, min(floor, score / best), min(1.0, score / best), 0.0)
        for name, score in words.below
        if name not in known
    ]
