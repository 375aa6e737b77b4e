"""Fetchers on four hosts with one Redis: one host is killed, one is cut off from the network and comes back."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
import redis.asyncio as redis

from bench import hosts as bench_hosts
from bench import namespaces
from bench.hosts import FETCHER, SlowWeb
from core import ids
from core.keys import Keys
from tests.faults import state
from tests.faults.process import until

PAGES, CONNECTIONS, WEBS = 160, 2, 16
MOST_PASSES = 10
KEYS = Keys()


@pytest.mark.full
async def test_one_host_killed_and_one_cut_off(tmp_path: Path) -> None:
    """The others do the work: every page is an article, and only pages that the two had just asked for are asked for
    again."""
    if reason := namespaces.missing():
        pytest.skip(reason)
    with (
        namespaces.open_hosts(4, WEBS) as (hosts, addresses),
        bench_hosts.shared_redis(tmp_path / "redis") as url,
    ):
        web = SlowWeb(addresses)
        async with web.serving(), redis.Redis.from_url(url, decode_responses=True) as client:
            await client.sadd(KEYS.category_links("news"), *map(web.url, range(PAGES)))

            def start(place: int) -> subprocess.Popen[bytes]:
                own = tmp_path / hosts[place].name
                own.mkdir(exist_ok=True)
                told = bench_hosts.environment(url, own, CONNECTIONS)
                return hosts[place].start(FETCHER, told, own / "log")

            def has_begun(place: int) -> bool:
                return any(host == hosts[place].address for _, host, _ in web.asked)

            running = [start(place) for place in range(4)]
            await until(lambda: all(map(has_begun, range(4))))
            hosts[1].kill()
            hosts[2].cut_off()
            assert len(web.asked) < PAGES
            assert [await asyncio.to_thread(running[place].wait) for place in (0, 3)] == [0, 0]
            hosts[2].reconnect()
            await asyncio.to_thread(running[2].wait)
            for _ in range(MOST_PASSES):  # what failed on a busy machine is due again by and by
                await state.let_leases_end(client, KEYS)
                if waiting := await client.zrange(KEYS.retry, 0, -1):
                    await client.zadd(KEYS.retry, dict.fromkeys(waiting, 0))
                assert await asyncio.to_thread(start(0).wait) == 0
                if await client.zcard(KEYS.article_index) == PAGES:
                    break
            articles = set(await client.zrange(KEYS.article_index, 0, -1))

    assert articles == {ids.article_uid(web.url(number)) for number in range(PAGES)}
    lost = {hosts[1].address, hosts[2].address}
    again = {page for page, count in web.counts().items() if count > 1}
    assert len(again) <= 2 * CONNECTIONS
    assert all(any(asked == page and host in lost for _, host, asked in web.asked) for page in again)
