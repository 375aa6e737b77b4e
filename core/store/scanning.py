"""Iterate with SCAN over large sets, sorted sets and the key space, in batches.

A member that is there all the time comes at least once, and may come in two batches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from core.registry import field_parsing
from core.store.connect import Client, texts

AT_ONCE = 1_000
SMALL_STORE_KEYS = 20_000
"""Below so many keys, or members of sets, a look at all costs nothing and is done every time; above, hourly."""
FULL_EVERY_SECONDS = 3_600.0

Step = Callable[[int], Awaitable[tuple[Any, Any]]]
"""Makes one call: takes the cursor, returns the next cursor and a batch."""


async def keys(client: Client, pattern: str, count: int = AT_ONCE, kind: str | None = None) -> AsyncIterator[list[str]]:
    """Yield the keys that match a glob; with `kind` only those of a type, e.g. `SET`."""
    async for batch in _batches(lambda cursor: client.scan(cursor, match=pattern, count=count, _type=kind)):
        yield _unique(batch)


async def set_members(client: Client, key: str, count: int = AT_ONCE) -> AsyncIterator[list[str]]:
    """Yield the members of a SET."""
    async for batch in _batches(lambda cursor: client.sscan(key, cursor=cursor, count=count)):
        yield _unique(batch)


async def zset_members(client: Client, key: str, count: int = AT_ONCE) -> AsyncIterator[list[str]]:
    """Yield the members of a ZSET, in no order."""
    async for batch in _batches(lambda cursor: client.zscan(key, cursor=cursor, count=count)):
        yield _unique(member for member, _ in batch)


async def _batches(step: Step) -> AsyncIterator[Any]:
    cursor = 0
    while True:
        cursor, batch = await step(cursor)
        if batch:
            yield batch
        if not int(cursor):
            return


def _unique(members: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(members))


# ── a batch per call, with the position kept in Redis ──


async def next_keys(
    client: Client, pattern: str, cursors: str, field: str, count: int, calls: int = 1, enough: int = 1
) -> list[str]:
    """Return the next keys that match a glob; up to so many calls are made until there are enough."""
    step = lambda cursor: client.scan(cursor, match=pattern, count=count)  # noqa: E731
    return texts(await _next(client, cursors, field, step, calls, enough))


async def next_set_members(client: Client, key: str, cursors: str, field: str, count: int) -> list[str]:
    """Return the next batch of a SET; the hash `cursors` keeps the position, so that processes share the round."""
    return texts(await _next(client, cursors, field, lambda cursor: client.sscan(key, cursor=cursor, count=count)))


async def next_zset_members(client: Client, key: str, cursors: str, field: str, count: int) -> list[str]:
    """Return the next batch of a ZSET in the same way."""
    pairs = await _next(client, cursors, field, lambda cursor: client.zscan(key, cursor=cursor, count=count))
    return texts(member for member, _ in pairs)


async def _next(client: Client, cursors: str, field: str, step: Step, calls: int = 1, enough: int = 1) -> list[Any]:
    cursor = max(field_parsing.integer(await client.hget(cursors, field)), 0)
    members: list[Any] = []
    for _ in range(calls):
        cursor, batch = await step(cursor)
        members += batch
        if not int(cursor) or len(members) >= enough:
            break
    await client.hset(cursors, field, str(cursor))
    return members
