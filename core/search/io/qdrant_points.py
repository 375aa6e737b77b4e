"""Chunks as points of Qdrant: a vector for meaning, a sparse one for words, and a payload for filters and results.

Words are BM25: a chunk's sparse vector has the frequency part of each term, and the server multiplies by how rare the
term is. Terms are made as for the local replica, so that both find the same words.
"""

from __future__ import annotations

import hashlib
import math
import struct
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from qdrant_client import models

from core.models import Chunk
from core.search.io import replica_stemming
from core.search.io.replica_lexical import HEADS_WEIGHT
from core.search.io.replica_state import InvalidVector
from core.search.io.replica_stemming import QueryTerms
from core.search.models import ChunkText, Filters, IndexedPage
from core.search.protocols import Vector

MEANING, OTHER, WORDS, PAGE_WORDS = "meaning", "other", "words", "page_words"
"""The vectors of a point: of the main model, of that of other languages, of its words, and with the first chunk of a
page those of the whole page."""
KEYWORDS = ("item_id", "version", "facets", "terms", "language", "detected")
"""Fields of the payload that are filtered or counted by."""
NUMBERS = ("date",)
FLAGS = ("has_vector", "has_other")
SATURATION, LENGTH_SHARE = 1.2, 0.75
"""BM25's k1 and b, as tantivy has them."""
USUAL_TERMS, USUAL_HEADS, USUAL_PAGE_TERMS = 120.0, 12.0, 600.0
"""Terms of a usual chunk, of its title and headings, and of a page: the true averages are not known to a client."""
_NAMESPACE = uuid.UUID("6f1f4f0e-5c59-4d0c-9d63-0d6f6b7a1f5e")


def point_id(item_id: str, version: str, chunk_id: str) -> str:
    """Return the id of a chunk's point; the same chunk in another version of the page is another point."""
    return str(uuid.uuid5(_NAMESPACE, f"{item_id}\n{version}\n{chunk_id}"))


def page_points(
    page: IndexedPage, chunks: Sequence[Chunk], vectors: Mapping[str, Vector], others: Mapping[str, Vector]
) -> list[models.PointStruct]:
    """Return the points of a page's chunks."""
    language = stemmed_in(page)
    heads = {head: replica_stemming.terms(head, language).split() for head in _heads(page, chunks)}
    texts = [replica_stemming.terms(chunk.text, language).split() for chunk in chunks]
    made = []
    for place, (chunk, text) in enumerate(zip(chunks, texts, strict=True)):
        own = [word for head in _heads(page, [chunk]) for word in heads[head]]
        whole = [word for part in (*heads.values(), *texts) for word in part] if not place else None
        own_vectors = {MEANING: vectors.get(chunk.id), OTHER: others.get(chunk.id)}
        made.append(_point(page, chunk, own_vectors, ([*own, *text], own, whole)))
    return made


def stemmed_in(page: IndexedPage) -> str:
    """Return the language of a page's terms: that of its text, else what it states."""
    return page.detected_language or page.language


def _heads(page: IndexedPage, chunks: Sequence[Chunk]) -> list[str]:
    return list(dict.fromkeys((page.title, *(head for chunk in chunks for head in chunk.headings))))


def _point(
    page: IndexedPage,
    chunk: Chunk,
    dense: Mapping[str, Vector | None],
    terms: tuple[list[str], list[str], list[str] | None],
) -> models.PointStruct:
    words, heads, whole = terms
    vectors: dict[str, Any] = {WORDS: _sparse(_weights(words, USUAL_TERMS), _weights(heads, USUAL_HEADS))}
    if whole is not None:
        vectors[PAGE_WORDS] = _sparse(_weights(whole, USUAL_PAGE_TERMS), {})
    vectors |= {name: numbers(vector) for name, vector in dense.items() if vector is not None}
    payload = {
        "chunk_id": chunk.id,
        "item_id": page.item_id,
        "version": page.version,
        "order": chunk.order,
        "has_vector": dense[MEANING] is not None,
        "has_other": dense[OTHER] is not None,
        "facets": page.facets,
        "date": page.date_ts,
        "language": page.language,
        "detected": page.detected_language,
        "terms": sorted(set(words)),
        "page": msgspec.to_builtins(page),
        "text": chunk.text,
        "headings": list(chunk.headings),
        "level": chunk.level,
        "types": list(chunk.types),
    }
    return models.PointStruct(id=point_id(page.item_id, page.version, chunk.id), vector=vectors, payload=payload)


