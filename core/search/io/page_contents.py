"""Read whole pages from Redis in batches, with their chunks and vectors: what the replica is filled with."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from core.keys import Keys
from core.models import Chunk
from core.search.io.chunk_store import ChunkStore
from core.search.io.live_pages import LivePage, LivePageReader
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.languages import cut, language_of
from core.search.models import IndexedPage
from core.search.protocols import Embedder, SpaceVectors, Vector
from core.search.vector_spaces import Spaces
from core.store.connect import Client, now
from core.value_class import value_class

log = logging.getLogger("search")

MOST_READS = 5
"""A page that is swapped while it is read is read again; what it lacks after that it is indexed without."""
LANGUAGE_SAMPLE_CHUNKS = 4


@value_class
class PageContent:
    """One version of a page with its chunks, and their vectors by chunk id and name of the space."""

    page: IndexedPage
    chunks: Sequence[Chunk]
    vectors: Mapping[str, SpaceVectors] = field(default_factory=dict)

    def vectors_of(self, place: int, spaces: Spaces) -> dict[str, Vector]:
        """Return the vectors of the space at this place of the live ones, by chunk id."""
        if place >= len(spaces):
            return {}
        name = spaces[place].name
        return {chunk_id: own[name] for chunk_id, own in self.vectors.items() if name in own}


class PageContentReader:
    """Reads page contents.

    A text that is not embedded yet is cut here, as a worker will do it, with the vectors there are: of a new page none,
    of a changed one those of all chunks that have stayed.
    """

    def __init__(self, client: Client, raw: Redis, keys: Keys, embedder: Embedder, *, mend: bool = False) -> None:
        """`mend`: pages with damaged vectors or lost chunks are queued for an embed worker."""
        self._pages = LivePageReader(client, keys)
        self._store = ChunkStore(client, raw, keys)
        self._spaces = VectorSpaceStore(client, keys)
        self._now = partial(now, client)
        self._embedder = embedder
        self._mend = mend

    async def read(self, item_ids: Sequence[str], spaces: Spaces) -> dict[str, PageContent | None]:
        """Return the contents by item id; None: the item has no live page."""
        contents: dict[str, PageContent | None] = {}
        left = list(item_ids)
        for reads in range(1, MOST_READS + 1):
            pages = await self._pages.read(left)
            contents |= {item_id: None for item_id in left if item_id not in pages}
            contents |= await self._read(pages, spaces, is_last=reads == MOST_READS)
            left = [item_id for item_id in left if item_id not in contents]
            if not left:
                break
        return contents

    async def _read(self, pages: Mapping[str, LivePage], spaces: Spaces, *, is_last: bool) -> dict[str, PageContent]:
        """Leave out pages that lack chunks, since they may be being swapped; the last time, cut their texts."""
        embedded = {item_id: live.page.version for item_id, live in pages.items() if live.has_chunks}
        stored = await self._store.read(embedded, spaces)
        lost = {item_id for item_id, page in stored.items() if not (page.is_whole and page.chunks)}
        known = {item_id: page.chunks for item_id, page in stored.items() if item_id not in lost or is_last}
        chunks = {item_id: [one.chunk for one in page_chunks] for item_id, page_chunks in known.items()}
        vectors = {one.chunk.id: one.vectors for page_chunks in known.values() for one in page_chunks if one.vectors}
        to_cut = pages.keys() - embedded.keys() | (lost if is_last else set())
        chunks |= await self._cut({item_id: pages[item_id] for item_id in to_cut})
        vectors |= await self._reused_vectors(chunks, vectors, spaces)
        if self._mend:
            lost = {item_id for item_id in lost & known.keys() if chunks[item_id]}  # others have a text without a word
            damaged = {
                item_id: {one.chunk.id: one.damaged for one in own if one.damaged is not None}
                for item_id, own in known.items()
            }
            damaged = {item_id: vectors for item_id, vectors in damaged.items() if vectors or item_id in lost}
            await self._queue_damaged(damaged, pages)
        return {item_id: _content(pages[item_id].page, own, vectors) for item_id, own in chunks.items()}

    async def _queue_damaged(self, damaged: Mapping[str, Mapping[str, bytes]], pages: Mapping[str, LivePage]) -> None:
        """Queue pages for an embed worker, and drop their damaged vectors."""
        for item_id, vectors in damaged.items():
            what = f"{len(vectors)} of its vectors cannot be read" if vectors else "Some of its chunks are lost"
            log.warning("⚠️ %s; it is found by words and embedded again → %s", what, pages[item_id].page.url)
        if not damaged:
            return
        to_drop = {chunk_id: value for vectors in damaged.values() for chunk_id, value in vectors.items()}
        try:
            if to_drop:
                await self._store.drop_vectors(to_drop)
            await self._spaces.make_due(list(damaged), await self._now(), is_damaged=True)
        except ResponseError as error:  # a server that takes no writes now can still be searched
            log.warning("⚠️ They cannot be made due now: %s", error)

    async def _reused_vectors(
        self, chunks: Mapping[str, Sequence[Chunk]], known: Mapping[str, SpaceVectors], spaces: Spaces
    ) -> dict[str, SpaceVectors]:
        """Return vectors of the same texts for chunks without their own: before a swap, or in new spaces."""
        without = {item_id: [one for one in own if one.id not in known] for item_id, own in chunks.items()}
        without = {item_id: own for item_id, own in without.items() if own}
        if not spaces or not without:
            return {}
        stored = await self._store.remover.stored(list(without))
        before = {name: ref for refs in stored.values() for name, ref in refs.items()}
        lacking = [one for own in without.values() for one in own]
        found: dict[str, dict[str, bytes]] = {}
        for space in spaces:
            vectors = await self._store.vectors(lacking, space, before)
            for one in lacking:
                if one.text_hash in vectors:
                    found.setdefault(one.id, {})[space.name] = vectors[one.text_hash]
        return dict(found)

    async def _cut(self, pages: Mapping[str, LivePage]) -> dict[str, list[Chunk]]:
        """Cut texts that wait for their vectors; one that has changed since is left out."""
        texts = await self._pages.read_markdown(pages)
        return {
            item_id: cut(item_id, markdown, language_of(markdown, pages[item_id].page.language), self._embedder)
            for item_id, markdown in texts.items()
        }


def _content(page: IndexedPage, chunks: Sequence[Chunk], vectors: Mapping[str, SpaceVectors]) -> PageContent:
    """Add the language that is detected in the first chunks."""
    sample = "\n".join(one.text for one in chunks[:LANGUAGE_SAMPLE_CHUNKS])
    page = replace(page, detected_language=language_of(sample, page.language))
    return PageContent(page, chunks, {one.id: vectors[one.id] for one in chunks if one.id in vectors})
