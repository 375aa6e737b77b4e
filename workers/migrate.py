"""Move a store to another vector space: build beside the live index, then cut over.

Every text is cut and embedded as a worker would, but only into the cache of vectors: whatever ends this before the
cut-over has changed nothing that is live, and the next run begins where it stopped. After the cut-over every page waits
for a worker, which finds its vectors in the cache and asks the model nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from core import chunk as chunking
from core.errors import FreshetError
from core.indexes.protocols import Embedder, EmbedderAway
from core.keys import Keys
from core.models import Chunk, Space
from core.registry import MAY_HAVE_TEXT, Item, Status
from core.stores import connect
from core.stores.chunks import ChunkStore
from core.stores.connect import Client
from core.stores.items import ItemStore
from core.stores.spaces import Spaces, without_vectors
from workers.embed import TEXTS_AT_ONCE, embedded, read_text

log = logging.getLogger("embed")

ITEMS_AT_ONCE = 100
MOST_ROUNDS = 3
"""Texts that change while the rest is embedded are caught by another round; what is left then the workers do."""
PATIENCE = 5
LONGEST_WAIT_SECONDS = 120.0

Sleep = Callable[[float], Awaitable[None]]


class NothingToMigrate(FreshetError):
    """There is no other space to go to."""


@dataclass(slots=True)
class Count:
    """Chunks of all texts, and those whose vector in the new space is there."""

    items: int = 0
    chunks: int = 0
    cached: int = 0


class Migration:
    """From whatever space the store is in to the embedder's."""

    def __init__(
        self, client: Client, keys: Keys, store: ChunkStore, embedder: Embedder, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._client = client
        self._keys = keys
        self._store = store
        self._embedder = embedder
        self._sleep = sleep
        self._items = ItemStore(client, keys)
        self._spaces = Spaces(client, keys)

    async def space(self) -> Space:
        """Where it goes. Raises EmbedderAway, or NothingToMigrate where there are no vectors."""
        await self._embedder.prepare()
        if self._embedder.space is None:
            current = await self._spaces.current()
            nothing = "EMBEDDER is none: there are no vectors to build, search goes by words at once."
            raise NothingToMigrate(without_vectors(current) if current else nothing)
        return self._embedder.space

    async def count(self) -> Count:
        """How much there is to do; changes nothing."""
        space, count = await self.space(), Count()
        async for texts in self._texts():
            known = await self._store.vectors([chunk for chunk, _ in texts], space)
            count.chunks += len(texts)
            count.cached += sum(chunk.text_hash in known for chunk, _ in texts)
        count.items = await self._total()
        return count

    async def run(self, tell: Callable[[int], object] = lambda _: None) -> tuple[int, int]:
        """Build, cut over, make pages due; how many chunks were embedded and how many pages wait.

        `tell` hears how many chunks were looked at.
        """
        space, embedded_in_all = await self.space(), 0
        for number in range(MOST_ROUNDS):
            made = await self.build(space, tell if number == 0 else lambda _: None)
            embedded_in_all += made
            if not made:
                break
        await self._spaces.cut_over(space)
        log.info("🔀 The live vectors are of %s now", space.name)
        return embedded_in_all, await self.make_due(space)

    async def build(self, space: Space, tell: Callable[[int], object]) -> int:
        """Embed into the cache what is not there; how many chunks that were."""
        made = 0
        async for texts in self._texts():
            known = await self._store.vectors([chunk for chunk, _ in texts], space)
            new = {chunk.text_hash: words for chunk, words in texts if chunk.text_hash not in known}
            hashes = list(new)
            for start in range(0, len(hashes), TEXTS_AT_ONCE):
                some = hashes[start : start + TEXTS_AT_ONCE]
                vectors = await self._embed([new[text_hash]() for text_hash in some])
                await self._store.remember(space, dict(zip(some, vectors, strict=True)))
            made += len(hashes)
            tell(len(texts))
        return made

    async def make_due(self, space: Space) -> int:
        """Every page with chunks of another space waits for a worker; how many."""
        return await self._spaces.make_all_due(space, await connect.now(self._client))

    # ── reading ──

    async def _texts(self) -> AsyncIterator[list[tuple[Chunk, Callable[[], str]]]]:
        """Chunks of all live texts in pieces, each with a way to what the model is given of it."""
        async for some in self._batches(MAY_HAVE_TEXT):
            found: list[tuple[Chunk, Callable[[], str]]] = []
            for item in await self._items.read(some):
                found += await self._chunks(item) if item else []
            yield found

    async def _chunks(self, item: Item) -> list[tuple[Chunk, Callable[[], str]]]:
        text, embedder = await read_text(self._client, self._keys, item), self._embedder
        if text is None or item.alias_of:
            return []
        chunks = chunking.chunks(item.id, text.markdown, embedder.count_tokens, embedder.most_tokens)
        return [(chunk, lambda chunk=chunk: embedded(chunk, text, embedder)) for chunk in chunks]  # type: ignore[misc]

    async def _batches(self, statuses: Sequence[Status]) -> AsyncIterator[list[str]]:
        """Items of these statuses; all ids first, since a set that is changed while it is scanned may hide some."""
        for status in statuses:
            names = [str(name) async for name in self._client.sscan_iter(self._keys.status(str(status)), count=1_000)]
            names = list(dict.fromkeys(names))
            for start in range(0, len(names), ITEMS_AT_ONCE):
                yield names[start : start + ITEMS_AT_ONCE]

    async def _total(self) -> int:
        return sum([await self._client.scard(self._keys.status(str(status))) for status in MAY_HAVE_TEXT])

    # ── embedding ──

    async def _embed(self, texts: Sequence[str]) -> list[bytes]:
        """A model that is away for a moment is waited for; for longer, the sentence ends the run."""
        for _ in range(PATIENCE):
            try:
                return await self._embedder.embed(texts)
            except EmbedderAway as away:
                if away.retry_after_seconds > LONGEST_WAIT_SECONDS:
                    raise
                log.warning("⏸️ %s Again in %.0f s.", away, away.retry_after_seconds)
                await self._sleep(away.retry_after_seconds)
        return await self._embedder.embed(texts)
