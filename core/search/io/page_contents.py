"""What the replica is filled with: pages as they are live, their chunks and vectors, read from Redis in batches."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.pages.stop_words import language_by_stop_words
from core.search import chunk as chunking
from core.search.io.chunk_reader import ChunkReader, StoredChunk
from core.search.io.chunk_store import ChunkStore
from core.search.io.live_pages import LivePage, LivePageReader, LiveTextReader
from core.search.io.vector_space import VectorSpaceStore
from core.search.models import IndexedPage
from core.search.protocols import Embedder
from core.store.connect import Client, now

log = logging.getLogger("search")

MOST_LOOKS = 5
"""A page that is swapped while it is read is read again; what a page lacks for good is done without."""
SAMPLE_CHUNKS = 4


@dataclass(frozen=True, slots=True)
class PageContent:
    """One version of a page, whole."""

    page: IndexedPage
    chunks: Sequence[Chunk]
    vectors: Mapping[str, bytes] = field(default_factory=dict)


class PageContentReader:
    """Reads contents. A text that nobody has embedded yet is cut here, as a worker will, with the vectors there are: of
    a new page none, of a changed one those of all chunks that have stayed."""

    def __init__(self, client: Client, raw: Redis, keys: Keys, embedder: Embedder, *, mend: bool = False) -> None:
        """`mend`: a page with damaged vectors or lost chunks is made to wait for an embed worker."""
        self._texts = LiveTextReader(client, keys)
        self._pages = LivePageReader(client, keys)
        self._chunks = ChunkReader(raw, keys)
        self._store = ChunkStore(client, raw, keys)
        self._spaces = VectorSpaceStore(client, keys)
        self._now = partial(now, client)
        self._embedder = embedder
        self._may_mend = mend

    async def read(self, item_ids: Sequence[str], space: VectorSpace | None) -> dict[str, PageContent | None]:
        """By item id; None: it may not be found."""
        found: dict[str, PageContent | None] = {}
        left = list(item_ids)
        for look in range(MOST_LOOKS):
            pages = await self._pages.read(left)
            found |= {item_id: None for item_id, live in pages.items() if live is None}
            is_last = look == MOST_LOOKS - 1
            live_pages = {item_id: live for item_id, live in pages.items() if live}
            found |= await self._read(live_pages, space, is_last=is_last)
            left = [item_id for item_id in left if item_id not in found]
            if not left:
                break
        return found

    async def _read(
        self, pages: Mapping[str, LivePage], space: VectorSpace | None, *, is_last: bool
    ) -> dict[str, PageContent | None]:
        """Pages whose chunks are not all there are left out, since they may be being swapped; at last they are cut."""
        embedded = {item_id: live.page.version for item_id, live in pages.items() if live.has_chunks}
        stored = await self._chunks.read(embedded, space)
        lost = {item_id for item_id, own in stored.items() if not (own.is_whole and own.chunks)}
        known = {item_id: own.chunks for item_id, own in stored.items() if item_id not in lost or is_last}
        chunks = {item_id: [one.chunk for one in own] for item_id, own in known.items()}
        vectors = {one.chunk.id: one.vector for own in known.values() for one in own if one.vector}
        to_cut = pages.keys() - embedded.keys() | (lost if is_last else set())
        chunks |= await self._cut({item_id: pages[item_id] for item_id in to_cut})
        vectors |= await self._others(chunks, vectors, space)
        if self._may_mend:
            lost = {item_id for item_id in lost & known.keys() if chunks[item_id]}  # others have a text without a word
            await self._mend(_damage(known, lost), pages, space)
        return {item_id: _content(pages[item_id].page, own, vectors) for item_id, own in chunks.items()}

    async def _mend(
        self, damaged: Mapping[str, Mapping[str, bytes]], pages: Mapping[str, LivePage], space: VectorSpace | None
    ) -> None:
        """Let pages wait for an embed worker, without those vectors of theirs that are none."""
        for item_id, own in damaged.items():
            what = f"{len(own)} of its vectors cannot be read" if own else "Some of its chunks are lost"
            log.warning("⚠️ %s; it is found by words and embedded again → %s", what, pages[item_id].page.url)
        if not damaged:
            return
        dropped = {name: value for own in damaged.values() for name, value in own.items()}
        try:
            if space and dropped:
                await self._store.drop_vectors(dropped, space)
            await self._spaces.make_due(list(damaged), space, await self._now(), is_damaged=True)
        except ResponseError as error:  # a server that takes no writes now can still be asked
            log.warning("⚠️ They cannot be made due now: %s", error)

    async def _others(
        self, chunks: Mapping[str, Sequence[Chunk]], known: Mapping[str, bytes], space: VectorSpace | None
    ) -> dict[str, bytes]:
        """Vectors of chunks that have none of their own: of a text before its swap, or of a space before its own."""
        without = {item_id: [one for one in own if one.id not in known] for item_id, own in chunks.items()}
        without = {item_id: own for item_id, own in without.items() if own}
        if space is None or not without:
            return {}
        old = await self._store.old_of(list(without))
        before = {name: what for own in old.values() for name, what in own.known.items()}
        found = await self._store.vectors([one for own in without.values() for one in own], space, before)
        return {one.id: found[one.text_hash] for own in without.values() for one in own if one.text_hash in found}

    async def _cut(self, pages: Mapping[str, LivePage]) -> dict[str, list[Chunk]]:
        """Texts that wait for their vectors; one that has changed since is left out."""
        places = {item_id: live.text_key for item_id, live in pages.items()}
        texts = await self._texts.read_markdown(places, {item_id: live.page.version for item_id, live in pages.items()})
        count, most = self._embedder.count_tokens, self._embedder.most_tokens
        return {item_id: chunking.chunks(item_id, markdown, count, most) for item_id, markdown in texts.items()}


def _damage(known: Mapping[str, Sequence[StoredChunk]], lost: AbstractSet[str]) -> dict[str, dict[str, bytes]]:
    """Of each page with damaged vectors or lost chunks what stands in the place of its vectors, by chunk id."""
    found = {
        item_id: {one.chunk.id: one.damaged for one in own if one.damaged is not None} for item_id, own in known.items()
    }
    return {item_id: own for item_id, own in found.items() if own or item_id in lost}


def _content(page: IndexedPage, chunks: Sequence[Chunk], vectors: Mapping[str, bytes]) -> PageContent:
    """With the language that the page's beginning reads as."""
    read = language_by_stop_words("\n".join(one.text for one in chunks[:SAMPLE_CHUNKS]), page.language)
    return PageContent(
        replace(page, reads_as=read), chunks, {one.id: vectors[one.id] for one in chunks if one.id in vectors}
    )
