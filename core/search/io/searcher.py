"""Search: fuse words and meaning, check against Redis, return one result for each page.

What the replica finds is only a suggestion. Before anything is shown, one round trip asks Redis which version of each
page is live; what is gone, hidden, expired or superseded is not shown, however fresh the replica is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple, cast

from core.errors import SettingsError
from core.keys import Keys
from core.models import VectorSpace
from core.search.io import multilingual_embedder, qdrant_connect, replica_stemming
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embedders import NoEmbedder, open_embedder
from core.search.io.live_pages import LivePage, LivePageReader
from core.search.io.page_contents import PageContentReader
from core.search.io.replica_follower import ReplicaFollower
from core.search.io.replica_opener import ReplicaOpener, replica_folder
from core.search.io.replica_state import ReplicaBroken
from core.search.io.vector_space_store import VectorSpaceStore, refusal
from core.search.languages import MAIN_LANGUAGE, all_models, language_of_question, models_of, speaks
from core.search.models import (
    ChunkText,
    Filters,
    Hit,
    Hits,
    IndexQuery,
    Query,
    QueryVector,
    SearchResponse,
    SearchResult,
)
from core.search.protocols import Embedder, EmbedderUnavailable, Vector
from core.search.query_arguments import MOST_CANDIDATES
from core.search.ranking import FUSION_DEPTH, beside_weaker_model
from core.search.results import Candidate, build_result, fold_duplicates, group_by_page
from core.search.vector_spaces import Spaces
from core.settings import Settings
from core.store import connect
from core.store.connect import Client
from core.store.pipeline import read_many
from core.value_class import value_class

CANDIDATES = 2 * FUSION_DEPTH
"""Chunks that are ranked: the best two hundred by words and by meaning."""
FIRST_RESULTS = 100
MOST_REPAIRS = 2
MOST_ATTEMPTS = 20
"""A page that changes more often during one search may be missed."""
LANGUAGE_SAMPLE_HITS = 10
FEW_OTHERS = 0.1
"""Below this share of the chunks being in other languages, a word that none of them has is hardly of these."""
BY_BOTH, BY_WORDS = "words and meaning", "words"
NOTHING_EMBEDDED = f"{BY_WORDS} (nothing is embedded yet)"
NO_OTHERS = f"{BY_WORDS} (no page in other languages is embedded yet)"
NO_OTHERS_HERE = f"{BY_WORDS} (of these pages none in other languages is embedded)"
FOREIGN = f"{BY_WORDS} (the model does not speak the language of this question)"
BEHIND = "; the search replica is being brought up to date, and not everything is in it yet"
BUILDING = "; another process is building the search replica, and not everything is in it yet"
GUESSED = "meaning (no text has any of these words; what is nearest is shown)"
GUESSED_BY_FEW = "words and meaning (no text has most of these words; what is nearest is shown)"
QUOTED = f"{BY_WORDS} (quoted words are looked for as they are)"
QUOTED_NOWHERE = "; no text has all that is in quotes"


@asynccontextmanager
async def open_searcher(
    settings: Settings, client: connect.Client, keys: Keys, *, mend: bool = False, is_brief: bool = False
) -> AsyncIterator[Searcher]:
    """Open a searcher on this host's replica. `mend`: pages with damaged vectors or chunks are embedded again.

    `is_brief`: it is opened for one question.
    """
    embedder, raw = open_embedder(settings, is_brief=is_brief), connect.open_raw(settings)
    try:
        # Redis decides on the spaces, not the settings: two processes with other settings share this replica.
        spaces = await VectorSpaceStore(client, keys).live()
        contents = PageContentReader(client, raw, keys, embedder, mend=mend)
        async with _open_follower(settings, (client, keys), contents, spaces) as follower:
            yield Searcher(client, keys, follower, embedder)
    finally:
        await embedder.close()
        await raw.aclose()


@asynccontextmanager
async def _open_follower(
    settings: Settings, store: tuple[Client, Keys], contents: PageContentReader, spaces: Spaces
) -> AsyncIterator[ReplicaFollower]:
    """Open what is searched: this host's replica, or the index in Qdrant."""
    if settings.search_backend == "qdrant":
        try:
            from core.search.io.qdrant_follower import open_follower  # needs what only the extra `qdrant` installs
        except ModuleNotFoundError as error:
            raise SettingsError(qdrant_connect.MISSING.format(error.name)) from None
        async with open_follower(settings, store, contents, spaces) as in_qdrant:
            yield in_qdrant
        return
    with ReplicaOpener(replica_folder(settings)) as opener:
        follower = ReplicaFollower(*store, contents, opener, await opener.open(spaces), spaces)
        try:
            yield follower
        finally:
            follower.replica.close()


