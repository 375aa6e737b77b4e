"""Read the event stream: what was added after an id, and where the stream begins and ends."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from redis.exceptions import ResponseError

from core.keys import Keys
from core.store.connect import Client
from core.value_class import value_class

BATCH_EVENTS = 500
FIRST_ID = "0-0"
_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_LARGEST = 2**64 - 1


@value_class
class StoredEvent:
    """One event as it is in the stream."""

    id: str
    type: str
    fields: Mapping[str, str]

    @property
    def ts(self) -> float:
        """Return when it happened."""
        return order(self.id)[0] / 1_000


@value_class
class StreamEnds:
    """Where the stream begins and ends."""

    first_id: str
    """Of the oldest event that is still there; FIRST_ID if there is none."""
    last_id: str
    """Of the newest event that was ever added."""
    is_trimmed: bool
    """Are events gone from its beginning?"""


@value_class
class StreamWindow:
    """The events after an id, and the counts of the stream at the same moment."""

    events: tuple[StoredEvent, ...] = ()
    last_id: str = FIRST_ID
    """Of the newest event that was ever added."""
    added: int = 0
    """Events that were ever added."""
    trimmed: int = 0
    """Events that are gone from its beginning."""


def order(event_id: str) -> tuple[int, int]:
    """Return what ids are compared by; raise ValueError if this is no id."""
    if not _ID.fullmatch(event_id):
        raise ValueError(f"{event_id[:60]!r} is no id of an event")
    milliseconds, _, number = event_id.partition("-")
    both = int(milliseconds), int(number)
    if max(both) > _LARGEST:
        raise ValueError(f"{event_id[:60]!r} is no id of an event")
    return both


def id_before(event_id: str) -> str:
    """Return the largest id below this one; raise ValueError if this is no id."""
    milliseconds, number = order(event_id)
    if number:
        return f"{milliseconds}-{number - 1}"
    return f"{milliseconds - 1}-{_LARGEST}" if milliseconds else FIRST_ID


class EventStream:
    """Reads `freshet:events`."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._key = keys.events

    async def ends(self) -> StreamEnds:
        """Return where it begins and ends."""
        if not await self._client.exists(self._key):
            return StreamEnds(FIRST_ID, FIRST_ID, is_trimmed=False)
        info = await self._client.xinfo_stream(self._key)
        first = info.get("first-entry")
        added, length = int(info.get("entries-added", 0)), int(info["length"])
        return StreamEnds(first[0] if first else FIRST_ID, str(info["last-generated-id"]), is_trimmed=added > length)

    async def wait_after(self, event_id: str, wait_ms: int, count: int = BATCH_EVENTS) -> list[StoredEvent]:
        """Return events after an id, oldest first; wait for one if there is none yet."""
        reply = await self._client.xread({self._key: event_id}, count=count, block=wait_ms)
        return [_event(*entry) for _, entries in cast(list[Any], reply or []) for entry in entries]

    async def newest(self, count: int) -> list[StoredEvent]:
        """Return the last events, newest first."""
        entries = cast(list[Any], await self._client.xrevrange(self._key, count=count))
        return [_event(*entry) for entry in entries]

    async def window(self, after_id: str, count: int = BATCH_EVENTS) -> StreamWindow:
        """Return events after an id, oldest first, with the counts that tell whether some before them are gone."""
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.xrange(self._key, f"({after_id}", "+", count)
            pipe.xinfo_stream(self._key)
            entries, info = await pipe.execute(raise_on_error=False)
        if isinstance(info, ResponseError):  # there is no stream yet
            return StreamWindow()
        added, length = int(info.get("entries-added", 0)), int(info["length"])
        events = tuple(_event(*entry) for entry in cast(list[Any], entries))
        return StreamWindow(events, str(info["last-generated-id"]), added, max(added - length, 0))

    async def between(self, after_id: str, last_id: str) -> AsyncIterator[list[StoredEvent]]:
        """Yield the events after an id up to another, in batches, oldest first."""
        while True:
            entries = cast(list[Any], await self._client.xrange(self._key, f"({after_id}", last_id, BATCH_EVENTS))
            if not entries:
                return
            yield [_event(*entry) for entry in entries]
            after_id = entries[-1][0]


def _event(event_id: str, fields: Mapping[str, str] | None) -> StoredEvent:
    values = dict(fields or {})
    return StoredEvent(event_id, values.pop("type", ""), values)
