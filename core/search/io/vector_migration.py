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
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from core.errors import FreshetError
from core.keys import Keys
from core.models import Chunk
from core.registry.io.item_queries import ItemQueries
from core.registry.io.item_store import ItemStore
from core.registry.record import MAY_HAVE_TEXT
from core.search.io.chunk_remover import ChunkRefs
from core.search.io.chunk_store import ChunkStore
from core.search.io.item_embedder import TEXTS_AT_ONCE, text_for_model
from core.search.io.live_pages import LivePageReader, LiveText
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.languages import all_models, cut, language_of, models_of, spaces_of
from core.search.protocols import Embedder, EmbedderUnavailable
from core.search.vector_spaces import Spaces
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
    """Vectors of all chunks, and those that are there in the new spaces."""

    items: int = 0
    chunks: int = 0
    cached: int = 0


class Migration:
    """Moves from whatever spaces the store is in to those of the embedder and its companion."""

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
        self._stored: ChunkRefs = {}
        """The chunks that the pages of a batch have now."""

    async def spaces(self) -> Spaces:
        """Return the spaces to move to; none: to no vectors. Raises EmbedderUnavailable."""
        for model in all_models(self._embedder):
            await self._with_retries(model.prepare, LONGEST_FIRST_WAIT_SECONDS)
        return spaces_of(all_models(self._embedder))

    async def estimate(self) -> MigrationEstimate:
        """Count how much there is to do; changes nothing."""
        await self.spaces()
        estimate = MigrationEstimate(items=sum([await self._queries.count(status) for status in MAY_HAVE_TEXT]))
        async for batch in self._batches():
            estimate.chunks += sum(len(chunks) for chunks in batch.values())
            known = [await self._known(model, chunks) for model, chunks in batch.items()]
            estimate.cached += sum(
                chunk.text_hash in vectors
                for chunks, vectors in zip(batch.values(), known, strict=True)
                for chunk, _ in chunks
            )
        return estimate

    async def run(self, report_progress: Callable[[int], object] = _ignore, go_on: GoOn = _go_on) -> tuple[int, int]:
        """Build, cut over, make pages due; return how many chunks were embedded and how many pages wait.

        `report_progress` is called with the number of chunks that have just been looked at; `go_on` before each request
        to the model: it may wait, or raise to stop. Raises NothingToMigrate where there are no vectors and none are
        wanted.
        """
        spaces, before = await self.spaces(), await self._spaces.current()
        made = 0
        for _ in range(MOST_ROUNDS):
            new = await self.build(report_progress, go_on) if spaces else 0
            made += new
            if not new:
                break
            report_progress = _ignore
        await self._spaces.cut_over(spaces)
        waiting = await self._make_due()
        if not (spaces or before or waiting):
            raise NothingToMigrate("EMBEDDER is none: there are no vectors to build, search goes by words at once.")
        log.info("🔀 The live vectors are of %s now", spaces.name or "no model")
        return made, waiting

    async def build(self, report_progress: Callable[[int], object], go_on: GoOn = _go_on) -> int:
        """Embed into the cache what is not there; return how many vectors were made."""
        made = 0
        async for batch in self._batches():
            await go_on()
            for model, chunks in batch.items():
                known = await self._known(model, chunks)
                new = {chunk.text_hash: (chunk, text) for chunk, text in chunks if chunk.text_hash not in known}
                made += await self._embed(model, new, go_on)
                report_progress(len(chunks))
        return made

    async def _embed(self, model: Embedder, new: Mapping[str, tuple[Chunk, LiveText]], go_on: GoOn) -> int:
        """Embed chunks into the cache, by text hash."""
        for start in range(0, len(new), TEXTS_AT_ONCE):
            await go_on()
            hashes = list(new)[start : start + TEXTS_AT_ONCE]
            texts = [text_for_model(*new[text_hash], model) for text_hash in hashes]
            vectors = await self._with_retries(partial(model.embed, texts), LONGEST_WAIT_SECONDS)
            if model.space:
                await self._store.remember(model.space, dict(zip(hashes, vectors, strict=True)))
        return len(new)

    async def _known(self, model: Embedder, chunks: Sequence[tuple[Chunk, LiveText]]) -> dict[str, bytes]:
        """Return the vectors of chunks that are there in the space of the model, by text hash."""
        if model.space is None:
            return {}
        return await self._store.vectors([chunk for chunk, _ in chunks], model.space, self._stored)

    async def _batches(self) -> AsyncIterator[dict[Embedder, list[tuple[Chunk, LiveText]]]]:
        """Yield the chunks of all live texts, each with its text, by the models that know its language."""
        for status in MAY_HAVE_TEXT:
            # All ids first, since a set that is changed while it is scanned may hide some.
            ids = list(dict.fromkeys([item_id async for some in self._queries.of_status(status) for item_id in some]))
            for start in range(0, len(ids), ITEMS_AT_ONCE):
                texts = await self._read_texts(ids[start : start + ITEMS_AT_ONCE])
                batch: dict[Embedder, list[tuple[Chunk, LiveText]]] = {}
                for item_id, text in texts.items():
                    language = language_of(text.markdown, text.stated_language)
                    models = models_of(self._embedder, language)
                    chunks = cut(item_id, text.markdown, language, self._embedder) if models else []
                    for model in models:
                        batch.setdefault(model, []).extend((chunk, text) for chunk in chunks)
                stored = await self._store.remover.stored(list(texts))
                self._stored = {name: ref for page in stored.values() for name, ref in page.items()}
                yield batch

    async def _make_due(self) -> int:
        """Queue every page whose chunks are not in the spaces of its language; return how many."""
        waiting, now = 0, await connect.now(self._client)
        async for item_ids in self._spaces.may_be_indexed():
            texts = await self._read_texts(item_ids)
            wanted = {
                item_id: spaces_of(models_of(self._embedder, language_of(text.markdown, text.stated_language))).name
                for item_id, text in texts.items()
            }
            waiting += await self._spaces.make_due(list(texts), now, wanted)
        return waiting

    async def _read_texts(self, item_ids: Sequence[str]) -> dict[str, LiveText]:
        items = await self._items.read(list(item_ids))
        return await self._texts.read_texts([item for item in items if item and not item.alias_of])

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
