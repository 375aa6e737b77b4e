"""Move a store to another vector space: build next to the live index, then cut over.

Every text is cut and embedded as a worker would, but only into the cache of vectors: whatever ends this before the
cut-over has changed nothing that is live, and the next run begins where it stopped. After the cut-over every page is
queued for a worker, which finds its vectors in the cache and does not need the model. Where EMBEDDER is none there is
nothing to build: the cut-over is to no vectors, and the workers put the old ones into the cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from core.errors import FreshetError
from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry.io.item_queries import ItemQueries
from core.registry.io.items import ItemStore
from core.registry.record import MAY_HAVE_TEXT, Status
from core.search.io.chunk_remover import ChunkRef
from core.search.io.chunk_store import ChunkStore
from core.search.io.embed_run import TEXTS_AT_ONCE, cut, text_for_model
from core.search.io.live_pages import LivePageReader, LiveText
from core.search.io.vector_space import VectorSpaceStore
from core.search.protocols import Embedder, EmbedderUnavailable
from core.store import connect
from core.store.connect import Client

log = logging.getLogger("embed")

ITEMS_AT_ONCE = 100
MOST_ROUNDS = 3
"""Texts that change while the rest is embedded are caught by another round; what is left then the workers do."""
MOST_RETRIES = 5
LONGEST_WAIT_SECONDS = 120.0
LONGEST_FIRST_WAIT_SECONDS = 30.0
"""At the first request: an endpoint that cannot be reached at all asks for a minute, which is rather a wrong address,
and a person wants to hear of it at once."""

Sleep = Callable[[float], Awaitable[None]]
_T = TypeVar("_T")


class NothingToMigrate(FreshetError):
    """There is no other space to go to."""


@dataclass(slots=True)
class MigrationEstimate:
    """Chunks of all texts, and those whose vector in the new space is there."""

    items: int = 0
    chunks: int = 0
    cached: int = 0


@dataclass(slots=True)
class TextBatch:
    """Chunks of some live texts, each with its text; and the chunks that search has of them."""

    chunks: list[tuple[Chunk, LiveText]] = field(default_factory=list)
    stored: dict[str, ChunkRef] = field(default_factory=dict)


class Migration:
    """Moves from whatever space the store is in to the embedder's."""

    def __init__(
        self, client: Client, keys: Keys, store: ChunkStore, embedder: Embedder, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._clock = partial(connect.now, client)
        self._store = store
        self._embedder = embedder
        self._sleep = sleep
        self._items = ItemStore(client, keys)
        self._texts = LivePageReader(client, keys)
        self._queries = ItemQueries(client, keys)
        self._spaces = VectorSpaceStore(client, keys)

    async def space(self) -> VectorSpace | None:
        """Return the space to move to; None: to no vectors. Raises EmbedderUnavailable."""
        await self._with_retries(self._embedder.prepare, LONGEST_FIRST_WAIT_SECONDS)
        return self._embedder.space

    async def estimate(self) -> MigrationEstimate:
        """Count how much there is to do; changes nothing."""
        space, estimate = await self.space(), MigrationEstimate(items=await self._total())
        async for batch in self._batches():
            known = await self._known(batch, space) if space else {}
            estimate.chunks += len(batch.chunks)
            estimate.cached += sum(chunk.text_hash in known for chunk, _ in batch.chunks)
        return estimate

    async def run(self, report_progress: Callable[[int], object] = lambda _: None) -> tuple[int, int]:
        """Build, cut over, make pages due; return how many chunks were embedded and how many pages wait.

        `report_progress` is called with the number of chunks that have just been looked at.
        Raises NothingToMigrate where there are no vectors and none are wanted.
        """
        space, before = await self.space(), await self._spaces.current()
        made = await self._build_all(space, report_progress) if space else 0
        await self._spaces.cut_over(space)
        waiting = await self.make_due(space)
        if not (space or before or waiting):
            raise NothingToMigrate("EMBEDDER is none: there are no vectors to build, search goes by words at once.")
        log.info("🔀 The live vectors are of %s now", space.name if space else "no model")
        return made, waiting

    async def _build_all(self, space: VectorSpace, report_progress: Callable[[int], object]) -> int:
        made = last = await self.build(space, report_progress)
        for _ in range(MOST_ROUNDS - 1):
            if not last:
                break
            last = await self.build(space, lambda _: None)
            made += last
        return made

    async def build(self, space: VectorSpace, report_progress: Callable[[int], object]) -> int:
        """Embed into the cache what is not there; return how many chunks."""
        made = 0
        async for batch in self._batches():
            known = await self._known(batch, space)
            new = {chunk.text_hash: (chunk, text) for chunk, text in batch.chunks if chunk.text_hash not in known}
            await self._remember(space, new)
            made += len(new)
            report_progress(len(batch.chunks))
        return made

    async def make_due(self, space: VectorSpace | None) -> int:
        """Queue every page with chunks of another space for embedding; return how many."""
        return await self._spaces.make_all_due(space, await self._clock())

    # ── reading ──

    async def _known(self, batch: TextBatch, space: VectorSpace) -> dict[str, bytes]:
        return await self._store.vectors([chunk for chunk, _ in batch.chunks], space, batch.stored)

    async def _batches(self) -> AsyncIterator[TextBatch]:
        """Read all live texts."""
        async for item_ids in self._item_ids(MAY_HAVE_TEXT):
            items = [item for item in await self._items.read(item_ids) if item and not item.alias_of]
            texts = await self._texts.read_texts(items)
            batch = TextBatch()
            for item_id, text in texts.items():
                batch.chunks += [(chunk, text) for chunk in cut(item_id, text.markdown, self._embedder)]
            for refs in (await self._store.remover.stored(list(texts))).values():
                batch.stored |= refs
            yield batch

    async def _item_ids(self, statuses: Sequence[Status]) -> AsyncIterator[list[str]]:
        """Items of these statuses; all ids first, since a set that is changed while it is scanned may hide some."""
        for status in statuses:
            ids = dict.fromkeys([item_id async for some in self._queries.of_status(status) for item_id in some])
            names = list(ids)
            for start in range(0, len(names), ITEMS_AT_ONCE):
                yield names[start : start + ITEMS_AT_ONCE]

    async def _total(self) -> int:
        return sum([await self._queries.count(status) for status in MAY_HAVE_TEXT])

    # ── embedding ──

    async def _remember(self, space: VectorSpace, new: Mapping[str, tuple[Chunk, LiveText]]) -> None:
        hashes = list(new)
        for start in range(0, len(hashes), TEXTS_AT_ONCE):
            some = hashes[start : start + TEXTS_AT_ONCE]
            texts = [text_for_model(*new[text_hash], self._embedder) for text_hash in some]
            vectors = await self._with_retries(partial(self._embedder.embed, texts), LONGEST_WAIT_SECONDS)
            await self._store.remember(space, dict(zip(some, vectors, strict=True)))

    async def _with_retries(self, ask: Callable[[], Awaitable[_T]], longest_seconds: float) -> _T:
        """Wait for a model that is unavailable for a moment; for longer, its error ends the run."""
        for _ in range(MOST_RETRIES):
            try:
                return await ask()
            except EmbedderUnavailable as error:
                if error.retry_after_seconds > longest_seconds:
                    raise
                log.warning("⏸️ %s Again in %.0f s.", error, error.retry_after_seconds)
                await self._sleep(error.retry_after_seconds)
        return await ask()
