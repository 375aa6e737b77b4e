"""Parse and check the arguments of a search query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from core.errors import FreshetError
from core.search.models import PER_PAGE, Filters, Query
from core.search.ranking import LEXICAL_WEIGHT
from core.value_class import value_class

MOST_CANDIDATES = 2_000
"""How far down results are ranked: beyond the first hundred, what else words find comes after the same first ones."""
MOST_PER_PAGE = 100
MOST_FRESHNESS = 10.0
ITEM_TYPES = ("url", "file")


class InvalidQuery(FreshetError):
    """An argument of a search cannot be used."""


@value_class
class QueryArguments:
    """What may be asked; names as people write them."""

    text: str
    categories: Sequence[str] = ()
    domains: Sequence[str] = ()
    hosts: Sequence[str] = ()
    languages: Sequence[str] = ()
    types: Sequence[str] = ()
    since_ts: float | None = None
    until_ts: float | None = None
    page: int = 1
    per_page: int = PER_PAGE
    freshness: float = 0.0
    nest_images: bool = False
    words: bool = False
    """By words alone."""


def build_query(arguments: QueryArguments, *, example: str = "flood wall", options: str = "") -> Query:
    """Return the query; raise InvalidQuery, a sentence.

    `example` says how a query is written where it is asked, `options` what stands before the names of arguments.
    """
    _check(arguments, example, options)
    filters = Filters(
        categories=tuple(arguments.categories),
        domains=tuple(arguments.domains),
        hosts=tuple(name.lower() for name in arguments.hosts),
        languages=tuple(re.split("[-_]", name.lower())[0] for name in arguments.languages),
        types=tuple(arguments.types),
        since_ts=arguments.since_ts,
        until_ts=arguments.until_ts,
    )
    return Query(
        arguments.text,
        filters,
        page=arguments.page,
        per_page=arguments.per_page,
        nest_images=arguments.nest_images,
        freshness=arguments.freshness,
        lexical_weight=1.0 if arguments.words else LEXICAL_WEIGHT,
    )


def _check(arguments: QueryArguments, example: str, options: str) -> None:
    if not any(unicodedata.category(letter)[0] not in "PZC" for letter in arguments.text):
        raise InvalidQuery(f"Say what to look for, for instance: {example}.")
    if not 0 <= arguments.freshness <= MOST_FRESHNESS:
        raise InvalidQuery(f"{options}freshness is a number from 0 to {MOST_FRESHNESS:g}.")
    if arguments.page < 1 or not 1 <= arguments.per_page <= MOST_PER_PAGE:
        per_page = f"{options}per-page" if options else "per_page"
        raise InvalidQuery(f"{options}page begins at 1, and {per_page} is between 1 and {MOST_PER_PAGE}.")
    if arguments.page * arguments.per_page > MOST_CANDIDATES:
        raise InvalidQuery(f"Only the first {MOST_CANDIDATES:,} results are ranked; ask more closely, or use filters.")
    for name in arguments.types:
        if name not in ITEM_TYPES:
            raise InvalidQuery(f"There is no type {name}; there are: {', '.join(ITEM_TYPES)}.")