def checked_numbers(vector: Vector, space: str, dimensions: Mapping[str, int]) -> list[float]:
    """Return the numbers of a vector. Raises InvalidVector for one that the collection cannot hold or compare."""
    if space not in dimensions:
        raise InvalidVector("The index in Qdrant was made without such vectors; fill it again for this model.")
    found = numbers(vector)
    if len(found) != dimensions[space]:
        raise InvalidVector(f"This vector has {len(found)} dimensions, and those in Qdrant have {dimensions[space]}.")
    if not all(map(math.isfinite, found)):
        raise InvalidVector("The vector holds numbers that are not finite; the embedder must not give such.")
    return found


def numbers(vector: Vector) -> list[float]:
    """Return the numbers of a vector as they are."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector[: len(vector) // 4 * 4]))


def page_of(payload: Mapping[str, Any]) -> IndexedPage:
    """Return the page of a point."""
    return msgspec.convert(payload["page"], IndexedPage)


def text_of(payload: Mapping[str, Any]) -> ChunkText:
    """Return the text of a point."""
    return ChunkText(payload["text"], tuple(payload["headings"]), payload["level"], tuple(payload["types"]))


# ── questions ──


def word_query(terms: QueryTerms) -> models.SparseVector:
    """Return the sparse vector of a question; of the ways to stem a word a text seldom has more than one."""
    words = [term for variants in terms.words for term in variants]
    return _sparse(dict.fromkeys(words, 1.0), dict.fromkeys(words, HEADS_WEIGHT))


def conditions(filters: Filters) -> list[models.Condition]:
    """Return what a point must be like to pass the filters."""
    found: list[models.Condition] = [_any_of("facets", choices) for choices in filters.facet_choices]
    if filters.has_dates:
        span = models.Range(gt=0.0, gte=filters.since_ts, lte=filters.until_ts)
        found.append(models.FieldCondition(key="date", range=span))
    return found


def phrase_conditions(terms: QueryTerms) -> list[models.Condition]:
    """Return that a point must have all words of each quoted phrase; `has_phrases` then looks at their order."""
    return [
        models.Filter(should=[models.Filter(must=[_any_of("terms", [word]) for word in words]) for words in variants])
        for variants in terms.phrases
    ]


def has_phrases(payload: Mapping[str, Any], terms: QueryTerms) -> bool:
    """Return whether the words of each quoted phrase stand together in a chunk, its title or its headings."""
    page = page_of(payload)
    texts = (page.title, *payload["headings"], payload["text"])
    spoken = [f" {replica_stemming.terms(text, stemmed_in(page))} " for text in texts]
    return all(
        any(f" {' '.join(words)} " in text for words in variants for text in spoken) for variants in terms.phrases
    )


def spoken_condition(model_languages: frozenset[str] | None) -> list[models.Condition]:
    """Return that a page reads as one of these languages, or that its language is not known."""
    return [] if model_languages is None else [_any_of("detected", ["", *sorted(model_languages)])]


def not_by_main(model_languages: frozenset[str] | None) -> models.Filter:
    """Return that a point cannot be compared by the main model, which understands these languages."""
    return models.Filter(must_not=[models.Filter(must=[_is("has_vector"), *spoken_condition(model_languages)])])


def with_other() -> models.Filter:
    """Return a filter for the points with a vector of other languages."""
    return models.Filter(must=[_is("has_other")])


def _is(key: str) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=True))


def of_items(item_ids: Sequence[str], version: str = "", *, other: bool = False) -> models.Filter:
    """Return a filter for the points of these pages: of all versions, of this one, or of all others."""
    must: list[models.Condition] = [_any_of("item_id", item_ids)]
    if not version:
        return models.Filter(must=must)
    same: list[models.Condition] = [_any_of("version", [version])]
    return models.Filter(must=must, must_not=same) if other else models.Filter(must=[*must, *same])


def has_any(words: Sequence[str]) -> models.Filter:
    """Return a filter for the points that have one of these terms."""
    return models.Filter(must=[_any_of("terms", words)])


def _any_of(key: str, values: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


# ── words ──


def _weights(words: Sequence[str], usual: float) -> dict[str, float]:
    norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * len(words) / usual)
    return {word: count * (SATURATION + 1) / (count + norm) for word, count in Counter(words).items()}


def _sparse(words: Mapping[str, float], heads: Mapping[str, float]) -> models.SparseVector:
    weights: dict[int, float] = {}
    for field, terms in (("w", words), ("h", heads)):
        for index, weight in _indexed(field, terms.items()):
            weights[index] = weights.get(index, 0.0) + weight
    return models.SparseVector(indices=list(weights), values=list(weights.values()))


def _indexed(field: str, terms: Iterable[tuple[str, float]]) -> Iterable[tuple[int, float]]:
    """Number the terms by their hash: of a million terms some hundred share a number with another."""
    for term, weight in terms:
        digest = hashlib.blake2b(f"{field}{term}".encode(), digest_size=4).digest()
        yield int.from_bytes(digest, "little"), weight
