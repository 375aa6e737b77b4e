"""Embed items: cut changed texts into chunks, embed the new chunks, and make them the page's own in one commit.

Pages go in groups, so that the model gets many short ones at once. Each has its own lease and its own swap.
The text decides whether a page is embedded, not its last check: a page that fails since keeps its newest text.
If a text changes meanwhile, nothing of the old one is committed, and the new one is next.
If the embedder is unavailable, the run stops; nothing is counted against any item.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from core.keys import Keys
from core.models import Chunk, VectorSpace
from core.registry.io.item_store import ItemStore
from core.registry.record import MAY_HAVE_TEXT, Item, Status
from core.runs.io.state_tally import KbTally, kb_ids_of
from core.search import chunking
from core.search.io import multilingual_embedder
from core.search.io.chunk_remover import ChunkRefs
from core.search.io.chunk_store import ChunkStore
from core.search.io.live_pages import LivePageReader, LiveText
from core.search.io.vector_space_store import VectorSpaceStore
from core.search.languages import all_models, cut, language_of, models_of, spaces_of
from core.search.protocols import Embedder, EmbedderUnavailable
from core.search.vector_spaces import Spaces
from core.store.clock import ServerClock
from core.store.commands import Command
from core.store.connect import Client
from core.store.leases import Commit, CommitResult, Lease, Leases
from core.value_class import value_class

log = logging.getLogger("embed")

ITEMS_AT_ONCE = 64
"""Leased and read together."""
TEXTS_AT_ONCE = 64
"""For the model; a group of pages has about as many chunks, or one long page more."""
LeasesByItem = dict[str, Lease]
"""The leases that this run holds, by item id."""
ShouldStop = Callable[[], bool]


@value_class
class PageToEmbed:
    """An item with the chunks of its text, and those that search has now."""

    item: Item
    text: LiveText
    chunks: Sequence[Chunk]
    stored: ChunkRefs
    spaces: Spaces
    """Of the models that speak its language."""


def text_for_model(chunk: Chunk, text: LiveText, embedder: Embedder) -> str:
    """Put title and headings in front of a chunk, as far as the model's window has room for them."""
    window = embedder.most_tokens + embedder.prefix_tokens
    return chunking.embedded_text(chunk, text.title, text.url, embedder.count_tokens, window)


def embed_lease(item_id: str) -> str:
    """Return the name of the lease without which nobody embeds an item."""
    return f"embed_{item_id}"


