"""Walk over large sets, sorted sets and key families in batches; the only place that knows how a SCAN goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from core.registry import field_parsing
from core.store.connect import Client, texts

AT_ONCE = 1_000

Step = Callable[[int], Awaitable[tuple[Any, Any]]]
"""Cursor → next cursor and what was found."""


async def set_members(client: Client, key: str, count: int = AT_ONCE) -> AsyncIterator[list[str]]:
    """Members of a SET; one may come twice."""
    async for found in _batches(lambda cursor: client.sscan(key, cursor=cursor, count=count)):
        yield texts(found)


async def zset_members(client: Client, key: str, count: int = AT_ONCE) -> AsyncIterator[list[str]]:
    """Members of a ZSET, in no order; one may come twice."""
    async for found in _batches(lambda cursor: client.zscan(key, cursor=cursor, count=count)):
        yield texts(member for member, _ in found)


async def keys(client: Client, pattern: str, count: int = AT_ONCE) -> AsyncIterator[list[str]]:
    """Keys that match a glob; one may come twice."""
    async for found in _batches(lambda cursor: client.scan(cursor, match=pattern, count=count)):
        yield texts(found)


async def _batches(step: Step) -> AsyncIterator[Any]:
    cursor = 0
    while True:
        cursor, found = await step(cursor)
        if found:
            yield found
        if not int(cursor):
            return


# ── a little in each run ──


async def next_set_members(client: Client, key: str, cursors: str, field: str, count: int) -> list[str]:
    """The next batch of a SET; the hash `cursors` keeps the position, so that processes share the round."""
    return texts(await _next(client, cursors, field, lambda cursor: client.sscan(key, cursor=cursor, count=count)))


async def next_zset_members(client: Client, key: str, cursors: str, field: str, count: int) -> list[str]:
    """The same of a ZSET."""
    found = await _next(client, cursors, field, lambda cursor: client.zscan(key, cursor=cursor, count=count))
    return texts(member for member, _ in found)


async def _next(client: Client, cursors: str, field: str, step: Step) -> Any:
    cursor, found = await step(max(field_parsing.integer(await client.hget(cursors, field)), 0))
    await client.hset(cursors, field, str(cursor))
    return found
