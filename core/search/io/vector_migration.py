"""Move a store to another vector space: build next to the live index, then cut over.

Every text is cut and embedded as a worker would, but only into the cache of vectors: whatever ends this before the
cut-over has changed nothing that is live, and the next run begins where it stopped. After the cut-over every page is
queued for a worker, which finds its vectors in the cache and does not need the model. Where EMBEDDER is none there is
nothing to build: the cut-over is to no vectors, and the workers put the old ones into the cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from core.errors import FreshetError
from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry.io.item_queries import ItemQueries
from core.registry.io.items import ItemStore
from core.registry.record import MAY_HAVE_TEXT
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
GoOn = Callable[[], Awaitable[None]]
_T = TypeVar("_T")


def _ignore(_: int) -> None:
    pass


async def _go_on() -> None:
    pass


class NothingToMigrate(FreshetError):
    """There is no other space to go to."""


@dataclass(slots=True)
class MigrationEstimate:
    """Chunks of all texts, and those whose vector in the new space is there."""

    items: int = 0
    chunks: int = 0
    cached: int = 0


class Migration:
    """Moves from whatever space the store is in to the embedder's."""

    def __init__(
        self, client: Client, keys: Keys, store: ChunkStore, embedder: Embedder, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._client = client
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
        space = await self.space()
        estimate = MigrationEstimate(items=sum([await self._queries.count(status) for status in MAY_HAVE_TEXT]))
        async for chunks, known in self._batches(space):
            estimate.chunks += len(chunks)
            estimate.cached += sum(chunk.text_hash in known for chunk, _ in chunks)
        return estimate

    async def run(self, report_progress: Callable[[int], object] = _ignore, go_on: GoOn = _go_on) -> tuple[int, int]:
        """Build, cut over, make pages due; return how many chunks were embedded and how many pages wait.

        `report_progress` is called with the number of chunks that have just been looked at; `go_on` before each request
        to the model: it may wait, or raise to stop. Raises NothingToMigrate where there are no vectors and none are
        wanted.
        """
        space, before = await self.space(), await self._spaces.current()
        made = 0
        for _ in range(MOST_ROUNDS):
            new = await self.build(space, report_progress, go_on) if space else 0
            made += new
            if not new:
                break
            report_progress = _ignore
        await self._spaces.cut_over(space)
        waiting = await self._spaces.make_all_due(space, await connect.now(self._client))
        if not (space or before or waiting):
            raise NothingToMigrate("EMBEDDER is none: there are no vectors to build, search goes by words at once.")
        log.info("🔀 The live vectors are of %s now", space.name if space else "no model")
        return made, waiting

    async def build(self, space: VectorSpace, report_progress: Callable[[int], object], go_on: GoOn = _go_on) -> int:
        """Embed into the cache what is not there; return how many chunks."""
        made = 0
        async for chunks, known in self._batches(space):
            await go_on()
            new = {chunk.text_hash: (chunk, text) for chunk, text in chunks if chunk.text_hash not in known}
            for start in range(0, len(new), TEXTS_AT_ONCE):
                await go_on()
                hashes = list(new)[start : start + TEXTS_AT_ONCE]
                texts = [text_for_model(*new[text_hash], self._embedder) for text_hash in hashes]
                vectors = await self._with_retries(partial(self._embedder.embed, texts), LONGEST_WAIT_SECONDS)
                await self._store.remember(space, dict(zip(hashes, vectors, strict=True)))
            made += len(new)
            report_progress(len(chunks))
        return made

    async def _batches(
        self, space: VectorSpace | None
    ) -> AsyncIterator[tuple[list[tuple[Chunk, LiveText]], dict[str, bytes]]]:
        """Yield the chunks of all live texts, each with its text, and the vectors of the space that are there."""
        for status in MAY_HAVE_TEXT:
            # All ids first, since a set that is changed while it is scanned may hide some.
            ids = list(dict.fromkeys([item_id async for some in self._queries.of_status(status) for item_id in some]))
            for start in range(0, len(ids), ITEMS_AT_ONCE):
                items = await self._items.read(ids[start : start + ITEMS_AT_ONCE])
                texts = await self._texts.read_texts([item for item in items if item and not item.alias_of])
                chunks = [
                    (chunk, text)
                    for item_id, text in texts.items()
                    for chunk in cut(item_id, text.markdown, self._embedder)
                ]
                stored = await self._store.remover.stored(list(texts))
                refs = {name: ref for page in stored.values() for name, ref in page.items()}
                known = await self._store.vectors([chunk for chunk, _ in chunks], space, refs) if space else {}
                yield chunks, known

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
