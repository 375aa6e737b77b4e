"""Keep the search replica as Redis is: follow the events, and look at everything after a gap.

Of all processes of a host one writes at a time: whoever finds something new and gets the lock, and only as long as it
takes. The others read what that one wrote.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import cast

from core.keys import Keys
from core.models import VectorSpace
from core.registry.record import MAY_HAVE_TEXT
from core.search.io import replica_state
from core.search.io import vector_space as spaces
from core.search.io.page_contents import PageContent, PageContentReader
from core.search.io.replica import Replica
from core.search.io.replica_opener import TEMPORARY, ReplicaOpener
from core.search.io.replica_state import Checkpoint, ReplicaBroken
from core.store.connect import Client, texts
from core.store.events import EVENTS_KEPT

log = logging.getLogger("search")

EVENTS_AT_ONCE = 1_000
ITEMS_AT_ONCE = 200
ITEMS_PER_COMMIT = 2_000
MOST_REPAIRS = 3
SAMPLE_SECONDS = 60.0
SAMPLE_ITEMS = 20
"""A process that searches for a long time looks at so many items of each kind so often."""
WAIT_SECONDS = 0.05
MOST_WAITS = 40
CONTENT_EVENTS = {
    "article.stored",
    "item.changed",
    "item.gone",
    "item.indexed",
    "item.moved",
    "item.listed",
    "item.forgotten",
    "healed",
}


class ReplicaFollower:
    """Fills a replica from Redis, and opens it anew where it cannot be used."""

    def __init__(
        self,
        client: Client,
        keys: Keys,
        contents: PageContentReader,
        opener: ReplicaOpener,
        replica: Replica,
        space: VectorSpace | None,
    ) -> None:
        self._client = client
        self._keys = keys
        self._contents = contents
        self._opener = opener
        self._turn = asyncio.Lock()
        self._sample_at = time.monotonic() + SAMPLE_SECONDS
        self._has_warned = self._is_temporary = False
        self.replica = replica
        self.space = space
        """The space of the vectors in this replica."""

    async def catch_up(self) -> int:
        """Make the replica what Redis is; how many items were looked at.

        While another process does the same it is waited for, but not for ever: it may be building everything anew.
        """
        for _ in range(MOST_WAITS):
            looked_at = await self._repaired_sync()
            if looked_at is not None:
                return looked_at
            await asyncio.sleep(WAIT_SECONDS)
        return 0

    async def look_at_some(self, count: int = SAMPLE_ITEMS) -> int:
        """Compare some items, by chance, with what the replica has of them, and set it right; how many were wrong.

        Events tell of everything; this finds what was lost on the way all the same.
        """
        here = sorted(self.replica.item_ids())
        names = set(random.sample(here, min(count, len(here))))
        for status in MAY_HAVE_TEXT:
            names |= set(texts(await self._client.srandmember(self._keys.status(str(status)), count) or []))
        found = await self._contents.read(sorted(names), self.space)
        wrong = [item_id for item_id, content in found.items() if not self.has(item_id, content)]
        if not wrong or not self.replica.try_write_lock():
            return 0
        try:
            await self._apply(wrong)
            await self.replica.commit(self.replica.checkpoint)
        finally:
            await asyncio.to_thread(self.replica.stop_writing)
        log.warning("🩹 %d items of the search replica were not as in Redis, and are set right", len(wrong))
        return len(wrong)

    def has(self, item_id: str, content: PageContent | None) -> bool:
        """Has the replica of an item just this? A text without a word has no chunks, and is not missing."""
        wanted = [(content.page, frozenset(chunk.id for chunk in content.chunks))] if content else []
        held = self.replica.pages(item_id)
        return held == wanted or not (held or (content and content.chunks))

    @property
    def is_building(self) -> bool:
        """Does another process build the replica, which so far has a part of everything?"""
        return not self.replica.checkpoint.position

    async def rebuild(self) -> int:
        """Look at every item that may have a text, and take away what is no more; 0 if another process writes."""
        async with self._turn:
            if not self.replica.try_write_lock():
                return 0
            try:
                return await self._rebuild()
            finally:
                await asyncio.to_thread(self.replica.stop_writing)

    async def repair(self, broken: ReplicaBroken) -> None:
        """What was read turned out to be broken: open the replica anew, and catch up."""
        log.warning("🔧 %s", broken)
        async with self._turn:
            await self._reopen()
        await self.catch_up()

    async def _repaired_sync(self) -> int | None:
        async with self._turn:
            for _ in range(MOST_REPAIRS):
                try:
                    looked_at = await self._sync()
                    if looked_at is not None and time.monotonic() > self._sample_at:
                        self._sample_at = time.monotonic() + SAMPLE_SECONDS
                        await self.look_at_some()
                    return looked_at
                except ReplicaBroken as broken:
                    log.warning("🔧 %s", broken)
                    await self._reopen()
                except OSError as error:
                    if isinstance(error, ConnectionError | TimeoutError):
                        raise  # the server's, not the disk's
                    if await self._go_on_without_room(replica_state.unusable(self.replica.folder, error)):
                        return 0
            return await self._sync()

    async def _go_on_without_room(self, full: replica_state.ReplicaUnusable) -> bool:
        """Keep the replica if it was complete once (True), or change to a temporary one. Raises errors that are not
        about room."""
        if not isinstance(full, replica_state.ReplicaFull) or self._is_temporary:
            raise full
        checkpoint = self.replica.checkpoint
        is_usable = bool(checkpoint.position) and checkpoint.space == self._space_name
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "⚠️ %s %s", full, "What it has is searched; newer texts are missing." if is_usable else TEMPORARY
            )
        if not is_usable:
            self.replica.close()
            self.replica, self._is_temporary = await self._opener.open_temporary(self.space), True
        return is_usable

    async def _sync(self) -> int | None:
        """None: another process is writing."""
        live, last = await self._now()
        if live != self.space:  # somebody cut over to another model, or to none
            self.space = live
            await self._reopen()
        if self.replica.checkpoint == Checkpoint(last, self._space_name):
            return 0
        if not self.replica.try_write_lock():
            return None
        try:
            checkpoint = self.replica.checkpoint
            if checkpoint.space != self._space_name or not await self._can_follow(checkpoint.position):
                return await self._rebuild()
            return await self._follow(checkpoint.position)
        finally:
            await asyncio.to_thread(self.replica.stop_writing)  # it may wait for tantivy to merge

    async def _reopen(self) -> None:
        self.replica.close()
        self.replica = await self._opener.open(self.space)

    @property
    def _space_name(self) -> str:
        return self.space.name if self.space else ""

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
        looked_at, end = 0, (await self._now())[1]
        while _number(position) < _number(end):
            reply = await self._client.xrange(self._keys.events, min=f"({position}", count=EVENTS_AT_ONCE)
            events = cast(list[tuple[str, dict[str, str]]], reply)
            if not events:
                break  # trimmed meanwhile
            item_ids = {fields["id"] for _, fields in events if fields.get("type") in CONTENT_EVENTS and "id" in fields}
            await self._apply(sorted(item_ids))
            position = events[-1][0]
            await self.replica.commit(Checkpoint(position, self._space_name))
            looked_at += len(item_ids)
        return looked_at

    async def _now(self) -> tuple[VectorSpace | None, str]:
        """The live space, and the place of the newest event."""
        pipe = self._client.pipeline(transaction=False)
        pipe.hget(self._keys.version, spaces.FIELD)
        pipe.xrevrange(self._keys.events, count=1)
        space, last = await pipe.execute()
        return spaces.parsed(str(space or "")), str(last[0][0]) if last else "0-0"

    # ── everything ──

    async def _rebuild(self) -> int:
        _, position = await self._now()
        log.info("🔧 Building the search replica anew")
        known = {item_id async for _, item_id, _ in self.replica.iter_ids()}
        looked_at = 0
        async for some in self.all_items():
            known.difference_update(await self._apply(some))
            looked_at += len(some)
            if looked_at % ITEMS_PER_COMMIT < len(some):
                await self.replica.commit(Checkpoint("", self._space_name))
        await self.replica.delete(sorted(known))
        await self.replica.commit(Checkpoint(position, self._space_name))
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

    async def _apply(self, item_ids: Sequence[str]) -> set[str]:
        """Make these items what they are in Redis; ids of those that are there."""
        alive: set[str] = set()
        for start in range(0, len(item_ids), ITEMS_AT_ONCE):
            found = await self._contents.read(item_ids[start : start + ITEMS_AT_ONCE], self.space)
            gone = [item_id for item_id, content in found.items() if content is None]
            if gone:
                await self.replica.delete(gone)
            for item_id, content in found.items():
                if content:
                    await self.replica.upsert(content.page, content.chunks, content.vectors)
                    await self.replica.keep_only(item_id, content.page.version)
                    alive.add(item_id)
        return alive


def _number(stream_id: str) -> tuple[int, int]:
    time_part, _, sequence = stream_id.partition("-")
    return int(time_part), int(sequence or 0)
