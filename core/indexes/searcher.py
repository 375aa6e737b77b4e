"""Ask a question: words and meaning, joined, checked against the live store, one result for each page.

What the replica finds is only a suggestion. Before anything is shown, one round trip asks Redis which version of each
page is live; what is gone, hidden, expired or superseded is not shown, however fresh the replica is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from core import highlight
from core.indexes.follower import Follower
from core.indexes.pages import LivePage, PageReader
from core.indexes.protocols import Embedder, EmbedderAway, Filters, Hit, Page
from core.indexes.replica import Replica
from core.keys import Keys
from core.stores.connect import Client
from core.stores.spaces import refusal

MOST_RESULTS = 1_000
MOST_LOOKS = 20
"""A page that changes more often while one question is answered may be missed."""
CHUNKS_PER_RESULT = 5
PASSAGES = 3
SNIPPET_CHARS = 280
FRESH_DAYS = 30.0
LEXICAL_WEIGHT = 0.55
"""Of the score; nDCG@10 on Cranfield through the whole product: .45 .567, .5 .570, .55 .571; words alone .535."""
DAY_SECONDS = 86_400.0


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
    """Other pages with the same text."""
    aliases: tuple[str, ...] = ()
    """Other URLs of this page."""
    images: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The answer."""

    results: tuple[Result, ...]
    total: int
    by: str
    """`words and meaning`, or `words` with the reason."""


