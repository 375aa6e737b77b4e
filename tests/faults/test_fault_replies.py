"""Replies that get lost and connections that break, at every command."""

from __future__ import annotations

import asyncio

from redis.exceptions import RedisError

from tests.faults import process
from tests.faults.proxy import Proxy
from tests.faults.scenario import Newsroom


async def test_reply_of_every_command_lost_once(newsroom: Newsroom, proxy: Proxy, at_once: None, full: bool) -> None:
    """The server does it, we never hear of it, redis-py asks again: the end is the same, for every command."""
    number = 0
    while number == 0 or proxy.dropped:
        number += 1 if full or not number else 9
        await newsroom.rewind()
        proxy.count_from_here()
        proxy.drop_reply(number)
        await newsroom.run(proxy.url)

        lost = f"reply {number} lost: {proxy.dropped}"
        assert await newsroom.inconsistencies("ingest_last_run") == "", lost

    assert number > 100


async def test_server_gone_at_any_command_then_one_clean_run(
    newsroom: Newsroom, proxy: Proxy, at_once: None, full: bool
) -> None:
    """The cycle breaks off with Redis' own error, the store is sound, and the next one ends where it always ends.

    A feed that was under way is not blamed for it.
    """
    await newsroom.rewind()
    proxy.count_from_here()
    await newsroom.run(proxy.url)
    commands, broken_off = proxy.count, 0
    for number in range(1, commands + 1, 1 if full else 17):
        await newsroom.rewind()
        proxy.count_from_here()
        cycle = asyncio.ensure_future(newsroom.run(proxy.url))
        await process.until(lambda: proxy.count >= number or cycle.done())  # noqa: B023
        await proxy.off()
        try:
            await cycle
        except* (RedisError, OSError):
            broken_off += 1
        await proxy.on()
        broken = await newsroom.check(is_settled=False)
        await newsroom.let_leases_end()
        await newsroom.run()

        assert broken == [], number
        assert await newsroom.inconsistencies("ingest_last_run") == "", number

    assert broken_off > commands / 20
