"""Ask a question: words and meaning, joined, checked against the live store, one result for each page.

What the replica finds is only a suggestion. Before anything is shown, one round trip asks Redis which version of each
page is live; what is gone, hidden, expired or superseded is not shown, however fresh the replica is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import cast

from core.keys import Keys
from core.pages.stop_words import language_by_stop_words
from core.search import facets
from core.search.io import replica_terms
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embedders import open_embedder
from core.search.io.live_pages import LivePage, LivePageReader
from core.search.io.page_contents import PageContentReader
from core.search.io.replica_follower import ReplicaFollower
from core.search.io.replica_opener import ReplicaOpener, replica_folder
from core.search.io.replica_snapshot import FUSION_DEPTH
from core.search.io.replica_state import ReplicaBroken
from core.search.io.vector_space import VectorSpaceStore, refusal
from core.search.models import ChunkText, Filters, Hit, Hits, Query, SearchResult, SearchResults
from core.search.protocols import Embedder, EmbedderUnavailable, Vector
from core.search.results import Candidate, build_result, fold_duplicates, group_by_page
from core.settings import Settings
from core.store import connect
from core.store.connect import Client

CANDIDATES = 2 * FUSION_DEPTH
"""Chunks that are ranked: the best two hundred by words and by meaning."""
FIRST_RESULTS = 100
MOST_CANDIDATES = 2_000
"""Whoever turns so far is shown what else words find, after the same first results."""
MOST_REPAIRS = 2
MOST_LOOKS = 20
"""A page that changes more often while one question is answered may be missed."""
TELLING_HITS = 10
BY_BOTH, BY_WORDS = "words and meaning", "words"
FOREIGN = f"{BY_WORDS} (the model does not speak the language of this question)"
BUILDING = "; another process is building the search replica, and not everything is in it yet"
QUOTED = f"{BY_WORDS} (quoted words are looked for as they are)"


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the replica brought, and what Redis says of it."""

    groups: list[list[Candidate]]
    """Those that may be shown, up to the page that is asked for."""
    total: int
    is_more: bool
    live: Mapping[str, LivePage | None]
    texts: Mapping[str, ChunkText]
    is_behind: bool


@asynccontextmanager
async def open_searcher(
    settings: Settings, client: connect.Client, keys: Keys, *, mend: bool = False
) -> AsyncIterator[Searcher]:
    """Open a searcher on this host's replica. `mend`: pages with damaged vectors or chunks are embedded again."""
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    try:
        # Redis decides on the space, not the settings: two processes with other settings share this replica.
        space = await VectorSpaceStore(client, keys).live()
        contents = PageContentReader(client, raw, keys, embedder, mend=mend)
        with ReplicaOpener(replica_folder(settings)) as opener:
            follower = ReplicaFollower(client, keys, contents, opener, await opener.open(space), space)
            try:
                yield Searcher(client, keys, follower, contents, embedder)
            finally:
                follower.replica.close()
    finally:
        await embedder.close()
        await raw.aclose()


