"""An Index in Qdrant, for more chunks than the disk of each searching host should hold. It can always be filled again.

    <name>         one point for each chunk
    <name>-state   one point: how far the index follows Redis

`name` is of the deployment and its vector space, so that another space is filled beside this one. Writes are collected
and sent with the commit; searches of all hosts see them from then on.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from core.models import Chunk
from core.search.io import qdrant_points as points
from core.search.io.qdrant_search import QdrantSearch
from core.search.io.replica_state import Checkpoint
from core.search.models import ChunkText, Filters, Hit, Hits, IndexedPage, IndexQuery
from core.search.protocols import NO_VECTORS, Vector
from core.search.spelling import Correction
from core.search.vector_spaces import Spaces

POINTS_AT_ONCE = 256
MOST_LANGUAGES = 100
STATE_POINT = 1


class QdrantIndex:
    """An Index in a Qdrant server, or in a folder of its local mode."""

    def __init__(self, client: AsyncQdrantClient, prefix: str, spaces: Spaces, *, is_local: bool) -> None:
        self._client = client
        self._is_local = is_local
        self.prefix = prefix
        self.name = f"{prefix}-{hashlib.sha256(spaces.name.encode()).hexdigest()[:12]}"
        self._state_name = f"{self.name}-state"
        self._dimensions = dict(zip((points.MEANING, points.OTHER), spaces.dimensions, strict=False))
        self._pending: list[Callable[[], Awaitable[object]]] = []
        self._languages: list[str] = []
        self._share_of_others = 0.0
        self.checkpoint = Checkpoint()
        """How far it follows Redis, as of the last `refresh` or commit."""

    async def open(self) -> None:
        """Make the collections where there are none, and read how far they are."""
        if not await self._client.collection_exists(self.name):
            await self._create()
        if not await self._client.collection_exists(self._state_name):
            one = models.VectorParams(size=1, distance=models.Distance.DOT)
            await self._client.create_collection(self._state_name, vectors_config=one)
        await self.refresh()

    async def _create(self) -> None:
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        await self._client.create_collection(
            self.name,
            vectors_config={
                name: models.VectorParams(size=size, distance=models.Distance.DOT)
                for name, size in self._dimensions.items()
            },
            sparse_vectors_config=dict.fromkeys((points.WORDS, points.PAGE_WORDS), words),
        )
        if self._is_local:
            return  # it has no indexes of payloads
        kinds = [(name, models.PayloadSchemaType.KEYWORD) for name in points.KEYWORDS]
        kinds += [(name, models.PayloadSchemaType.FLOAT) for name in points.NUMBERS]
        kinds += [(name, models.PayloadSchemaType.BOOL) for name in points.FLAGS]
        for field, kind in kinds:
            await self._client.create_payload_index(self.name, field, field_schema=kind)

    async def refresh(self) -> None:
        """Read how far the index follows Redis, and which languages it holds."""
        found = await self._client.retrieve(self._state_name, [STATE_POINT])
        payload = (found[0].payload if found else None) or {}
        checkpoint = Checkpoint(payload.get("position", ""), payload.get("space", ""))
        if checkpoint != self.checkpoint or not self._languages:
            self.checkpoint = checkpoint
            await self._count_languages()

    async def _count_languages(self) -> None:
        """Those that texts are in come first, then those that pages state."""
        found: dict[str, None] = {}
        for field in ("detected", "language"):
            counted = await self._client.facet(self.name, field, limit=MOST_LANGUAGES)
            found |= dict.fromkeys(str(hit.value) for hit in counted.hits if hit.value)
        self._languages = list(found)
        chunks = await self._client.count(self.name, exact=False)
        others = await self._client.count(self.name, count_filter=points.with_other(), exact=False)
        self._share_of_others = others.count / max(1, chunks.count)

    def share_of_others(self, languages: frozenset[str], filters: Filters) -> float:
        """Return which share of all chunks has a vector of other languages, whichever these are."""
        del languages, filters
        return self._share_of_others

    async def corrected(self, text: str) -> Correction:
        """Return a question as it is: the server has no list of words to correct its spelling by."""
        return Correction(text)

    # ── writing ──

    async def upsert(
        self,
        page: IndexedPage,
        chunks: Sequence[Chunk],
        vectors: Mapping[str, Vector],
        others: Mapping[str, Vector] = NO_VECTORS,
    ) -> None:
        """Add this version of a page with the next commit, beside older ones."""
        for name, own in ((points.MEANING, vectors), (points.OTHER, others)):
            for vector in own.values():
                points.checked_numbers(vector, name, self._dimensions)  # refused before anything is written
        self._pending.append(lambda: self._put(page, points.page_points(page, chunks, vectors, others)))

    async def keep_only(self, item_id: str, version: str) -> None:
        """Remove all other versions of the page with the next commit."""
        self._pending.append(lambda: self._drop(points.of_items([item_id], version, other=True)))

    async def delete(self, item_ids: Sequence[str]) -> None:
        """Remove these pages with the next commit."""
        if item_ids:
            self._pending.append(lambda: self._drop(points.of_items(item_ids)))

    async def commit(self, checkpoint: Checkpoint) -> None:
        """Send all writes so far in their order, then how far they came. What fails is sent again by the next."""
        while self._pending:
            await self._pending[0]()
            del self._pending[0]
        payload = {"position": checkpoint.position, "space": checkpoint.space}
        state = models.PointStruct(id=STATE_POINT, vector=[1.0], payload=payload)
        await self._client.upsert(self._state_name, [state], wait=True)
        self.checkpoint = checkpoint
        await self._count_languages()

    def forget_writes(self) -> None:
        """Drop what was not committed."""
        self._pending.clear()

    async def delete_other_spaces(self) -> None:
        """Remove the collections of other vector spaces of this deployment."""
        ours = {self.name, self._state_name}
        for one in (await self._client.get_collections()).collections:
            if one.name.startswith(f"{self.prefix}-") and one.name not in ours:
                await self._client.delete_collection(one.name)

    async def delete_all(self) -> None:
        """Remove this index."""
        for name in (self.name, self._state_name):
            await self._client.delete_collection(name)

    async def _put(self, page: IndexedPage, made: Sequence[models.PointStruct]) -> None:
        for start in range(0, len(made), POINTS_AT_ONCE):
            await self._client.upsert(self.name, list(made[start : start + POINTS_AT_ONCE]), wait=True)
        # The same version again: what it has no more is removed.
        too_many = points.of_items([page.item_id], page.version)
        too_many.must_not = [models.HasIdCondition(has_id=[one.id for one in made])] if made else None
        await self._drop(too_many)

    async def _drop(self, which: models.Filter) -> None:
        await self._client.delete(self.name, models.FilterSelector(filter=which), wait=True)

    # ── reading ──

    def item_ids(self) -> set[str]:
        """Return nothing: what is too many is looked for in batches, by whoever rebuilds the index."""
        return set()

    async def count(self) -> int:
        """Return the number of committed chunks."""
        return (await self._client.count(self.name, exact=True)).count

    async def iter_ids(self) -> AsyncIterator[tuple[str, str, str]]:
        """Yield id, item id and version of every committed chunk."""
        async for payload in self._scroll(None, ["chunk_id", "item_id", "version"]):
            yield payload["chunk_id"], payload["item_id"], payload["version"]

    async def pages_of(self, item_ids: Sequence[str]) -> dict[str, list[tuple[IndexedPage, frozenset[str]]]]:
        """Return each version of these pages with the ids of its chunks."""
        found: dict[tuple[str, str], tuple[IndexedPage, set[str]]] = {}
        async for payload in self._scroll(points.of_items(item_ids), ["chunk_id", "item_id", "version", "page"]):
            key = payload["item_id"], payload["version"]
            found.setdefault(key, (points.page_of(payload), set()))[1].add(payload["chunk_id"])
        pages: dict[str, list[tuple[IndexedPage, frozenset[str]]]] = {}
        for (item_id, _), (page, chunk_ids) in found.items():
            pages.setdefault(item_id, []).append((page, frozenset(chunk_ids)))
        return pages

    async def texts(self, hits: Sequence[Hit]) -> dict[str, ChunkText]:
        """Return the texts of these hits by chunk id, without those that were removed since the search."""
        ids = [points.point_id(hit.item_id, hit.version, hit.chunk_id) for hit in hits]
        found = await self._client.retrieve(self.name, ids, with_payload=True) if ids else []
        payloads = {str(one.id): one.payload or {} for one in found}
        return {
            hit.chunk_id: points.text_of(payloads[name])
            for hit, name in zip(hits, ids, strict=True)
            if name in payloads
        }

    async def search(self, query: IndexQuery) -> Hits:
        """Return the best committed chunks, best first. Raises InvalidVector for a vector of another space."""
        if points.OTHER not in self._dimensions:
            query = replace(query, other=None)
        return await QdrantSearch(self._client, self.name, self._languages, self._dimensions).search(query)

    def snapshot(self) -> QdrantIndex:
        """Return the index itself: all searches see the last commit."""
        return self

    async def _scroll(self, which: models.Filter | None, fields: list[str]) -> AsyncIterator[Mapping[str, Any]]:
        offset = None
        while True:
            found, offset = await self._client.scroll(
                self.name, scroll_filter=which, limit=POINTS_AT_ONCE, offset=offset, with_payload=fields
            )
            for one in found:
                yield one.payload or {}
            if offset is None:
                return