class _Meaning(NamedTuple):
    """A question as the models understand it."""

    vector: Vector | None = None
    other: QueryVector | None = None
    by: str = BY_WORDS
    """What is searched by, and why."""

    def weight_of_words(self, wanted: float) -> float:
        """Return the weight of words for these models; `wanted` is that beside the main one."""
        if self.vector is not None:
            return wanted
        return beside_weaker_model(wanted) if self.other else 1.0


@value_class
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
    guessed_by: str = ""
    """What a question that looks like no words was searched by; empty: it looks like words."""
    lacks_phrases: bool = False
    """They were found, but not what the question has in quotes."""


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
        correction = await self.follower.replica.corrected(query.text)
        query = replace(query, text=correction.text)
        live, meaning = await self._find_live(query, await self._embed(query), now, should_follow)
        pages = {item_id: page.page for item_id, page in live.pages.items()}
        shown, stem = live.groups[query.start : query.end], replica_stemming.terms
        results = [build_result(group, pages, live.texts, query.text, stem) for group in shown]
        results = await self._with_details([result for result in results if result.passages], live.pages)
        if query.nest_images:
            results = [replace(result, images=await self._images(result.page.item_id)) for result in results]
        by = (live.guessed_by or meaning.by) + QUOTED_NOWHERE * live.lacks_phrases
        by += BUILDING * self.follower.is_building if should_follow else BEHIND
        pending = await self._queue.count()
        shown_for = correction.text if correction.changes else ""
        weight = meaning.weight_of_words(query.lexical_weight)
        return SearchResponse(tuple(results), live.total, live.has_more, by, pending, shown_for, weight)

    async def _embed(self, query: Query) -> _Meaning:
        """Return the question as the models understand it, or why only words are searched."""
        if query.lexical_weight >= 1.0 or not query.text.strip():
            return _Meaning(by=BY_WORDS)
        language = language_of_question(query.text)
        if replica_stemming.is_phrase_alone(query.text, [language or MAIN_LANGUAGE]):
            return _Meaning(by=QUOTED)
        try:
            return await self._understand(query, language or await self._language_of_words(query))
        except EmbedderUnavailable as error:
            return _Meaning(by=f"{BY_WORDS} ({error})")

    async def _language_of_words(self, query: Query) -> str:
        """Return the main model's language if all pages with words of the query are in it, else an empty string.

        Asked before the query is embedded: loading the other model takes 1.5 CPU s, these words a millisecond. A word
        that no page has, in English letters, is taken for English where there is little else to be found.
        """
        main, companion = self._embedder, self._embedder.companion
        if main.languages is None or companion is None or companion.languages is None:
            return ""
        if not (share := self._share_of(companion, companion.languages - main.languages, query.filters)):
            return ""
        try:
            words = IndexQuery(query.text, filters=query.filters, limit=CANDIDATES, lexical_weight=1.0)
            by_words = await self.follower.replica.search(words)
        except ReplicaBroken:
            return ""  # the search that follows meets it too, and repairs it
        found = {hit.page.detected_language for hit in by_words if hit.page}
        is_like_english = query.text.isascii() and query.filters == Filters() and share < FEW_OTHERS
        is_main = found <= main.languages | {""} if found else is_like_english
        return MAIN_LANGUAGE if is_main else ""

    async def _understand(self, query: Query, language: str) -> _Meaning:
        """Embed the query by the models that know its language (all if unknown) and whose space has pages."""
        main, companion = self._embedder, self._embedder.companion
        asked = models_of(main, language) if language else all_models(main)
        if not asked:
            return _Meaning(by=_unspoken(main, language))
        vector = None
        if main in asked:
            if not self.follower.spaces and not isinstance(main, NoEmbedder):
                return _Meaning(by=NOTHING_EMBEDDED)  # said before the model is loaded, which would take longest
            await main.prepare()
            if reason := self._reason_for_words(main.space):
                return _Meaning(by=reason)
            vector = (await main.embed([query.text]))[0]
        other = None
        if companion in asked and companion and companion.languages:
            # A page that both know is compared by the main one, if that speaks the language of the question.
            known = main.languages if vector is not None else None
            spoken = companion.languages - (known or frozenset())
            if self._share_of(companion, spoken, query.filters):  # else its model is not loaded: .9 CPU s
                other = QueryVector((await companion.embed([query.text]))[0], spoken, companion.clear_similarity)
        by = BY_BOTH if vector is not None or other else NO_OTHERS if query.filters == Filters() else NO_OTHERS_HERE
        return _Meaning(vector, other, by)

    def _reason_for_words(self, space: VectorSpace | None) -> str:
        """Return why the vectors of the main model cannot be used; empty: they can."""
        live = self.follower.spaces
        if space is None:
            return f"{BY_WORDS} (EMBEDDER is none)"
        return f"{BY_WORDS} ({refusal(live.name, Spaces([space]))})" if live.main != space else ""

    def _share_of(self, companion: Embedder, languages: frozenset[str], filters: Filters) -> float:
        """Return which share of the chunks a question could meet by the model of other languages, in these."""
        snapshot, is_live = self.follower.replica.snapshot(), companion.space in self.follower.spaces
        return snapshot.share_of_others(languages, filters) if snapshot is not None and is_live else 0.0

    async def _find_live(
        self, query: Query, meaning: _Meaning, now: float, should_follow: bool
    ) -> tuple[_LiveGroups, _Meaning]:
        """Search until the replica is no longer behind: a page that was swapped meanwhile is found in its new version.

        Also return what it was searched by.
        """
        repairs = 0
        for _ in range(MOST_ATTEMPTS):
            try:
                checkpoint = self.follower.replica.checkpoint
                hits, used = await self._hits(query, meaning)
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
        return live, used

    async def _hits(self, query: Query, meaning: _Meaning) -> tuple[Hits, _Meaning]:
        """Return the best chunks, and what they were searched by.

        A page in a language that no model speaks is found by its words alone; so is everything for a query in such a
        language, which the best hits by words tell where the query itself does not.
        """
        hits = await self._search(query, meaning)
        if meaning.vector is None or self._embedder.languages is None or language_of_question(query.text):
            return hits, meaning
        language = _language_of_hits(hits, self._embedder.languages) or self._other_language(hits)
        if not language:
            return hits, meaning
        by_others = await self._understood_by_others(query, language)
        return await self._search(query, by_others), by_others

    def _other_language(self, hits: Hits) -> str:
        """Return a language of the other model for a question whose words occur nowhere, if that model knows all pages:
        such a question is rather in a language that no page is in."""
        companion, main = self._embedder.companion, self._embedder.languages or frozenset()
        is_unknown = not any(hit.lexical > 0 for hit in hits)
        knows_all = companion is not None and companion.languages is not None and main <= companion.languages
        return min(companion.languages - main) if is_unknown and knows_all and companion and companion.languages else ""

    async def _understood_by_others(self, query: Query, language: str) -> _Meaning:
        """Return the question as the model of other languages understands it; without meaning if it does not."""
        companion = self._embedder.companion
        if companion is None or not speaks(companion, language):
            return _Meaning(by=FOREIGN)
        return await self._understand(query, language)

    async def _search(self, query: Query, meaning: _Meaning) -> Hits:
        limit = CANDIDATES if query.end <= FIRST_RESULTS else MOST_CANDIDATES
        weight, languages = meaning.weight_of_words(query.lexical_weight), self._embedder.languages
        clear = self._embedder.clear_similarity
        asked = IndexQuery(query.text, meaning.vector, query.filters, limit, weight, languages, meaning.other, clear)
        return await self.follower.replica.search(asked)

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
        is_behind = is_swapped or len(texts) < len(shown)
        lacks_phrases = hits.lacks_phrases and bool(hits)  # beside no answer there is nothing to explain
        return _LiveGroups(kept, total, hits.has_more, pages, texts, is_behind, _guessed_by(hits), lacks_phrases)

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


def _unspoken(embedder: Embedder, language: str) -> str:
    """Say why a question in this language is searched by words."""
    is_missing = embedder.companion is None and language in multilingual_embedder.LANGUAGES
    return f"{BY_WORDS} ({multilingual_embedder.MISSING})" if is_missing else FOREIGN


def _guessed_by(hits: Hits) -> str:
    """Say by what a question that looks like no words was searched; empty: it looks like words."""
    return "" if not hits.is_guess else GUESSED_BY_FEW if any(hit.lexical > 0 for hit in hits) else GUESSED


def _language_of_hits(hits: Sequence[Hit], main_languages: frozenset[str]) -> str:
    """Return the language of the best hits by words, if it is one that the main model does not understand."""
    best = sorted((hit for hit in hits if hit.lexical > 0), key=lambda hit: -hit.lexical)[:LANGUAGE_SAMPLE_HITS]
    foreign = [hit for hit in best if hit.page and hit.page.detected_language not in ("", *main_languages)]
    is_first = bool(foreign) and foreign[0].lexical == best[0].lexical
    if is_first or 2 * sum(hit.lexical for hit in foreign) > sum(hit.lexical for hit in best):
        return foreign[0].page.detected_language if foreign[0].page else ""
    return ""
