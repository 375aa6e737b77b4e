"""10,000 due feeds over 1,000 hosts that answer 304: polls per CPU second, memory, politeness, spread.

The hosts are 1,000 addresses of 127.0.0.0/8 served by one other process; the ingestor is the real one, started as a
user would. Beside it, in the same run, a bare aiohttp loop that asks for the same URLs and does nothing else.

    python -m bench.polling [--feeds N] [--hosts N] [--gap SECONDS]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from bench.harness import Figures, addresses, measured, serving
from core import ids
from core.feeds.feed_state import FeedState, FeedStatus, to_hash
from core.keys import Keys
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded

ROOT = Path(__file__).resolve().parents[1]
BODY = b'<rss version="2.0"><channel><title>t</title><item><link>http://example.com/1</link></item></channel></rss>'
ETAG = '"same"'


# ── the web: a raw server, so that it is not the bottleneck ──


async def serve(hosts: list[str]) -> dict[str, object]:
    """Answer 304 to validators and 200 otherwise; note when each host was asked and how many at once."""
    asked: dict[str, list[float]] = {}
    busy: dict[str, int] = {}
    most: dict[str, int] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                asked.setdefault(host, []).append(time.monotonic())
                busy[host] = busy.get(host, 0) + 1
                most[host] = max(most.get(host, 0), busy[host])
                await asyncio.sleep(0)
                if b"if-none-match" in head.lower():
                    writer.write(b"HTTP/1.1 304 Not Modified\r\nETag: " + ETAG.encode() + b"\r\n\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY))
                await writer.drain()
                busy[host] -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, hosts, 0, backlog=1024)
    ports = {sock.getsockname()[0]: sock.getsockname()[1] for sock in server.sockets}
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    gaps = [b - a for times in asked.values() for a, b in itertools.pairwise(times)]
    return {"requests": sum(map(len, asked.values())), "gaps": gaps, "most": max(most.values(), default=0)}


# ── the store: feeds that were polled before and are due ──


async def fill(settings: Settings, urls: list[str]) -> None:
    client, keys = connect.open_store(settings), Keys()
    now = await connect.now(client)
    await client.sadd(keys.categories, "bench")
    for start in range(0, len(urls), 1000):
        pipe = client.pipeline(transaction=False)
        for url in urls[start : start + 1000]:
            state = FeedState(
                url,
                status=FeedStatus.OK,
                polls=9,
                etag=ETAG,
                validators_url=url,
                body_hash=ids.body_hash(BODY),
                renewed_ts=now,
                last_poll_ts=now - 3600,
            )
            pipe.sadd(keys.feeds("bench"), url)
            pipe.hset(keys.feed(ids.feed_id(url)), mapping=to_hash(state, ["bench"]))
            pipe.zadd(keys.feeds_due, {ids.feed_id(url): 0})
        await pipe.execute()
    await client.aclose()


async def next_polls(settings: Settings) -> list[float]:
    client = connect.open_store(settings)
    scores = [score for _, score in await client.zrange(Keys().feeds_due, 0, -1, withscores=True)]
    await client.aclose()
    return scores


# ── the two contestants, each a process of its own ──


async def bare(urls: list[str]) -> None:
    """The least anybody could do: ask for every URL with its validator."""
    gate = asyncio.Semaphore(100)
    async with aiohttp.ClientSession() as session:

        async def ask(url: str) -> None:
            async with gate, session.get(url, headers={"If-None-Match": ETAG}) as response:
                assert response.status == 304

        await asyncio.gather(*map(ask, urls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--feeds", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--gap", type=float, default=2.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        Path(given.serve).write_text(json.dumps(asyncio.run(serve(addresses(given.hosts)))))
    elif given.bare:
        asyncio.run(bare(json.loads(Path(given.bare).read_text())))
    else:
        with tempfile.TemporaryDirectory() as folder:
            compare(given.feeds, given.hosts, given.gap, Path(folder))


def running_web(hosts: int, report: Path) -> contextlib.AbstractContextManager[dict[str, int]]:
    """The web in its own process; it leaves its report when it ends."""
    return serving("bench.polling", "--hosts", str(hosts), "--serve", str(report))


def feed_urls(ports: dict[str, int], feeds: int) -> list[str]:
    """Feeds dealt to the hosts in turn."""
    rounds = range(feeds // len(ports))
    return [f"http://{host}:{port}/feed/{n}" for n in rounds for host, port in ports.items()]


def freshet(feeds: int, hosts: int, gap: float, folder: Path) -> tuple[Figures, dict[str, Any], list[float]]:
    """The real ingestor on a store full of due feeds: its figures, what the hosts saw, the next polls."""
    server = embedded.start(folder / "redis", embedded.free_port(0))
    settings = Settings(redis_url=SecretStr(server.url))
    environment = {
        "REDIS_URL": server.url,
        "PERSISTENT_STORAGE_PATH": str(folder),
        "FEEDS_FILE": str(folder / "none.toml"),
        "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
        "FETCH_HOST_GAP_SECONDS": str(gap),
        "LOG_LEVEL": "WARNING",
    }
    with running_web(hosts, folder / "report.json") as ports:
        asyncio.run(fill(settings, feed_urls(ports, feeds)))
        figures = measured("workers.ingestor", "--once", **environment)
    scores = asyncio.run(next_polls(settings))
    server.stop()
    return figures, json.loads((folder / "report.json").read_text()), scores


def bare_loop(feeds: int, hosts: int, folder: Path) -> Figures:
    """The bare loop on the same number of feeds."""
    listed = folder / "urls.json"
    with running_web(hosts, folder / "bare.json") as ports:
        listed.write_text(json.dumps(feed_urls(ports, feeds)))
        return measured("bench.polling", "--bare", str(listed))


def compare(feeds: int, hosts: int, gap: float, folder: Path) -> None:
    """Run both and print the table."""
    ours, seen, scores = freshet(feeds, hosts, gap, folder)
    bare_figures = bare_loop(feeds, hosts, folder)
    print(f"\n{feeds:,} due feeds over {hosts:,} hosts that answer 304, gap {gap:g} s")
    print(f"{'':24}{'polls/CPU-s':>12}{'CPU s':>8}{'wall s':>8}{'peak MB':>9}")
    for name, took in (("freshet ingestor", ours), ("bare aiohttp loop", bare_figures)):
        cpu, wall = took.cpu_seconds, took.wall_seconds
        print(f"{name:24}{feeds / cpu:12.0f}{cpu:8.1f}{wall:8.1f}{took.peak_mb:9.0f}")
    print(f"ratio freshet/bare, polls per CPU second: {bare_figures.cpu_seconds / ours.cpu_seconds:.2f}")
    early = sum(seconds < gap * 0.95 for seconds in seen["gaps"])
    closest = min(seen["gaps"], default=gap)
    print(f"requests seen by the hosts: {seen['requests']}; most at once at one host: {seen['most']}")
    print(f"gaps below 95 % of the limit: {early}; the smallest {closest:.2f} s")
    spread, deviation = max(scores) - min(scores), statistics.pstdev(scores)
    print(f"next polls spread over {spread:.0f} s (standard deviation {deviation:.0f} s)")


if __name__ == "__main__":
    main()
