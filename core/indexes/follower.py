"""Keep the search replica as Redis is: follow the events, and look at everything after a gap.

One process of a host writes; for all others `sync` does nothing, and they read what that one wrote.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from core import chunk as chunking
from core.indexes.pages import LivePage, PageReader
from core.indexes.replica import Mark, Replica, ReplicaBroken
from core.keys import Keys
from core.models import Chunk, Space
from core.registry import MAY_HAVE_TEXT
from core.stores.chunks import ChunkStore
from core.stores.connect import Client
from core.stores.events import EVENTS_KEPT
from core.stores.spaces import Spaces

log = logging.getLogger("search")

EVENTS_AT_ONCE = 1_000
ITEMS_AT_ONCE = 200
ITEMS_PER_COMMIT = 2_000
TELLING = {"article.stored", "item.changed", "item.gone", "item.indexed", "item.moved", "healed"}


class Follower:
    """Fills a replica from Redis."""

    def __init__(self, client: Client, keys: Keys, replica: Replica, chunks: ChunkStore, space: Space | None) -> None:
        self._client = client
        self._keys = keys
        self._replica = replica
        self._chunks = chunks
        self._space = space
        self._pages = PageReader(client, keys)
        self._spaces = Spaces(client, keys)

    async def sync(self) -> int:
        """Catch up with Redis, if nobody else does; how many items were looked at."""
        if not self._replica.try_write_lock():
            return 0
        await self._insist_on_space()
        mark = self._replica.mark
        if mark.space != self._space_name or not await self._can_follow(mark.position):
            return await self.rebuild()
        return await self._follow(mark.position)

    @property
    def space(self) -> Space | None:
        """The space of the vectors in this replica."""
        return self._space

    async def _insist_on_space(self) -> None:
        """After a cut-over to another space whoever opens the replica anew writes it."""
        live = await self._spaces.current()
        if live and live != self._space_name:
            self._replica.close()
            raise ReplicaBroken(f"The search replica is for vectors of {self._space_name or 'none'}, not of {live}.")

    @property
    def _space_name(self) -> str:
        return self._space.name if self._space else ""

    # ── following ──

    async def _can_follow(self, position: str) -> bool:
        """Is every event since then still in the stream?"""
        if not position:
            return False
        first = await self._client.xrange(self._keys.events, count=1)
        last = await self._client.xrevrange(self._keys.events, count=1)
        if position == "0-0":  # from the beginning: none can have been trimmed before the stream is full
            return await self._client.xlen(self._keys.events) < EVENTS_KEPT
        if not first or not last:
            return False
        return _number(str(first[0][0])) <= _number(position) <= _number(str(last[0][0]))

    async def _follow(self, position: str) -> int:
        """As far as the stream goes now: in a store that is written all the time its end is never reached."""
        looked_at, end = 0, await self._last()
        while _number(position) < _number(end):
            reply = await self._client.xrange(self._keys.events, min=f"({position}", count=EVENTS_AT_ONCE)
            events = cast(list[tuple[str, dict[str, str]]], reply)
            if not events:
                break  # trimmed meanwhile
            item_ids = {fields["id"] for _, fields in events if fields.get("type") in TELLING and "id" in fields}
            await self._apply(sorted(item_ids))
            position = events[-1][0]
            await self._replica.commit(Mark(position, self._space_name))
            looked_at += len(item_ids)
        return looked_at

    async def _last(self) -> str:
        """The place of the newest event."""
        last = await self._client.xrevrange(self._keys.events, count=1)
        return str(last[0][0]) if last else "0-0"

    # ── everything ──

    async def rebuild(self) -> int:
        """Look at every item that may have a text, and take away what is no more."""
        if not self._replica.try_write_lock():
            return 0
        position = await self._last()
        log.info("🔧 Building the search replica anew")
        known = {item_id async for _, item_id, _ in self._replica.iter_ids()}
        looked_at = 0
        async for some in self.all_items():
            known.difference_update(await self._apply(some))
            looked_at += len(some)
            if looked_at % ITEMS_PER_COMMIT < len(some):
                await self._replica.commit(Mark("", self._space_name))
        await self._replica.delete(sorted(known))
        await self._replica.commit(Mark(position, self._space_name))
        log.info("🔧 The search replica has %d items", looked_at)
        # What changed meanwhile was perhaps read halfway.
        return looked_at + await self._follow(position)

    async def all_items(self) -> AsyncIterator[list[str]]:
        """Every item that may have a text, in pieces."""
        batch: list[str] = []
        for status in MAY_HAVE_TEXT:
            async for item_id in self._client.sscan_iter(self._keys.status(str(status)), count=1_000):
                batch.append(str(item_id))
                if len(batch) >= ITEMS_AT_ONCE:
                    yield batch
                    batch = []
        if batch:
            yield batch

    # ── one item ──

    async def _apply(self, item_ids: Sequence[str]) -> set[str]:
        """Make these items what they are in Redis; ids of those that are there."""
        alive: set[str] = set()
        for start in range(0, len(item_ids), ITEMS_AT_ONCE):
            some = item_ids[start : start + ITEMS_AT_ONCE]
            pages = await self._pages.read(some)
            gone = [item_id for item_id, live in pages.items() if live is None]
            if gone:
                await self._replica.delete(gone)
            for item_id, live in pages.items():
                if live:
                    await self._upsert(item_id, live)
                    alive.add(item_id)
        return alive

    async def _upsert(self, item_id: str, live: LivePage) -> None:
        chunks, vectors = await self.content(item_id, live)
        await self._replica.upsert(live.page, chunks, vectors)
        await self._replica.flip(item_id, live.page.version)

    async def content(self, item_id: str, live: LivePage) -> tuple[list[Chunk], dict[str, bytes]]:
        """Chunks with their vectors; of a text that nobody has embedded yet, chunks for its words alone."""
        if live.has_chunks:
            stored = await self._chunks.read(item_id, self._space)
            return [one.chunk for one in stored], {one.chunk.id: one.vector for one in stored if one.vector}
        markdown = cast(Any, await self._client.hget(live.text_key, "markdown"))
        return chunking.chunks(item_id, str(markdown or ""), chunking.estimate_tokens), {}


def _number(stream_id: str) -> tuple[int, int]:
    time_part, _, sequence = stream_id.partition("-")
    return int(time_part), int(sequence or 0)
