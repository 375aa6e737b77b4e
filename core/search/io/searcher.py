"""Search: fuse words and meaning, check against Redis, return one result for each page.

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
from core.search.models import ChunkText, Hit, Hits, Query, SearchResponse, SearchResult
from core.search.protocols import Embedder, EmbedderUnavailable, Vector
from core.search.query_arguments import MOST_CANDIDATES
from core.search.results import Candidate, build_result, fold_duplicates, group_by_page
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.pipeline import read_many

CANDIDATES = 2 * FUSION_DEPTH
"""Chunks that are ranked: the best two hundred by words and by meaning."""
FIRST_RESULTS = 100
MOST_REPAIRS = 2
MOST_ATTEMPTS = 20
"""A page that changes more often during one search may be missed."""
LANGUAGE_SAMPLE_HITS = 10
BY_BOTH, BY_WORDS = "words and meaning", "words"
FOREIGN = f"{BY_WORDS} (the model does not speak the language of this question)"
BEHIND = "; the search replica is being brought up to date, and not everything is in it yet"
BUILDING = "; another process is building the search replica, and not everything is in it yet"
QUOTED = f"{BY_WORDS} (quoted words are looked for as they are)"


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
                yield Searcher(client, keys, follower, embedder)
            finally:
                follower.replica.close()
    finally:
        await embedder.close()
        await raw.aclose()


@dataclass(frozen=True, slots=True)
class _LiveGroups:
    """What the replica found, as far as Redis confirms it."""

    groups: list[list[Candidate]]
    """Groups of pages with the same text, down to the page of results that is asked for."""
    total: int
    has_more: bool
    pages: Mapping[str, LivePage]
    texts: Mapping[str, ChunkText]
    is_behind: bool
    """A newer version of a page is live than the replica found."""


class Searcher:
    """Answers queries in one process."""

    def __init__(self, client: Client, keys: Keys, follower: ReplicaFollower, embedder: Embedder) -> None:
        self._client = client
        self._keys = keys
        self._embedder = embedder
        self._pages = LivePageReader(client, keys)
        self._queue = EmbedQueue(client, keys)
        self.follower = follower

    async def search(self, query: Query, now: float, *, should_follow: bool = True) -> SearchResponse:
        """Return the pages that match, best first.

        `should_follow` False: search the replica as it is, while someone else brings it up to date.
        """
        if should_follow:
            await self.follower.catch_up()
        vector, by = await self._embed(query)
        live, is_foreign = await self._find_live(query, vector, now, should_follow)
        pages = {item_id: page.page for item_id, page in live.pages.items()}
        results = [build_result(group, pages, live.texts, query.text) for group in live.groups[query.start : query.end]]
        results = await self._with_details([result for result in results if result.passages], live.pages)
        if query.nest_images:
            results = [replace(result, images=await self._images(result.page.item_id)) for result in results]
        by = FOREIGN if is_foreign else by
        by += BUILDING * self.follower.is_building if should_follow else BEHIND
        return SearchResponse(tuple(results), live.total, live.has_more, by, pending=await self._queue.count())

    async def _embed(self, query: Query) -> tuple[Vector | None, str]:
        """Return the vector of the query; None, and why, where only words are searched."""
        languages = self._embedder.languages
        if query.lexical_weight >= 1.0 or not query.text.strip():
            return None, BY_WORDS
        if replica_terms.is_quoted(query.text):
            return None, QUOTED
        if languages is not None and _is_foreign(language_by_stop_words(query.text), languages):
            return None, FOREIGN
        try:
            await self._embedder.prepare()
            space, live_space = self._embedder.space, self.follower.space
            if space is None:
                return None, f"{BY_WORDS} (EMBEDDER is none)"
            if live_space is None:
                return None, f"{BY_WORDS} (nothing is embedded yet)"
            if live_space.name != space.name:
                return None, f"{BY_WORDS} ({refusal(live_space.name, space)})"
            return (await self._embedder.embed([query.text]))[0], BY_BOTH
        except EmbedderUnavailable as error:
            return None, f"{BY_WORDS} ({error})"

    async def _find_live(
        self, query: Query, vector: Vector | None, now: float, should_follow: bool
    ) -> tuple[_LiveGroups, bool]:
        """Search until the replica is no longer behind: a page that was swapped meanwhile is found in its new version.

        The flag says whether meaning was left out, since the model does not understand the language.
        """
        repairs = 0
        for _ in range(MOST_ATTEMPTS):
            try:
                checkpoint = self.follower.replica.checkpoint
                hits, is_foreign = await self._hits(query, vector)
                live = await self._check_live(hits, query, now)
            except ReplicaBroken as broken:
                repairs += 1
                if repairs > MOST_REPAIRS:
                    raise
                await self.follower.repair(broken)
                continue
            if not live.is_behind or not should_follow:
                break
            await self.follower.catch_up()
            if self.follower.replica.checkpoint == checkpoint:  # neither we nor another process knows more
                break
        return live, is_foreign

    async def _hits(self, query: Query, vector: Vector | None) -> tuple[Hits, bool]:
        """Return the best chunks, and whether meaning was left out, since the model does not understand the language.

        A page in another language is found by its words alone; so is everything for a query in another language, which
        the best hits by words tell where the query itself does not.
        """
        replica, languages = self.follower.replica, self._embedder.languages
        limit = CANDIDATES if query.end <= FIRST_RESULTS else MOST_CANDIDATES
        if vector is not None:
            hits = await replica.search(query.text, vector, query.filters, limit, query.lexical_weight, languages)
            if languages is None or not _are_foreign(query.text, hits, languages):
                return hits, False
        return await replica.search(query.text, None, query.filters, limit), vector is not None

    async def _check_live(self, hits: Hits, query: Query, now: float) -> _LiveGroups:
        """Ask Redis which pages are live, down to the page of results that is asked for."""
        groups = fold_duplicates(group_by_page(hits, query.freshness, now))
        pages: dict[str, LivePage] = {}
        kept: list[list[Candidate]] = []
        checked, is_swapped = 0, False
        while checked < len(groups) and len(kept) < query.end:
            batch = groups[checked : checked + query.end - len(kept)]
            checked += len(batch)
            pages |= await self._pages.read([candidate.page.item_id for group in batch for candidate in group])
            for group in batch:
                known = [(one, pages[one.page.item_id].page) for one in group if one.page.item_id in pages]
                live = [(one, page) for one, page in known if one.page.version == page.version]
                is_swapped |= len(live) < len(known)
                # The page as it is now decides, not as the replica has it.
                if matching := [one for one, page in live if query.filters.match(page)]:
                    kept.append(matching)
        shown = [hit for group in kept[query.start :] for hit in group[0].hits]
        texts = await self.follower.replica.texts(shown)
        total = len(groups) - (checked - len(kept))
        return _LiveGroups(kept, total, hits.has_more, pages, texts, is_swapped or len(texts) < len(shown))

    async def _with_details(self, results: Sequence[SearchResult], pages: Mapping[str, LivePage]) -> list[SearchResult]:
        """Add what the live pages say beside their text: when they were verified, and their other URLs.

        Aliases of an article are found by its uid, those of a site's page by its item.
        """
        ids = [(result.page.item_id, pages[result.page.item_id].article_uid) for result in results]
        unions = [("SUNION", *(self._keys.aliases(name) for name in names if name)) for names in ids]
        return [
            replace(
                result,
                aliases=tuple(sorted(set(urls) - {result.page.url})),
                verification=pages[result.page.item_id].verification,
            )
            for result, urls in zip(results, await read_many(self._client, unions), strict=True)
        ]

    async def _images(self, item_id: str) -> tuple[Mapping[str, str], ...]:
        """Return the images of a page; each is an item of its own that names its parent page."""
        image_ids = sorted(cast(set[str], await self._client.smembers(self._keys.images(item_id))))
        fields = ("id", "fetchUrl", "altText", "parentPageId", "parentPageUrl")
        names = ("id", "url", "alt", "parentPageId", "parentPageUrl")
        rows = await read_many(self._client, [("HMGET", self._keys.item(image_id), *fields) for image_id in image_ids])
        return tuple(dict(zip(names, row, strict=True)) for row in rows if row[0])


def _is_foreign(language: str, model_languages: frozenset[str]) -> bool:
    """Whether the model does not understand a language; empty: not known, and in Latin letters."""
    return bool(language) and language not in model_languages


def _are_foreign(query: str, hits: Sequence[Hit], model_languages: frozenset[str]) -> bool:
    """Whether the best hits by words are in languages that the model does not understand, and the query may be too."""
    if language_by_stop_words(query) in model_languages:
        return False
    best = sorted((hit for hit in hits if hit.lexical > 0), key=lambda hit: -hit.lexical)[:LANGUAGE_SAMPLE_HITS]
    foreign = [hit.lexical for hit in best if hit.page and _is_foreign(hit.page.detected_language, model_languages)]
    is_first = bool(foreign) and foreign[0] == best[0].lexical
    return is_first or 2 * sum(foreign) > sum(hit.lexical for hit in best)
