"""From ranked chunks to results: one for each page, pages with the same text folded into one. Asks nobody anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.pages.stop_words import without_stop_words
from core.search import highlight
from core.search.io.protocols import ChunkText, Filters, Hit, Page

PASSAGES = 3
SNIPPET_CHARS = 280
FRESH_DAYS = 30.0
DAY_SECONDS = 86_400.0
LEXICAL_WEIGHT = 0.55
"""Of the score; nDCG@10 on Cranfield through the whole product: .45 .567, .5 .570, .55 .571; words alone .535."""


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody wants to know."""

    text: str
    filters: Filters = field(default_factory=Filters)
    page: int = 1
    per_page: int = 10
    nest_images: bool = False
    freshness: float = 0.0
    """0: age does not matter; 1: a page of today counts twice as much as a very old one."""
    lexical_weight: float = LEXICAL_WEIGHT


@dataclass(frozen=True, slots=True)
class Passage:
    """A place in a page that answers."""

    chunk_id: str
    headings: tuple[str, ...]
    level: int
    types: tuple[str, ...]
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    """Where in the snippet the words of the question are."""
    score: float
    lexical: float
    semantic: float


@dataclass(frozen=True, slots=True)
class Result:
    """One page, its best passages first, and who else has the same text."""

    page: Page
    score: float
    passages: tuple[Passage, ...]
    duplicates: tuple[str, ...] = ()
    """Other pages with the same text, and this page by http or https."""
    aliases: tuple[str, ...] = ()
    """Other URLs of this page."""
    images: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The answer."""

    results: tuple[Result, ...]
    total: int
    """How many pages there are to turn."""
    is_more: bool
    """There are yet more, which are too far down to be ranked."""
    by: str
    """`words and meaning`, or `words` with the reason."""
    pending: int = 0
    """Texts that wait for their vectors, and are found by words alone until they have them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A page that was found, and by which of its chunks."""

    page: Page
    score: float
    hits: tuple[Hit, ...]


def candidates(hits: Sequence[Hit], freshness: float, now: float) -> list[Candidate]:
    """One for each page, best first."""
    by_item: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        by_item.setdefault((hit.item_id, hit.version), []).append(hit)
    found = [_candidate(own, freshness, now) for own in by_item.values()]
    return sorted(found, key=lambda one: -one.score)


def folded(found: Sequence[Candidate]) -> list[list[Candidate]]:
    """Pages with the same text stand together, in the place of their best; so do a page by http and by https.

    Pages of one content group with another query and another text are other pages: `?id=1` and `?id=2`.
    """
    groups: list[list[Candidate]] = []
    place_of: dict[tuple[str, ...], int] = {}
    for one in found:
        first, *others = sorted({place_of[name] for name in _names_of(one.page) if name in place_of}) or [len(groups)]
        if first == len(groups):
            groups.append([])
        joined = [*(member for place in others for member in groups[place]), one]
        groups[first] += joined
        for place in others:
            groups[place] = []
        for member in joined:
            place_of |= dict.fromkeys(_names_of(member.page), first)
    return [group for group in groups if group]


def result(
    same: Sequence[Candidate], pages: Mapping[str, Page], texts: Mapping[str, ChunkText], question: str
) -> Result:
    """The first of those with the same text, the others named in it."""
    first, *others = same
    words = highlight.words(without_stop_words(question))
    passages = [_passage(hit, texts[hit.chunk_id], words) for hit in first.hits if hit.chunk_id in texts]
    return Result(
        pages[first.page.item_id],
        first.score,
        tuple(passages),
        duplicates=tuple(pages[other.page.item_id].url for other in others),
    )


def _names_of(page: Page) -> list[tuple[str, ...]]:
    """What a page shares with those it is folded with: its text, or its address but for the scheme."""
    scheme, _, address = page.url.partition("://")
    by_scheme = [(page.group, address)] if page.group and scheme in ("http", "https") else []
    return [(page.version,), *by_scheme]


def _candidate(hits: Sequence[Hit], freshness: float, now: float) -> Candidate:
    page = hits[0].page
    assert page  # whoever found it says of which page it is
    return Candidate(page, hits[0].score * _freshness(page, freshness, now), tuple(hits[:PASSAGES]))


def _passage(hit: Hit, said: ChunkText, words: tuple[str, ...]) -> Passage:
    shown, ranges = highlight.snippet(said.text, words, SNIPPET_CHARS)
    why = (hit.score, hit.lexical, hit.semantic)
    return Passage(hit.chunk_id, said.headings, said.level, said.types, shown, tuple(ranges), *why)


def _freshness(page: Page, weight: float, now: float) -> float:
    stamp = page.published_ts or page.updated_ts
    age_days = max(now - stamp, 0.0) / DAY_SECONDS if stamp else math.inf
    return 1.0 + weight * math.exp(-age_days / FRESH_DAYS)
