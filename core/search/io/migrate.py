"""Move a store to another vector space: build beside the live index, then cut over.

Every text is cut and embedded as a worker would, but only into the cache of vectors: whatever ends this before the
cut-over has changed nothing that is live, and the next run begins where it stopped. After the cut-over every page waits
for a worker, which finds its vectors in the cache and asks the model nothing. Where EMBEDDER is none there is nothing
to build: the cut-over is to no vectors, and the workers put the old ones into the cache.
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
from core.search.io.chunk_store import ChunkStore
from core.search.io.embed_reading import cut, embedded
from core.search.io.embed_run import TEXTS_AT_ONCE
from core.search.io.live_pages import LivePageReader
from core.search.io.vector_space import VectorSpaceStore
from core.search.protocols import Embedder, EmbedderUnavailable
from core.store import connect
from core.store.connect import Client

log = logging.getLogger("embed")

ITEMS_AT_ONCE = 100
MOST_ROUNDS = 3
"""Texts that change while the rest is embedded are caught by another round; what is left then the workers do."""
PATIENCE = 5
LONGEST_WAIT_SECONDS = 120.0
LONGEST_FIRST_WAIT_SECONDS = 30.0
"""At the first question. Who is asked in vain asks for a minute by itself: that is rather a wrong address, and a person
wants to hear of it at once."""

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
    """Chunks of some live texts, each with a way to what the model is given of it; and what search has of them."""

    chunks: list[tuple[Chunk, Callable[[], str]]] = field(default_factory=list)
    old: dict[str, tuple[str, str]] = field(default_factory=dict)


class Migration:
    """From whatever space the store is in to the embedder's."""

    def __init__(
        self, client: Client, keys: Keys, store: ChunkStore, embedder: Embedder, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._clock = partial(connect.now, client)
        self._store = store
        self._embedder = embedder
        self._sleep = sleep
        self._items = ItemStore(client, keys)
        self._texts = LivePageReader(client, keys)
        self._selecting = ItemQueries(client, keys)
        self._spaces = VectorSpaceStore(client, keys)

    async def space(self) -> VectorSpace | None:
        """Where it goes; None: to no vectors. Raises EmbedderUnavailable."""
        await self._patiently(self._embedder.prepare, LONGEST_FIRST_WAIT_SECONDS)
        return self._embedder.space

    async def count(self) -> MigrationEstimate:
        """How much there is to do; changes nothing."""
        space, count = await self.space(), MigrationEstimate(items=await self._total())
        async for piece in self._pieces():
            known = await self._known(piece, space) if space else {}
            count.chunks += len(piece.chunks)
            count.cached += sum(chunk.text_hash in known for chunk, _ in piece.chunks)
        return count

    async def run(self, tell: Callable[[int], object] = lambda _: None) -> tuple[int, int]:
        """Build, cut over, make pages due; how many chunks were embedded and how many pages wait.

        `tell` hears how many chunks were looked at. Raises NothingToMigrate where nobody has or wants vectors.
        """
        space, before = await self.space(), await self._spaces.current()
        made = await self._build_all(space, tell) if space else 0
        await self._spaces.cut_over(space)
        waiting = await self.make_due(space)
        if not (space or before or waiting):
            raise NothingToMigrate("EMBEDDER is none: there are no vectors to build, search goes by words at once.")
        log.info("🔀 The live vectors are of %s now", space.name if space else "no model")
        return made, waiting

    async def _build_all(self, space: VectorSpace, tell: Callable[[int], object]) -> int:
        made = last = await self.build(space, tell)
        for _ in range(MOST_ROUNDS - 1):
            if not last:
                break
            last = await self.build(space, lambda _: None)
            made += last
        return made

    async def build(self, space: VectorSpace, tell: Callable[[int], object]) -> int:
        """Embed into the cache what is not there; how many chunks that were."""
        made = 0
        async for piece in self._pieces():
            known = await self._known(piece, space)
            new = {chunk.text_hash: words for chunk, words in piece.chunks if chunk.text_hash not in known}
            await self._remember(space, new)
            made += len(new)
            tell(len(piece.chunks))
        return made

    async def make_due(self, space: VectorSpace | None) -> int:
        """Every page with chunks of another space waits for a worker; how many."""
        return await self._spaces.make_all_due(space, await self._clock())

    # ── reading ──

    async def _known(self, piece: TextBatch, space: VectorSpace) -> dict[str, bytes]:
        return await self._store.vectors([chunk for chunk, _ in piece.chunks], space, piece.old)

    async def _pieces(self) -> AsyncIterator[TextBatch]:
        """All live texts."""
        async for some in self._batches(MAY_HAVE_TEXT):
            items = [item for item in await self._items.read(some) if item and not item.alias_of]
            texts = await self._texts.read_texts(items)
            piece = TextBatch()
            for item in items:
                if text := texts.get(item.id):
                    chunks = cut(item, text, self._embedder)
                    piece.chunks += [(chunk, partial(embedded, chunk, text, self._embedder)) for chunk in chunks]
            for old in (await self._store.old_of(list(texts))).values():
                piece.old |= old.known
            yield piece

    async def _batches(self, statuses: Sequence[Status]) -> AsyncIterator[list[str]]:
        """Items of these statuses; all ids first, since a set that is changed while it is scanned may hide some."""
        for status in statuses:
            found = [name async for some in self._selecting.of_status(status) for name in some]
            names = list(dict.fromkeys(found))
            for start in range(0, len(names), ITEMS_AT_ONCE):
                yield names[start : start + ITEMS_AT_ONCE]

    async def _total(self) -> int:
        return sum([await self._selecting.count(status) for status in MAY_HAVE_TEXT])

    # ── embedding ──

    async def _remember(self, space: VectorSpace, new: Mapping[str, Callable[[], str]]) -> None:
        hashes = list(new)
        for start in range(0, len(hashes), TEXTS_AT_ONCE):
            some = hashes[start : start + TEXTS_AT_ONCE]
            texts = [new[text_hash]() for text_hash in some]
            vectors = await self._patiently(partial(self._embedder.embed, texts), LONGEST_WAIT_SECONDS)
            await self._store.remember(space, dict(zip(some, vectors, strict=True)))

    async def _patiently(self, ask: Callable[[], Awaitable[_T]], longest_seconds: float) -> _T:
        """A model that is away for a moment is waited for; for longer, the sentence ends the run."""
        for _ in range(PATIENCE):
            try:
                return await ask()
            except EmbedderUnavailable as away:
                if away.retry_after_seconds > longest_seconds:
                    raise
                log.warning("⏸️ %s Again in %.0f s.", away, away.retry_after_seconds)
                await self._sleep(away.retry_after_seconds)
        return await ask()