class Searcher:
    """Answers queries for one process."""

    def __init__(
        self, client: Client, keys: Keys, follower: ReplicaFollower, contents: PageContentReader, embedder: Embedder
    ) -> None:
        self._client = client
        self._keys = keys
        self._follower = follower
        self._contents = contents
        self._embedder = embedder
        self._pages = LivePageReader(client, keys)
        self._queue = EmbedQueue(client, keys)

    async def search(self, query: Query, now: float) -> SearchResults:
        """The pages that answer, best first."""
        await self._follower.catch_up()
        vector, by = await self._vector(query)
        look, is_foreign = await self._live_look(query, vector, now)
        shown = look.groups[query.start : query.end]
        pages = {item_id: live.page for item_id, live in look.live.items() if live}
        results = [build_result(same, pages, look.texts, query.text) for same in shown]
        results = await self._with_aliases([one for one in results if one.passages], look.live)
        if query.nest_images:
            results = [replace(one, images=await self._images(one.page.item_id)) for one in results]
        by = FOREIGN if is_foreign else by
        by += BUILDING * self._follower.is_building
        return SearchResults(tuple(results), look.total, look.is_more, by, pending=await self._queue.count())

    # ── finding ──

    async def _live_look(self, query: Query, vector: Vector | None, now: float) -> tuple[_Look, bool]:
        """A page that was swapped while we looked is looked for in its new version."""
        look, is_foreign, repairs = _Look([], 0, False, {}, {}, False), False, 0
        for _ in range(MOST_LOOKS):
            try:
                seen = self._follower.replica.checkpoint
                hits, is_foreign = await self._hits(query, vector)
                look = await self._look(hits, query, now)
            except ReplicaBroken as broken:
                repairs += 1
                if repairs > MOST_REPAIRS:
                    raise
                await self._follower.repair(broken)
                continue
            if not look.is_behind:
                break
            await self._follower.catch_up()
            if self._follower.replica.checkpoint == seen:  # neither we nor another process knows more than before
                break
        return look, is_foreign

    async def _hits(self, query: Query, vector: Vector | None) -> tuple[Hits, bool]:
        """The best chunks, and whether meaning was left out since the model does not speak their language.

        A page that reads as another language is found by its words alone; a question in one the model does not
        understand either, which the best answers by words tell where the question itself does not.
        """
        replica, limit, spoken = self._follower.replica, _limit(query), self._embedder.languages
        if vector is not None:
            hits = await replica.search(query.text, vector, query.filters, limit, query.lexical_weight, spoken)
            if spoken is None or not _are_foreign(query.text, hits, spoken):
                return hits, False
        return await replica.search(query.text, None, query.filters, limit), vector is not None

    async def _look(self, hits: Hits, query: Query, now: float) -> _Look:
        """Ask Redis what is live, as far down as the page that is asked for."""
        groups = fold_duplicates(group_by_page(hits, query.freshness, now))
        live: dict[str, LivePage | None] = {}
        kept: list[list[Candidate]] = []
        dropped, at = 0, 0
        while at < len(groups) and len(kept) < query.end:
            some = groups[at : at + query.end - len(kept)]
            at += len(some)
            live |= await self._pages.read([one.page.item_id for same in some for one in same])
            alive = [[one for one in same if _may_be_shown(one, live, query.filters)] for same in some]
            kept += [same for same in alive if same]
            dropped += sum(not same for same in alive)
        shown = [hit for same in kept[query.start :] for hit in same[0].hits]
        texts = await self._follower.replica.texts(shown)
        is_swapped = any(found and not _is_live(one, live) for one, found in _known(groups[:at], live))
        is_behind = is_swapped or len(texts) < len(shown)
        return _Look(kept, len(groups) - dropped, hits.is_cut, live, texts, is_behind)

    async def _vector(self, query: Query) -> tuple[Vector | None, str]:
        """The question as the model sees it; None, and why, where words alone are asked."""
        spoken = self._embedder.languages
        if query.lexical_weight >= 1.0 or not query.text.strip():
            return None, BY_WORDS
        if replica_terms.is_quoted(query.text):
            return None, QUOTED
        if spoken is not None and not _is_spoken(language_by_stop_words(query.text), spoken):
            return None, FOREIGN
        try:
            await self._embedder.prepare()
            if self._embedder.space is None:
                return None, f"{BY_WORDS} (EMBEDDER is none)"
            live = self._follower.space
            if live is None:
                return None, f"{BY_WORDS} (nothing is embedded yet)"
            if live.name != self._embedder.space.name:
                return None, f"{BY_WORDS} ({refusal(live.name, self._embedder.space)})"
            return (await self._embedder.embed([query.text]))[0], BY_BOTH
        except EmbedderUnavailable as away:
            return None, f"{BY_WORDS} ({away})"

    # ── reconciliation ──

    async def compare(self, *, fix: bool = False) -> dict[str, int]:
        """Pages that the replica lacks or has otherwise, and too many; with `fix` it is then built anew from Redis."""
        await self._follower.catch_up()
        replica, missing = self._follower.replica, 0
        extra = replica.item_ids()
        pages = len(extra)
        async for some in self._follower.all_items():
            for item_id, content in (await self._contents.read(some, self._follower.space)).items():
                if content is not None:
                    extra.discard(item_id)
                    missing += not self._follower.has(item_id, content)
        told = {"pages": pages, "chunks": await replica.count(), "missing": missing, "extra": len(extra)}
        if fix and (missing or extra):
            await self._follower.rebuild()
        return told

    # ── what hangs on a page ──

    async def _with_aliases(
        self, results: Sequence[SearchResult], live: Mapping[str, LivePage | None]
    ) -> list[SearchResult]:
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


def _limit(query: Query) -> int:
    return CANDIDATES if query.end <= FIRST_RESULTS else MOST_CANDIDATES


def _names(page: LivePage) -> list[str]:
    return [page.page.item_id, *([page.article_uid] if page.article_uid else [])]


def _is_live(one: Candidate, live: Mapping[str, LivePage | None]) -> bool:
    found = live.get(one.page.item_id)
    return found is not None and found.page.version == one.page.version


def _may_be_shown(one: Candidate, live: Mapping[str, LivePage | None], filters: Filters) -> bool:
    """Its version is live, and the page as it is now is what was asked for."""
    found = live.get(one.page.item_id)
    return found is not None and _is_live(one, live) and facets.matches(found.page, filters)


def _known(
    groups: Sequence[Sequence[Candidate]], live: Mapping[str, LivePage | None]
) -> list[tuple[Candidate, LivePage | None]]:
    return [(one, live.get(one.page.item_id)) for same in groups for one in same]


def _is_spoken(language: str, spoken: frozenset[str]) -> bool:
    """Empty: it tells nothing, and is written in Latin letters."""
    return not language or language in spoken


def _are_foreign(question: str, hits: Sequence[Hit], spoken: frozenset[str]) -> bool:
    """Are the best answers by words in languages that the model does not speak, and the question perhaps too?"""
    if language_by_stop_words(question) in spoken:
        return False
    best = sorted((hit for hit in hits if hit.lexical > 0), key=lambda hit: -hit.lexical)[:TELLING_HITS]
    foreign = [hit.lexical for hit in best if hit.page and not _is_spoken(hit.page.reads_as, spoken)]
    is_first = bool(foreign) and foreign[0] == best[0].lexical
    return is_first or 2 * sum(foreign) > sum(hit.lexical for hit in best)
