"""What is the same for every index: what of a question it is asked, and how its answer is made of words and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.search import ranking
from core.search.io import replica_stemming
from core.search.io.replica_stemming import QueryTerms
from core.search.models import Hit, Hits, IndexQuery
from core.search.ranking import FusedHit, K, Kinds, WordMatches


def asked(query: IndexQuery, languages: Sequence[str]) -> tuple[IndexQuery, QueryTerms, float]:
    """Return the question as an index of these languages is asked, its terms, and the weight of words."""
    terms = replica_stemming.query_terms(query.text, languages)
    if terms.is_phrase_alone:
        query = query.by_words_alone()  # quotes ask for these very words; what only means the same is no match
    return query, terms, ranking.weight_of_words(query.lexical_weight, bool(terms.words), query.has_meaning)


def answer(
    query: IndexQuery,
    weight: float,
    words: WordMatches[K],
    by_vector: Sequence[tuple[K, float]],
    kinds: Kinds[K],
    hits: Callable[[Sequence[FusedHit[K]]], list[Hit]],
) -> Hits:
    """Return what words and vectors found, best first; `hits` adds the pages."""
    is_sentence = replica_stemming.is_sentence(query.text)
    few = ranking.most_guesses(words, by_vector, kinds, query.clear_similarities, is_sentence)
    found = hits(ranking.fuse(words, by_vector, weight, kinds)[: query.limit])
    if not few:
        return Hits(found, has_more=words.has_more, lacks_phrases=words.lacks_phrases)
    pages = [*dict.fromkeys((hit.item_id, hit.version) for hit in found)][:few]
    shown = [hit for hit in found if (hit.item_id, hit.version) in pages]
    return Hits(shown, is_guess=True, lacks_phrases=words.lacks_phrases)
