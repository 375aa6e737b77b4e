"""The registry at size: does memory stay flat, and what does it cost to pick what is due?

A registry is filled by hand with pages of a server that answers 304 to everything; then timer and RQ worker refresh
all of it. The pick is measured over a million due items.

    python -m bench.registry [--items N,N] [--due N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

import redis

from bench.harness import measured, serving, spending
from core import ids
from core.keys import Keys
from core.pages.extraction_result import EXTRACTOR_VERSION
from core.registry.blank_record import blank_record
from core.registry.io.due import DueItems, HostShares
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.store import connect, embedded

KEYS = Keys()
SID = "bench.site"


async def serve() -> None:
    """304 to everything but robots.txt."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                is_page = head.split(b" ", 2)[1].startswith(b"/p")
                reply = b'304 Not Modified\r\nETag: "1"' if is_page else b"404 Not Found\r\nContent-Length: 0"
                writer.write(b"HTTP/1.1 " + reply + b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def fill(client: redis.Redis, root: str, count: int) -> None:
    """A site of so many pages, all read before and all due."""
    client.flushall()
    config = parse_domain(
        json.dumps({"id": "bench", "web_sources": [{"id": "site", "url": root, "scope": "host"}]}), "/"
    )
    client.sadd(KEYS.sources, SID)
    client.hset(KEYS.source(SID), mapping={"config": config.sources()[0].to_json(), "links_dirty": "0"})
    client.zadd(KEYS.sources_due, {SID: 4e9})
    pipe = client.pipeline(transaction=False)
    for number in range(count):
        url = f"{root}p{number}"
        record = blank_record(url, url, 1.0) | {
            "status": "Crawled",
            "sources": SID,
            "httpEtag": '"1"',
            "validatorsUrl": url,
            "extractorVersion": EXTRACTOR_VERSION,
            "contentHash": "0" * 64,
            "bodyHash": "1" * 64,
            "mimeType": "text/html",
            "language": "en",
        }
        pipe.hset(KEYS.item(record["id"]), mapping=record)
        pipe.hset(KEYS.document(record["id"]), mapping={"markdown": "text", "content_hash": "0" * 64})
        pipe.sadd(KEYS.status("Crawled"), record["id"])
        pipe.zadd(KEYS.refs(SID), {record["id"]: 1})
        pipe.zadd(KEYS.due(SID), {record["id"]: number / 1e9})
        if number % 2_000 == 0:
            pipe.execute()
    pipe.execute()


def refreshed(client: redis.Redis, environment: dict[str, str], count: int) -> None:
    """Timer and worker in turn until nothing is due; the largest process of all."""
    cpu, peak, rounds = 0.0, 0.0, 0
    while client.zcount(KEYS.due(SID), "-inf", 1e9):
        for command in (("workers.timer", "--once"), ("workers", "refresh", "--burst")):
            took = measured(*command, **environment)
            cpu, peak = cpu + took.cpu_seconds, max(peak, took.peak_mb)
        rounds += 1
    done = int(client.hget(KEYS.refresh_stats, "unchanged") or 0)
    each = 1000 * cpu / count
    print(
        f"{count:9} items: {done} unchanged, {cpu:6.1f} CPU-s, {each:.2f} ms each, peak {peak:.0f} MB, {rounds} rounds"
    )


async def pick(client: redis.Redis, url: str, count: int) -> None:
    """CPU of one pick of a thousand."""
    client.flushall()
    pipe = client.pipeline(transaction=False)
    for start in range(0, count, 10_000):
        names = {ids.item_id("url", f"https://h{n % 500}.example/{n}"): float(n) for n in range(start, start + 10_000)}
        pipe.zadd(KEYS.due(SID), names)
        for place, name in enumerate(names if start == 0 else ()):  # the oldest, whose hosts are looked at
            pipe.hset(KEYS.item(name), "sourceHost", f"h{place % 500}.example")
        pipe.execute()
    async with connect.open_store(Settings(redis_url=url)) as store:
        due = DueItems(store, KEYS)
        await due.count(SID, 1e9)
        with spending(client) as spent:
            picked = await due.pick(SID, 1e9, 1_000, 900.0, shares=HostShares(48))
    ours = f"{1000 * spent.cpu_seconds:.1f} ms of our CPU"
    servers = f"{1000 * spent.server_cpu_seconds:.1f} ms of the server's"
    print(f"{count:9} due: {len(picked)} picked, {ours}, {servers}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", default="10000,100000")
    parser.add_argument("--due", type=int, default=1_000_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve())
        return
    with tempfile.TemporaryDirectory() as name, serving("bench.registry", "--serve") as ports:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        environment = {
            "REDIS_URL": server.url,
            "PERSISTENT_STORAGE_PATH": name,
            "LOG_LEVEL": "WARNING",
            "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
            "FETCH_HOST_GAP_SECONDS": "0",
        }
        try:
            with redis.Redis.from_url(server.url, decode_responses=True) as client:
                asyncio.run(pick(client, server.url, given.due))
                for count in map(int, given.items.split(",")):
                    fill(client, f"http://127.0.0.1:{ports['port']}/", count)
                    refreshed(client, environment, count)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