class Searcher:
    """Answers questions for one process."""

    def __init__(self, client: Client, keys: Keys, replica: Replica, follower: Follower, embedder: Embedder) -> None:
        self._client = client
        self._keys = keys
        self._replica = replica
        self._follower = follower
        self._embedder = embedder
        self._pages = PageReader(client, keys)

    async def search(self, query: Query, now: float) -> Found:
        """The pages that answer, best first."""
        await self._follower.sync()
        vector, by = await self._vector(query)
        wanted = min(max(query.page, 1) * query.per_page, MOST_RESULTS)
        hits, live = await self._live_hits(query, vector, wanted * CHUNKS_PER_RESULT)
        results = self._folded(self._grouped(hits, live, query, now))
        start = (max(query.page, 1) - 1) * query.per_page
        shown = await self._with_aliases(results[start : start + query.per_page], live)
        if query.nest_images:
            shown = [replace(one, images=await self._images(one.page.item_id)) for one in shown]
        return Found(tuple(shown), len(results), by)

    async def _live_hits(
        self, query: Query, vector: bytes | None, limit: int
    ) -> tuple[list[Hit], dict[str, LivePage | None]]:
        """What was found, and what is live. A page that was swapped in between is looked for in its new version."""
        for _ in range(MOST_LOOKS):
            hits = await self._hits(query, vector, limit)
            live = await self._pages.read(list(dict.fromkeys(hit.item_id for hit in hits)))
            is_behind = any(page and page.page.version != hit.version for hit in hits for page in [live[hit.item_id]])
            if not is_behind or not await self._follower.sync():
                break
        return hits, live

    async def _hits(self, query: Query, vector: bytes | None, limit: int) -> list[Hit]:
        """Meaning counts only for languages that the model speaks; all others are found by words, as without it."""
        spoken = self._embedder.languages
        if vector is None or spoken is None:
            return await self._replica.search(query.text, vector, query.filters, limit, query.lexical_weight)
        words = await self._replica.search(query.text, None, query.filters, limit)
        asked = [name for name in query.filters.languages if name in spoken] if query.filters.languages else spoken
        if not asked or (words and _is_foreign(words[0], spoken)):
            # The best answer by words tells the question's language; of a foreign one the model understands nothing.
            return words
        within = replace(query.filters, languages=tuple(sorted(asked)))
        both = await self._replica.search(query.text, vector, within, limit, query.lexical_weight)
        others = [hit for hit in words if hit.page is None or hit.page.language not in spoken]
        return sorted([*both, *others], key=lambda hit: -hit.score)[:limit]

    async def _vector(self, query: Query) -> tuple[bytes | None, str]:
        if query.lexical_weight >= 1.0 or not query.text.strip():
            return None, "words"
        try:
            await self._embedder.prepare()
            if self._embedder.space is None:
                return None, "words (EMBEDDER is none)"
            live = self._follower.space
            if live is None or live.name != self._embedder.space.name:
                return None, f"words ({refusal(live.name if live else 'no model', self._embedder.space)})"
            return (await self._embedder.embed([query.text]))[0], "words and meaning"
        except EmbedderAway as away:
            return None, f"words ({away})"

    # ── reconciliation ──

    async def compare(self, *, fix: bool = False) -> dict[str, int]:
        """Pages that the replica lacks or has otherwise, and too many; with `fix` it is then built anew from Redis."""
        await self._follower.sync()
        here: dict[str, tuple[str, set[str]]] = {}
        chunks = 0
        async for chunk_id, item_id, version in self._replica.iter_ids():
            here.setdefault(item_id, (version, set()))[1].add(chunk_id)
            chunks += 1
        pages, missing = len(here), 0
        async for some in self._follower.all_items():
            for item_id, live in (await self._pages.read(some)).items():
                if live is not None:
                    missing += not await self._is_same(item_id, live, *here.pop(item_id, ("", set())))
        if fix and (missing or here):
            await self._follower.rebuild()
        return {"pages": pages, "chunks": chunks, "missing": missing, "extra": len(here)}

    async def _is_same(self, item_id: str, live: LivePage, version: str, chunk_ids: set[str]) -> bool:
        """Has the replica of this page what Redis has? A text without a word has no chunks, and is not missing."""
        content, _ = await self._follower.content(item_id, live)
        return {chunk.id for chunk in content} == chunk_ids and (version == live.page.version or not chunk_ids)

    # ── one result for each page ──

    def _grouped(
        self, hits: Sequence[Hit], live: Mapping[str, LivePage | None], query: Query, now: float
    ) -> list[Result]:
        words = highlight.words(query.text)
        by_item: dict[str, list[Hit]] = {}
        for hit in hits:
            found = live.get(hit.item_id)
            if found is not None and found.page.version == hit.version:
                by_item.setdefault(hit.item_id, []).append(hit)
        results = []
        for item_id, own in by_item.items():
            page = cast(LivePage, live[item_id]).page
            passages = tuple(_passage(hit, words) for hit in own[:PASSAGES])
            results.append(Result(page, own[0].score * _freshness(page, query.freshness, now), passages))
        return sorted(results, key=lambda one: -one.score)

    def _folded(self, results: Sequence[Result]) -> list[Result]:
        """Pages with the same text are one result; the others are named in it."""
        by_text: dict[str, list[Result]] = {}
        for result in results:
            by_text.setdefault(result.page.version, []).append(result)
        return [
            replace(first, duplicates=tuple(other.page.url for other in others)) for first, *others in by_text.values()
        ]

    async def _with_aliases(self, results: Sequence[Result], live: Mapping[str, LivePage | None]) -> list[Result]:
        """Other URLs of each page: of the article by its uid, of a site's page by its item."""
        pipe = self._client.pipeline(transaction=False)
        for result in results:
            pages = [live[result.page.item_id]]
            pipe.sunion([self._keys.aliases(name) for page in pages if page for name in _names(page)])
        named = await pipe.execute() if results else []
        pairs = zip(results, named, strict=True)
        return [replace(one, aliases=tuple(sorted(set(others) - {one.page.url}))) for one, others in pairs]

    async def _images(self, item_id: str) -> tuple[Mapping[str, str], ...]:
        """Children by their parent, as spec 000 §8 has it."""
        children = sorted(cast(set[str], await self._client.smembers(self._keys.images(item_id))))
        pipe = self._client.pipeline(transaction=False)
        for child in children:
            pipe.hmget(self._keys.item(child), ["id", "fetchUrl", "altText", "parentPageId", "parentPageUrl"])
        names = ("id", "url", "alt", "parentPageId", "parentPageUrl")
        return tuple(dict(zip(names, row, strict=True)) for row in (await pipe.execute() if children else []) if row[0])


def _names(page: LivePage) -> list[str]:
    return [page.page.item_id, *([page.article_uid] if page.article_uid else [])]


def _passage(hit: Hit, words: tuple[str, ...]) -> Passage:
    shown, ranges = highlight.snippet(hit.text, words, SNIPPET_CHARS)
    return Passage(hit.chunk_id, hit.headings, shown, tuple(ranges), hit.score, hit.lexical, hit.semantic)


def _is_foreign(hit: Hit, spoken: frozenset[str]) -> bool:
    """Is it in a language that we know, and the model does not?"""
    return hit.page is not None and bool(hit.page.language) and hit.page.language not in spoken


def _freshness(page: Page, weight: float, now: float) -> float:
    stamp = page.published_ts or page.updated_ts
    age_days = max(now - stamp, 0.0) / DAY_SECONDS if stamp else math.inf
    return 1.0 + weight * math.exp(-age_days / FRESH_DAYS)
