"""What search takes and returns: pages, filters, hits, queries and results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import NamedTuple

from core.registry.verification import NEVER_VERIFIED, Verification
from core.search.ranking import LEXICAL_WEIGHT
from core.value_class import value_class

PER_PAGE = 10
"""Results on a page, unless the query says another number."""


@value_class
class IndexedPage:
    """What search knows of an item beside its chunks."""

    item_id: str
    version: str
    """The content hash its chunks were made of."""
    url: str = ""
    title: str = ""
    language: str = ""
    type: str = "url"
    host: str = ""
    categories: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    published_ts: float = 0.0
    updated_ts: float = 0.0
    author: str = ""
    image: str = ""
    content_group: str = ""
    """`contentGroupId`: the same for all pages at one host and path, by http or https and whatever the query."""
    detected_language: str = ""
    """The language detected in its text, whatever the page declares; empty: not known, and in Latin letters."""

    @property
    def date_ts(self) -> float:
        """When it was published, else last changed; 0 is unknown, and matches no date filter."""
        return self.published_ts or self.updated_ts

    @property
    def facets(self) -> list[str]:
        """What filters can ask for."""
        return [
            *(f"category:{name}" for name in self.categories),
            *(f"domain:{name}" for name in self.domains),
            f"host:{self.host}",
            f"language:{self.language}",
            f"type:{self.type}",
        ]


@value_class
class Filters:
    """What a search is limited to; empty: everything."""

    categories: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since_ts: float | None = None
    until_ts: float | None = None

    @property
    def has_dates(self) -> bool:
        """Whether a date is asked for."""
        return self.since_ts is not None or self.until_ts is not None

    @property
    def facet_choices(self) -> list[list[str]]:
        """For each kind that is limited its choices, of which a page must have one."""
        kinds = {
            "category": self.categories,
            "domain": self.domains,
            "host": self.hosts,
            "language": self.languages,
            "type": self.types,
        }
        return [[f"{kind}:{value}" for value in values] for kind, values in kinds.items() if values]

    def match(self, page: IndexedPage) -> bool:
        """Return whether this page is let through."""
        if not all(set(page.facets).intersection(choices) for choices in self.facet_choices):
            return False
        since = -math.inf if self.since_ts is None else self.since_ts
        until = math.inf if self.until_ts is None else self.until_ts
        return not self.has_dates or (page.date_ts > 0 and since <= page.date_ts <= until)


class QueryVector(NamedTuple):
    """A question as a model of other languages understands it."""

    vector: bytes
    languages: frozenset[str]
    """Of the pages that are compared with it."""
    clear_similarity: float = 0.0
    """As of an Embedder."""


@value_class
class IndexQuery:
    """What an index is asked: words, the question as the models understand it, and what the answer is limited to."""

    text: str
    vector: bytes | None = None
    """Of the main model; None: it is not asked."""
    filters: Filters = field(default_factory=Filters)
    limit: int = 10
    lexical_weight: float = 0.5
    model_languages: frozenset[str] | None = None
    """What the main model understands; None: all."""
    other: QueryVector | None = None
    clear_similarity: float = 0.0
    """Of the main model, as of an Embedder."""

    @property
    def has_meaning(self) -> bool:
        """Whether any model was asked."""
        return self.vector is not None or self.other is not None

    @property
    def understood(self) -> frozenset[str] | None:
        """The languages in which pages can be compared with the question; None: all."""
        if self.vector is not None and self.model_languages is None:
            return None
        main = self.model_languages or frozenset() if self.vector is not None else frozenset()
        return main | (self.other.languages if self.other else frozenset())

    @property
    def clear_similarities(self) -> tuple[float, float]:
        """Of the main model and of that of other languages."""
        return self.clear_similarity, self.other.clear_similarity if self.other else 0.0

    def by_words_alone(self) -> IndexQuery:
        """Return the same question without what the models understand."""
        return replace(self, vector=None, other=None)


class Hit(NamedTuple):
    """A chunk that was found, with the parts of its score. A tuple, since every query makes hundreds."""

    chunk_id: str
    item_id: str
    version: str
    score: float
    lexical: float = 0.0
    semantic: float = 0.0
    """The parts of the score, each between 0 and 1, for `explain`."""
    page: IndexedPage | None = None
    number: int = 0
    """Under which the index finds the chunk again."""


class Hits(list[Hit]):
    """Chunks, best first."""

    def __init__(
        self, hits: Iterable[Hit] = (), *, has_more: bool = False, is_guess: bool = False, lacks_phrases: bool = False
    ) -> None:
        super().__init__(hits)
        self.has_more = has_more
        """More chunks matched by words than are listed here."""
        self.is_guess = is_guess
        """No text has any word of the question, which may be no words at all: these few are the nearest by meaning."""
        self.lacks_phrases = lacks_phrases
        """No text has all that the question has in quotes; these are found by its other words, or by meaning."""


@value_class
class ChunkText:
    """The text of a chunk. Not part of a hit: hundreds are ranked and some thirty shown, and reading costs."""

    text: str
    headings: tuple[str, ...] = ()
    level: int = 0
    types: tuple[str, ...] = ()


@value_class
class Query:
    """A search query with its filters and options."""

    text: str
    filters: Filters = field(default_factory=Filters)
    page: int = 1
    per_page: int = PER_PAGE
    nest_images: bool = False
    freshness: float = 0.0
    """0: age does not matter; 1: a page of today counts twice as much as a very old one."""
    lexical_weight: float = LEXICAL_WEIGHT

    @property
    def start(self) -> int:
        """Place of the first result on this page of results."""
        return (max(self.page, 1) - 1) * self.per_page

    @property
    def end(self) -> int:
        """Place after the last result on this page of results."""
        return max(self.page, 1) * self.per_page


@value_class
class MatchedPassage:
    """A snippet of a page that matches the query, and where the words of the query are in it."""

    chunk_id: str
    headings: tuple[str, ...]
    level: int
    types: tuple[str, ...]
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    """Where in the snippet the words of the query are."""
    score: float
    lexical: float
    semantic: float


@value_class
class SearchResult:
    """One page with its passages, best first, and the pages with the same text."""

    page: IndexedPage
    score: float
    passages: tuple[MatchedPassage, ...]
    duplicates: tuple[str, ...] = ()
    """Other pages with the same text, and this page by http or https."""
    aliases: tuple[str, ...] = ()
    """Other URLs of this page."""
    images: tuple[Mapping[str, str], ...] = ()
    verification: Verification = NEVER_VERIFIED
    """When and how its text was last proved to be the current one."""


@value_class
class SearchResponse:
    """One page of results."""

    results: tuple[SearchResult, ...]
    total: int
    """How many results there are on all pages."""
    has_more: bool
    """Further results exist, but are too far down to be ranked."""
    by: str
    """`words and meaning`, or `words` with the reason."""
    pending: int = 0
    """Texts that wait for their vectors, and are found by words alone until they have them."""
    showing_results_for: str = ""
    """The question with its spelling corrected, where it was; what is in quotes is never corrected."""
    lexical_weight: float = LEXICAL_WEIGHT
    """Of words in the scores; the rest is that of meaning."""
