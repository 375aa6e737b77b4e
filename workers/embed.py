"""Embed: a changed text becomes chunks, only new chunks become vectors, and one commit makes them the page's own.

Its text decides whether a page is embedded, not how its last check went: one that fails since keeps its newest text.
A text that changes meanwhile is superseded: nothing of the old one is committed, and the new one is next.
An embedder that is away stops the work politely; nothing is counted against any item.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core import chunk as chunking
from core.indexes.protocols import Embedder
from core.keys import Keys
from core.models import Chunk, Space
from core.registry import MAY_HAVE_TEXT, Item, Status
from core.stores.chunk_removal import OldChunks
from core.stores.chunks import ChunkStore
from core.stores.clock import ServerClock
from core.stores.commit import Answer, Lease, Leases, Work
from core.stores.connect import Client
from core.stores.items import ItemStore
from core.stores.spaces import Spaces

log = logging.getLogger("embed")

TEXTS_AT_ONCE = 64
PREFIX_TOKENS = chunking.WINDOW_TOKENS - chunking.MOST_TOKENS
"""What models leave for title and headings in front of a chunk."""


@dataclass(frozen=True, slots=True)
class Text:
    """What is to be embedded of an item."""

    title: str
    url: str
    markdown: str
    content_hash: str


async def read_text(client: Client, keys: Keys, item: Item) -> Text | None:
    """The text that the record's hash belongs to, or None if it is not there, or hidden."""
    fields = ["title", "url", "markdown", "content_hash", "status"]
    said = await client.hmget(keys.article(item.article_uid), fields) if item.article_uid else []
    is_article = bool(said) and said[4] is not None  # one that has ended leaves what a site has of the same page
    if not is_article:
        said = await client.hmget(keys.document(item.id), fields)
    title, url, markdown, content_hash, status = said
    is_hidden = is_article and status != "success"
    if markdown is None or content_hash != item.content_hash or is_hidden:
        return None
    return Text(str(title or ""), str(url or ""), str(markdown), str(content_hash))


def embedded(chunk: Chunk, text: Text, embedder: Embedder) -> str:
    """With title and headings in front, as far as the model's window has room for them."""
    window = embedder.most_tokens + PREFIX_TOKENS
    return chunking.embedded_text(chunk, text.title, text.url, embedder.count_tokens, window)


class Embedding:
    """Embeds items for one job."""

    def __init__(
        self, client: Client, keys: Keys, leases: Leases, store: ChunkStore, embedder: Embedder, clock: ServerClock
    ) -> None:
        self._client = client
        self._keys = keys
        self._leases = leases
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._items = ItemStore(client, keys)
        self._spaces = Spaces(client, keys)
        self.counts: Counter[str] = Counter()

    async def embed_many(self, item_ids: Sequence[str], is_over: Callable[[], bool]) -> None:
        """Embed those that nobody else embeds; raises EmbedderAway with the rest untouched."""
        await self._embedder.prepare()
        await self._spaces.claim(self._embedder.space, self._clock.now())
        for item_id in item_ids:
            if is_over():
                return
            taken = await self._leases.acquire(f"embed_{item_id}")
            if taken is None:
                continue
            lease, _ = taken
            try:
                await self._embed(item_id, lease)
            except BaseException:
                await self._leases.release(lease)
                raise

    async def _embed(self, item_id: str, lease: Lease) -> None:
        item = (await self._items.read([item_id]))[0]
        text = await read_text(self._client, self._keys, item) if item else None
        old = await self._store.old(item_id)
        if item is None or text is None or not self._is_wanted(item, old):
            await self._let_go(item_id, item, lease)
            return
        chunks = chunking.chunks(item_id, text.markdown, self._embedder.count_tokens, self._embedder.most_tokens)
        await self._write(item_id, text, chunks)
        await self._swap(item, text, chunks, old, lease)

    def _is_wanted(self, item: Item, old: OldChunks) -> bool:
        """Does search not know its text yet, or not in our space?"""
        if item.status not in MAY_HAVE_TEXT:
            return False
        name = self._embedder.space.name if self._embedder.space else ""
        is_ours = all(text_hash and of == name for text_hash, of in old.known.values())
        return item.status is Status.CRAWLED or item.content_hash != item.indexed_hash or not is_ours

    async def _let_go(self, item_id: str, item: Item | None, lease: Lease) -> None:
        """Gone, hidden or known already: what made it so has taken its chunks. What has just come to wait goes on."""
        key = self._keys.item(item_id)
        expected: tuple[str, ...] = (key, "status", str(item.status) if item else "0")
        if item:
            expected += (key, "contentHash", item.content_hash)
        if item and item.indexed_hash:
            expected += (key, "indexedHash", item.indexed_hash)
        work = Work(lease, [("ZREM", self._keys.embed_due, item_id)], expected)
        if (await self._leases.commit_many([work]))[0] is Answer.MOVED_ON:
            await self._leases.release(lease)

    # ── vectors ──

    async def _write(self, item_id: str, text: Text, chunks: Sequence[Chunk]) -> None:
        space = self._embedder.space
        vectors = await self._vectors(text, chunks, space) if space else {}
        await self._store.write(item_id, chunks, space, vectors)

    async def _vectors(self, text: Text, chunks: Sequence[Chunk], space: Space) -> dict[str, bytes]:
        known = await self._store.vectors(chunks, space)
        new = {chunk.text_hash: chunk for chunk in chunks if chunk.text_hash not in known}
        self.counts["reused"] += len(chunks) - len(new)
        wanted = list(new.values())
        for start in range(0, len(wanted), TEXTS_AT_ONCE):
            some = wanted[start : start + TEXTS_AT_ONCE]
            made = await self._embedder.embed([embedded(one, text, self._embedder) for one in some])
            fresh = {one.text_hash: vector for one, vector in zip(some, made, strict=True)}
            # Kept at once: a long text that is broken off begins where it stopped.
            await self._store.remember(space, fresh)
            known |= fresh
            self.counts["embedded"] += len(fresh)
        return known

    # ── the swap ──

    async def _swap(self, item: Item, text: Text, chunks: Sequence[Chunk], old: OldChunks, lease: Lease) -> None:
        now, key = self._clock.now(), self._keys.item(item.id)
        is_same = (key, "contentHash", item.content_hash, key, "status", str(item.status))
        expected = (*is_same, *self._spaces.still(self._embedder.space))
        work = Work(lease, self._store.swap(item, chunks, old, now), expected)
        answer = (await self._leases.commit_many([work]))[0]
        if answer is Answer.WRITTEN:
            self.counts["indexed"] += 1
            log.info("🧭 Indexed %d chunks → %s", len(chunks), item.fetch_url)
            return
        self.counts["superseded"] += 1
        if answer is Answer.MOVED_ON:
            # Refused would mean that somebody else may be writing the same chunks; those end by themselves.
            await self._store.discard(chunks, await self._store.old(item.id))
            await self._leases.release(lease)
        log.info("🔁 Changed meanwhile → %s", item.fetch_url)