class ItemEmbedder:
    """Embeds items for one job."""

    def __init__(
        self,
        client: Client,
        keys: Keys,
        leases: Leases,
        store: ChunkStore,
        embedder: Embedder,
        clock: ServerClock,
        report_progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`report_progress` is called with the number of pages that have just been finished."""
        self._keys = keys
        self._leases = leases
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._report_progress = report_progress
        self._items = ItemStore(client, keys)
        self._texts = LivePageReader(client, keys)
        self._spaces = VectorSpaceStore(client, keys)
        self._tally = KbTally(keys)
        self._live_name = ""
        """Of the spaces that were live when the run began."""
        self.counts: Counter[str] = Counter()
        self.kb_ids: set[str] = set()
        """Knowledge bases whose items were indexed or dequeued."""

    async def embed_many(self, item_ids: Sequence[str], should_stop: ShouldStop) -> None:
        """Embed those that nobody else embeds; raises EmbedderUnavailable with the rest untouched."""
        await self._embedder.prepare()
        self._live_name = await self._spaces.claim(spaces_of(all_models(self._embedder)), self._clock.now())
        for start in range(0, len(item_ids), ITEMS_AT_ONCE):
            if should_stop():
                return
            await self._embed_batch(item_ids[start : start + ITEMS_AT_ONCE], should_stop)

    async def _embed_batch(self, item_ids: Sequence[str], should_stop: ShouldStop) -> None:
        taken = await self._leases.acquire_many([embed_lease(item_id) for item_id in item_ids], until_text="")
        held = {item_id: got[0] for item_id, got in zip(item_ids, taken, strict=True) if got}
        try:
            async for group in self._groups(held):
                await self._embed_group(group, held, should_stop)
                if should_stop():
                    return
        finally:
            if held:
                await self._leases.release_many(list(held.values()))

    # ── reading ──

    async def _groups(self, held: LeasesByItem) -> AsyncIterator[list[PageToEmbed]]:
        """Yield the pages that need it, each group with about as many chunks as the model gets at once."""
        items = dict(zip(held, await self._items.read(list(held)), strict=True))
        texts = await self._texts.read_texts([item for item in items.values() if item])
        stored = await self._store.remover.stored(list(held))
        languages = {item_id: language_of(text.markdown, text.stated_language) for item_id, text in texts.items()}
        spaces = {item_id: spaces_of(models_of(self._embedder, one)) for item_id, one in languages.items()}
        self._count_unspoken(languages)
        needed = [
            item
            for item in items.values()
            if item and item.id in texts and self._needs_embedding(item, stored[item.id], spaces[item.id])
        ]
        await self._dequeue({name: items[name] for name in items.keys() - {item.id for item in needed}}, held)
        group: list[PageToEmbed] = []
        for item in needed:
            text = texts.pop(item.id)
            chunks = cut(item.id, text.markdown, languages[item.id], self._embedder)
            group.append(PageToEmbed(item, text, chunks, stored[item.id], spaces[item.id]))
            if sum(len(page.chunks) for page in group) >= TEXTS_AT_ONCE:
                yield group
                group = []
        if group:
            yield group

    def _count_unspoken(self, languages: Mapping[str, str]) -> None:
        """Count pages that would have vectors if the model of other languages were installed."""
        if self._embedder.companion is None and self._embedder.space and self._embedder.counts_english:
            self.counts["without_model"] += sum(
                language in multilingual_embedder.LANGUAGES for language in languages.values()
            )

    def _needs_embedding(self, item: Item, stored: ChunkRefs, spaces: Spaces) -> bool:
        """Return whether search does not know its text yet, or not in its spaces."""
        if item.status not in MAY_HAVE_TEXT:
            return False
        is_in_its_spaces = all(text_hash and space == spaces.name for text_hash, space in stored.values())
        return item.status is Status.CRAWLED or item.content_hash != item.indexed_hash or not is_in_its_spaces

    async def _dequeue(self, items: dict[str, Item | None], held: LeasesByItem) -> None:
        """Dequeue items that are gone, hidden or indexed already, unless they have changed since they were read."""
        commits = {}
        for item_id, item in items.items():
            key = self._keys.item(item_id)
            expected: tuple[str, ...] = (key, "status", str(item.status) if item else "0")
            if item:
                self.kb_ids.update(kb_ids_of(item.sources))
                expected += (key, "contentHash", item.content_hash)
            if item and item.indexed_hash:
                expected += (key, "indexedHash", item.indexed_hash)
            commits[item_id] = Commit(held[item_id], [("ZREM", self._keys.embed_due, item_id)], expected)
        await self._commit(commits, held)

    # ── vectors ──

    async def _embed_group(self, group: Sequence[PageToEmbed], held: LeasesByItem, should_stop: ShouldStop) -> None:
        """Swap in those pages that have all their vectors, whatever kept a model from making the others'."""
        vectors: dict[str, dict[str, bytes]] = {}
        unavailable = None
        try:
            for model in all_models(self._embedder):
                if (space := model.space) and (pages := [page for page in group if space in page.spaces]):
                    await self._add_vectors(vectors.setdefault(space.name, {}), pages, model, space, should_stop)
        except EmbedderUnavailable as error:
            unavailable = error
        whole = [page for page in group if _is_embedded(page, vectors)]
        await self._store.write({page.item.id: page.chunks for page in whole}, _joined(whole, vectors))
        await self._swap(whole, held)
        if unavailable is not None:
            raise unavailable

    async def _add_vectors(
        self,
        vectors: dict[str, bytes],
        group: Sequence[PageToEmbed],
        model: Embedder,
        space: VectorSpace,
        should_stop: ShouldStop,
    ) -> None:
        """Add the vectors of a group by text hash: those that are there, then those that the model makes."""
        chunks = [(chunk, page.text) for page in group for chunk in page.chunks]
        stored = {name: ref for page in group for name, ref in page.stored.items()}
        vectors |= await self._store.vectors([chunk for chunk, _ in chunks], space, stored)
        new: dict[str, tuple[Chunk, LiveText]] = {}
        for chunk, text in chunks:
            if chunk.text_hash not in vectors:
                new.setdefault(chunk.text_hash, (chunk, text))
        self.counts["reused"] += len(chunks) - len(new)
        for start in range(0, len(new), TEXTS_AT_ONCE):
            if start and should_stop():
                return
            hashes = list(new)[start : start + TEXTS_AT_ONCE]
            made = await model.embed([text_for_model(*new[one], model) for one in hashes])
            fresh = dict(zip(hashes, made, strict=True))
            # Kept at once: a long text that is interrupted goes on where it stopped.
            await self._store.remember(space, fresh)
            vectors |= fresh
            self.counts["embedded"] += len(fresh)

    # ── the swap ──

    async def _swap(self, pages: Sequence[PageToEmbed], held: LeasesByItem) -> None:
        now, commits = self._clock.now(), {}
        for item, page in ((page.item, page) for page in pages):
            key = self._keys.item(item.id)
            is_same = (key, "contentHash", item.content_hash, key, "status", str(item.status))
            expected = (*is_same, *self._spaces.expectation(self._live_name))
            commands = self._store.swap(item, page.chunks, page.stored, now)
            more = len(page.chunks) - len(page.stored)
            commands += self._tally.indexed(item.sources, more, is_new=not item.indexed_hash)
            commits[item.id] = Commit(held[item.id], commands, expected)
        kb_ids = kb_ids_of(sid for page in pages for sid in page.item.sources)
        self.kb_ids.update(kb_ids)
        for page, result in zip(pages, await self._commit(commits, held, self._tally.batch(kb_ids)), strict=True):
            if result is CommitResult.WRITTEN:
                self.counts["indexed"] += 1
                log.debug("🧭 Indexed %d chunks → %s", len(page.chunks), page.item.fetch_url)
                continue
            self.counts["superseded"] += 1
            if result is CommitResult.OUTDATED:
                # Refused would mean that someone else may be writing the same chunks; those expire.
                await self._store.discard(page.item.id, page.chunks)
            log.debug("🔁 Changed meanwhile → %s", page.item.fetch_url)

    async def _commit(
        self, commits: Mapping[str, Commit], held: LeasesByItem, also: Sequence[Command] = ()
    ) -> list[CommitResult]:
        """Run the commits in one step, each by itself; the leases of those that are outdated stay ours."""
        results = await self._leases.commit_many(list(commits.values()), also) if commits else []
        self._report_progress(len(commits))
        for item_id, result in zip(commits, results, strict=True):
            if result is not CommitResult.OUTDATED:
                del held[item_id]
        return results


def _is_embedded(page: PageToEmbed, vectors: Mapping[str, Mapping[str, bytes]]) -> bool:
    """Return whether all chunks of a page have a vector in all of its spaces."""
    return all(chunk.text_hash in vectors.get(space.name, {}) for space in page.spaces for chunk in page.chunks)


def _joined(pages: Sequence[PageToEmbed], vectors: Mapping[str, Mapping[str, bytes]]) -> dict[str, tuple[str, bytes]]:
    """Return by chunk id the name of its spaces and its vectors, one behind the other."""
    return {
        chunk.id: (page.spaces.name, b"".join(vectors[space.name][chunk.text_hash] for space in page.spaces))
        for page in pages
        for chunk in page.chunks
        if page.spaces
    }
