"""Build results from ranked chunks: one for each page, pages with the same text folded into one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from core.search import snippet_cutting
from core.search.models import ChunkText, Hit, IndexedPage, MatchedPassage, SearchResult
from core.search.plain_markdown import plain_text
from core.search.snippet_matching import Stem, as_written, read_question
from core.value_class import value_class

PASSAGES_PER_PAGE = 3
SNIPPET_CHARS = 280
FRESH_DAYS = 30.0
DAY_SECONDS = 86_400.0
_FoldKey = str | tuple[str, str]


@value_class
class Candidate:
    """A page that was found, with the best of its chunks."""

    page: IndexedPage
    score: float
    hits: tuple[Hit, ...]


def group_by_page(hits: Sequence[Hit], freshness: float, now: float) -> list[Candidate]:
    """Return one candidate for each page, best first; `freshness` is how much more a page of today counts."""
    by_page: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        by_page.setdefault((hit.item_id, hit.version), []).append(hit)
    candidates = []
    for page_hits in by_page.values():
        best, page = page_hits[0], page_hits[0].page
        assert page  # every index fills it in
        score = best.score * freshness_factor(page, freshness, now)
        candidates.append(Candidate(page, score, tuple(page_hits[:PASSAGES_PER_PAGE])))
    return sorted(candidates, key=lambda candidate: -candidate.score)


def freshness_factor(page: IndexedPage, freshness: float, now: float) -> float:
    """Return how much more a page counts for its age; 1: not at all."""
    if not freshness:
        return 1.0
    age_days = max(now - page.date_ts, 0.0) / DAY_SECONDS if page.date_ts else math.inf
    return 1.0 + freshness * math.exp(-age_days / FRESH_DAYS)


def fold_duplicates(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group pages with the same text, in the place of their best; and a page by http with the same page by https.

    Pages of one content group with another query and another text are other pages: `?id=1` and `?id=2`.
    """
    groups: list[list[Candidate]] = []
    place_of: dict[_FoldKey, int] = {}
    for candidate in candidates:
        keys = _fold_keys(candidate.page)
        known = [place_of[key] for key in keys if key in place_of]
        first = min(known, default=len(groups))
        place_of |= dict.fromkeys(keys, first)
        if not known:
            groups.append([candidate])
            continue
        for place in sorted(set(known) - {first}):
            moved, groups[place] = groups[place], []
            groups[first] += moved
            place_of |= {key: first for member in moved for key in _fold_keys(member.page)}
        groups[first].append(candidate)
    return [group for group in groups if group]


def build_result(
    group: Sequence[Candidate],
    pages: Mapping[str, IndexedPage],
    texts: Mapping[str, ChunkText],
    query: str,
    stem: Stem = as_written,
) -> SearchResult:
    """Return the first page of a group with its passages, and the URLs of the others as its duplicates.

    `stem`: that of the index, so that what was found is marked.
    """
    first, *others = group
    question = read_question(query, first.page.detected_language or first.page.language, stem)
    passages = []
    for hit in first.hits:
        if chunk := texts.get(hit.chunk_id):
            snippet, ranges = snippet_cutting.snippet(plain_text(chunk.text), question, SNIPPET_CHARS)
            headings = tuple(plain_text(heading) or heading for heading in chunk.headings)
            place, scores = (headings, chunk.level, chunk.types), (hit.score, hit.lexical, hit.semantic)
            passages.append(MatchedPassage(hit.chunk_id, *place, snippet, tuple(ranges), *scores))
    duplicates = tuple(pages[other.page.item_id].url for other in others)
    return SearchResult(pages[first.page.item_id], first.score, tuple(passages), duplicates)


def _fold_keys(page: IndexedPage) -> list[_FoldKey]:
    """What a page shares with those it is folded with: its text, or its address but for the scheme."""
    if not page.content_group:
        return [page.version]
    scheme, _, address = page.url.partition("://")
    return [page.version, (page.content_group, address)] if scheme in ("http", "https") else [page.version]
