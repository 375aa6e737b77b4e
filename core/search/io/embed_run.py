"""Embed: a changed text becomes chunks, only new chunks become vectors, and one commit makes them the page's own.

Pages go in groups, so that the model gets many short ones at once. Each has its own lease and its own swap.
Its text decides whether a page is embedded, not how its last check went: one that fails since keeps its newest text.
A text that changes meanwhile is superseded: nothing of the old one is committed, and the new one is next.
An embedder that is away stops the work politely; nothing is counted against any item.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry.io.items import ItemStore
from core.registry.record import MAY_HAVE_TEXT, Item, Status
from core.search.io.chunk_remover import OldChunks
from core.search.io.chunk_store import ChunkStore
from core.search.io.embed_queue import EmbedQueue
from core.search.io.embed_reading import PageToEmbed, cut, embedded
from core.search.io.live_pages import LivePageReader, LiveText
from core.search.io.vector_space import VectorSpaceStore
from core.search.protocols import Embedder, EmbedderUnavailable
from core.store.clock import ServerClock
from core.store.commit import Commit, CommitResult, Lease, Leases
from core.store.connect import Client

log = logging.getLogger("embed")

ITEMS_AT_ONCE = 64
"""Leased and read together."""
TEXTS_AT_ONCE = 64
"""For the model; a group of pages has about as many chunks, or one long page more."""

Held = dict[str, Lease]
"""Item id → its lease, as long as it is ours."""
IsOver = Callable[[], bool]
Tell = Callable[[int], object]


class EmbedRun:
    """Embeds items for one job."""

    def __init__(
        self,
        client: Client,
        keys: Keys,
        leases: Leases,
        store: ChunkStore,
        embedder: Embedder,
        clock: ServerClock,
        tell: Tell = lambda _: None,
    ) -> None:
        """`tell` hears how many more pages came to their end."""
        self._keys = keys
        self._leases = leases
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._tell = tell
        self._items = ItemStore(client, keys)
        self._texts = LivePageReader(client, keys)
        self._queue = EmbedQueue(client, keys)
        self._spaces = VectorSpaceStore(client, keys)
        self.counts: Counter[str] = Counter()

    async def embed_many(self, item_ids: Sequence[str], is_over: IsOver) -> None:
        """Embed those that nobody else embeds; raises EmbedderUnavailable with the rest untouched."""
        await self._embedder.prepare()
        await self._spaces.claim(self._embedder.space, self._clock.now())
        for start in range(0, len(item_ids), ITEMS_AT_ONCE):
            if is_over():
                return
            await self._embed_some(item_ids[start : start + ITEMS_AT_ONCE], is_over)

    async def _embed_some(self, item_ids: Sequence[str], is_over: IsOver) -> None:
        taken = await self._leases.acquire_many([f"embed_{item_id}" for item_id in item_ids], until_text="")
        held = {item_id: got[0] for item_id, got in zip(item_ids, taken, strict=True) if got}
        try:
            async for group in self._groups(held):
                await self._embed_group(group, held, is_over)
                if is_over():
                    return
        finally:
            if held:
                await self._leases.release_many(list(held.values()))

    # ── reading ──

    async def _groups(self, held: Held) -> AsyncIterator[list[PageToEmbed]]:
        """The pages that are wanted, each group with about as many chunks as the model gets at once."""
        items = dict(zip(held, await self._items.read(list(held)), strict=True))
        texts = await self._texts.read_texts([item for item in items.values() if item])
        old = await self._store.old_of(list(held))
        wanted = [item for item in items.values() if item and item.id in texts and self._is_wanted(item, old[item.id])]
        await self._let_go({name: items[name] for name in items.keys() - {item.id for item in wanted}}, held)
        group: list[PageToEmbed] = []
        for item in wanted:
            text = texts.pop(item.id)
            group.append(PageToEmbed(item, text, cut(item, text, self._embedder), old[item.id]))
            if sum(len(page.chunks) for page in group) >= TEXTS_AT_ONCE:
                yield group
                group = []
        if group:
            yield group

    def _is_wanted(self, item: Item, old: OldChunks) -> bool:
        """Does search not know its text yet, or not in our space?"""
        if item.status not in MAY_HAVE_TEXT:
            return False
        name = self._embedder.space.name if self._embedder.space else ""
        is_ours = all(text_hash and of == name for text_hash, of in old.known.values())
        return item.status is Status.CRAWLED or item.content_hash != item.indexed_hash or not is_ours

    async def _let_go(self, items: dict[str, Item | None], held: Held) -> None:
        """Gone, hidden or known already: what made it so has taken its chunks. What has just come to wait goes on."""
        works = [
            Commit(held[item_id], [self._queue.let_go(item_id)], self._as_read(item_id, item))
            for item_id, item in items.items()
        ]
        await self._commit(list(items), works, held)

    def _as_read(self, item_id: str, item: Item | None) -> tuple[str, ...]:
        key = self._keys.item(item_id)
        expected: tuple[str, ...] = (key, "status", str(item.status) if item else "0")
        if item:
            expected += (key, "contentHash", item.content_hash)
        if item and item.indexed_hash:
            expected += (key, "indexedHash", item.indexed_hash)
        return expected

    # ── vectors ──

    async def _embed_group(self, group: Sequence[PageToEmbed], held: Held, is_over: IsOver) -> None:
        """Swap those pages that have all their vectors, whatever kept the model from making the others'."""
        space, vectors, away = self._embedder.space, dict[str, bytes](), None
        if space is not None:
            vectors, new = await self._known(group, space)
            try:
                await self._embed(new, space, vectors, is_over)
            except EmbedderUnavailable as error:
                away = error
            group = [page for page in group if all(chunk.text_hash in vectors for chunk in page.chunks)]
        await self._store.write_all({page.item.id: page.chunks for page in group}, space, vectors)
        await self._swap(group, held)
        if away is not None:
            raise away

    async def _known(
        self, group: Sequence[PageToEmbed], space: VectorSpace
    ) -> tuple[dict[str, bytes], dict[str, tuple[Chunk, LiveText]]]:
        """Vectors that are there, by text hash, and the chunks whose vectors are not."""
        chunks = [(chunk, page.text) for page in group for chunk in page.chunks]
        old = {name: what for page in group for name, what in page.old.known.items()}
        known = await self._store.vectors([chunk for chunk, _ in chunks], space, old)
        new: dict[str, tuple[Chunk, LiveText]] = {}
        for chunk, text in chunks:
            if chunk.text_hash not in known:
                new.setdefault(chunk.text_hash, (chunk, text))
        self.counts["reused"] += len(chunks) - len(new)
        return known, new

    async def _embed(
        self, new: dict[str, tuple[Chunk, LiveText]], space: VectorSpace, vectors: dict[str, bytes], is_over: IsOver
    ) -> None:
        """Add what the model makes of these to the vectors, until it is done or over."""
        wanted = list(new.items())
        for start in range(0, len(wanted), TEXTS_AT_ONCE):
            if start and is_over():
                return
            some = wanted[start : start + TEXTS_AT_ONCE]
            made = await self._embedder.embed([embedded(chunk, text, self._embedder) for _, (chunk, text) in some])
            fresh = {text_hash: vector for (text_hash, _), vector in zip(some, made, strict=True)}
            # Kept at once: a long text that is broken off begins where it stopped.
            await self._store.remember(space, fresh)
            vectors |= fresh
            self.counts["embedded"] += len(fresh)

    # ── the swap ──

    async def _swap(self, pages: Sequence[PageToEmbed], held: Held) -> None:
        now = self._clock.now()
        works = [
            Commit(
                held[page.item.id], self._store.swap(page.item, page.chunks, page.old, now), self._expected(page.item)
            )
            for page in pages
        ]
        answers = await self._commit([page.item.id for page in pages], works, held)
        for page, answer in zip(pages, answers, strict=True):
            if answer is CommitResult.WRITTEN:
                self.counts["indexed"] += 1
                log.debug("🧭 Indexed %d chunks → %s", len(page.chunks), page.item.fetch_url)
                continue
            self.counts["superseded"] += 1
            if answer is CommitResult.OUTDATED:
                # Refused would mean that somebody else may be writing the same chunks; those end by themselves.
                await self._store.discard(page.chunks, await self._store.old(page.item.id))
            log.debug("🔁 Changed meanwhile → %s", page.item.fetch_url)

    def _expected(self, item: Item) -> tuple[str, ...]:
        key = self._keys.item(item.id)
        is_same = (key, "contentHash", item.content_hash, key, "status", str(item.status))
        return (*is_same, *self._spaces.still(self._embedder.space))

    async def _commit(self, item_ids: Sequence[str], works: Sequence[Commit], held: Held) -> list[CommitResult]:
        """Each work for itself, all in one step; what has moved on is still held."""
        answers = await self._leases.commit_many(works) if works else []
        self._tell(len(works))
        for item_id, answer in zip(item_ids, answers, strict=True):
            if answer is not CommitResult.OUTDATED:
                del held[item_id]
        return answers
