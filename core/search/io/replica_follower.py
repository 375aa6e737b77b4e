"""Keep the search replica equal to Redis: follow the events, and rebuild it after a gap in them.

Of all processes of a host one writes at a time: the first to see something new and get the lock, and only as long as it
takes. The others read what that one wrote.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from core.keys import Keys
from core.registry.record import MAY_HAVE_TEXT
from core.search.io import replica_state
from core.search.io.page_contents import PageContent, PageContentReader
from core.search.io.replica import Replica
from core.search.io.replica_opener import TEMPORARY, ReplicaOpener
from core.search.io.replica_state import Checkpoint, ReplicaBroken
from core.search.io.vector_space_store import SPACE_FIELD
from core.search.vector_spaces import Spaces, parse_spaces
from core.store import scanning
from core.store.connect import Client, texts
from core.store.event_command import EVENTS_KEPT
from core.store.pipeline import read_many

log = logging.getLogger("search")

EVENTS_AT_ONCE = 1_000
ITEMS_AT_ONCE = 200
ITEMS_PER_COMMIT = 2_000
MOST_REPAIRS = 3
SAMPLE_SECONDS = 60.0
SAMPLE_ITEMS = 20
"""A process that searches for a long time checks so many items of each kind so often."""
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
    """Fills a replica from Redis, and reopens it where it cannot be used."""

    def __init__(
        self,
        client: Client,
        keys: Keys,
        contents: PageContentReader,
        opener: ReplicaOpener,
        replica: Replica,
        spaces: Spaces,
    ) -> None:
        self._client = client
        self._keys = keys
        self._contents = contents
        self._opener = opener
        self._turn = asyncio.Lock()
        self._sample_at = time.monotonic() + SAMPLE_SECONDS
        self._has_warned = self._is_temporary = False
        self.replica = replica
        self.spaces = spaces
        """The spaces of the vectors in this replica."""

    async def catch_up(self) -> int:
        """Apply the events since the last commit; return how many items were read.

        Wait for another process that does the same, but not for ever: it may be rebuilding everything.
        """
        for _ in range(MOST_WAITS):
            items_read = await self._sync_or_repair()
            if items_read is not None:
                return items_read
            await asyncio.sleep(WAIT_SECONDS)
        return 0

    async def check_sample(self, count: int = SAMPLE_ITEMS) -> int:
        """Compare random items with what the replica has of them, and correct it; return how many were wrong.

        Events tell of every change; this finds what was lost on the way all the same.
        """
        here = sorted(self.replica.item_ids())
        item_ids = set(random.sample(here, min(count, len(here))))
        for status in MAY_HAVE_TEXT:
            item_ids |= set(texts(await self._client.srandmember(self._keys.status(str(status)), count) or []))
        contents = await self._contents.read(sorted(item_ids), self.spaces)
        wrong = [item_id for item_id, content in contents.items() if not self._is_current(item_id, content)]
        if not wrong:
            return 0
        async with self._write_lock() as is_writer:
            if not is_writer:
                return 0
            await self._apply(wrong)
            await self.replica.commit(self.replica.checkpoint)
        log.warning("🩹 %d items of the search replica were not as in Redis, and are set right", len(wrong))
        return len(wrong)

    async def compare(self, *, fix: bool = False) -> dict[str, int]:
        """Count the pages that the replica lacks or has otherwise, and those too many; with `fix`, then rebuild it."""
        await self.catch_up()
        extra, missing = self.replica.item_ids(), 0
        counts = {"pages": len(extra), "chunks": await self.replica.count()}
        async for item_ids in self._iter_items():
            for item_id, content in (await self._contents.read(item_ids, self.spaces)).items():
                if content is not None:
                    extra.discard(item_id)
                    missing += not self._is_current(item_id, content)
        if fix and (missing or extra):
            async with self._turn, self._write_lock() as is_writer:
                if is_writer:
                    await self._rebuild()
        return counts | {"missing": missing, "extra": len(extra)}

    def _is_current(self, item_id: str, content: PageContent | None) -> bool:
        """Return whether the replica has just this of an item.

        A text without a word has no chunks, and is not missing.
        """
        wanted = [(content.page, frozenset(chunk.id for chunk in content.chunks))] if content else []
        pages = self.replica.pages(item_id)
        return pages == wanted or not (pages or (content and content.chunks))

    @property
    def is_building(self) -> bool:
        """Whether another process is building the replica, which so far has a part of everything."""
        return not self.replica.checkpoint.position

    async def repair(self, broken: ReplicaBroken) -> None:
        """Reopen a replica that turned out to be broken while it was read, and catch up."""
        log.warning("🔧 %s", broken)
        async with self._turn:
            await self._reopen()
        await self.catch_up()

    async def _sync_or_repair(self) -> int | None:
        async with self._turn:
            for _ in range(MOST_REPAIRS):
                try:
                    items_read = await self._sync()
                    if items_read is not None and time.monotonic() > self._sample_at:
                        self._sample_at = time.monotonic() + SAMPLE_SECONDS
                        await self.check_sample()
                    return items_read
                except ReplicaBroken as broken:
                    log.warning("🔧 %s", broken)
                    await self._reopen()
                except OSError as error:
                    if isinstance(error, ConnectionError | TimeoutError):
                        raise  # the server's, not the disk's
                    if await self._continue_without_room(replica_state.unusable(self.replica.folder, error)):
                        return 0
            return await self._sync()

    async def _continue_without_room(self, full: replica_state.ReplicaUnusable) -> bool:
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
            self.replica, self._is_temporary = await self._opener.open_temporary(self.spaces), True
        return is_usable

    async def _sync(self) -> int | None:
        """Return how many items were read; None: another process is writing."""
        live, last = await self._space_and_position()
        if live != self.spaces:  # someone cut over to another model, or to none, or added one
            self.spaces = live
            await self._reopen()
        if self.replica.checkpoint == Checkpoint(last, self._space_name):
            return 0
        async with self._write_lock() as is_writer:
            if not is_writer:
                return None
            checkpoint = self.replica.checkpoint
            if checkpoint.space != self._space_name or not await self._can_follow(checkpoint.position):
                return await self._rebuild()
            return await self._follow(checkpoint.position)

    @asynccontextmanager
    async def _write_lock(self) -> AsyncIterator[bool]:
        """Hold the write lock; False: another process holds it."""
        replica = self.replica
        if not replica.try_write_lock():
            yield False
            return
        try:
            yield True
        finally:
            await asyncio.to_thread(replica.stop_writing)  # it may wait for tantivy to merge

    async def _reopen(self) -> None:
        self.replica.close()
        self.replica = await self._opener.open(self.spaces)

    @property
    def _space_name(self) -> str:
        return self.spaces.name

    # ── following ──

    async def _can_follow(self, position: str) -> bool:
        """Return whether every event since then is still in the stream."""
        if not position:
            return False
        first = await self._client.xrange(self._keys.events, count=1)
        last = await self._client.xrevrange(self._keys.events, count=1)
        if position == "0-0":  # from the beginning: none can have been trimmed before the stream is full
            return await self._client.xlen(self._keys.events) < EVENTS_KEPT
        if not first or not last:
            return False
        return _stream_id(str(first[0][0])) <= _stream_id(position) <= _stream_id(str(last[0][0]))

    async def _follow(self, position: str) -> int:
        """Apply the events up to the present end of the stream: a busy store would never let us reach a moving one."""
        items_read, (_, end) = 0, await self._space_and_position()
        while _stream_id(position) < _stream_id(end):
            reply = await self._client.xrange(self._keys.events, min=f"({position}", count=EVENTS_AT_ONCE)
            events = cast(list[tuple[str, dict[str, str]]], reply)
            if not events:
                break  # trimmed meanwhile
            item_ids = {fields["id"] for _, fields in events if fields.get("type") in CONTENT_EVENTS and "id" in fields}
            await self._apply(sorted(item_ids))
            position = events[-1][0]
            await self.replica.commit(Checkpoint(position, self._space_name))
            items_read += len(item_ids)
        return items_read

    async def _space_and_position(self) -> tuple[Spaces, str]:
        """Return the live spaces, and the id of the newest event."""
        newest = ("XREVRANGE", self._keys.events, "+", "-", "COUNT", 1)
        space, last = await read_many(self._client, [("HGET", self._keys.version, SPACE_FIELD), newest])
        return parse_spaces(str(space or "")), str(last[0][0]) if last else "0-0"

    # ── rebuilding ──

    async def _rebuild(self) -> int:
        """Read every item that may have a text, and remove what is no more; return how many items were read."""
        _, position = await self._space_and_position()
        log.info("🔧 Building the search replica anew")
        gone = self.replica.item_ids()
        items_read = 0
        async for item_ids in self._iter_items():
            gone.difference_update(await self._apply(item_ids))
            items_read += len(item_ids)
            if items_read % ITEMS_PER_COMMIT < len(item_ids):
                await self.replica.commit(Checkpoint("", self._space_name))
        await self.replica.delete(sorted(gone))
        await self.replica.commit(Checkpoint(position, self._space_name))
        log.info("🔧 The search replica has %d items", items_read)
        # What changed meanwhile may have been read before its change.
        return items_read + await self._follow(position)

    async def _iter_items(self) -> AsyncIterator[list[str]]:
        """Yield the ids of all items that may have a text, in batches."""
        for status in MAY_HAVE_TEXT:
            async for item_ids in scanning.set_members(self._client, self._keys.status(str(status)), ITEMS_AT_ONCE):
                yield item_ids

    async def _apply(self, item_ids: Sequence[str]) -> set[str]:
        """Write these items as they are in Redis; return the ids of those that are live."""
        live: set[str] = set()
        for start in range(0, len(item_ids), ITEMS_AT_ONCE):
            contents = await self._contents.read(item_ids[start : start + ITEMS_AT_ONCE], self.spaces)
            await self.replica.delete([item_id for item_id, content in contents.items() if content is None])
            for item_id, content in contents.items():
                if content:
                    main, other = (content.vectors_of(place, self.spaces) for place in (0, 1))
                    await self.replica.upsert(content.page, content.chunks, main, other)
                    await self.replica.keep_only(item_id, content.page.version)
                    live.add(item_id)
        return live


def _stream_id(text: str) -> tuple[int, int]:
    time_part, _, sequence = text.partition("-")
    return int(time_part), int(sequence or 0)
