"""Workers on several hosts with one Redis: how the throughput of the canonical fetcher grows with hosts.

Each host is a network namespace with a fetcher of few connections; the web takes 100 ms for every page, so that waiting
and not this machine's cores decides. Counts pages per second while all hosts are at work, and asserts that no page was
asked for twice and that every page became an article.

    python -m bench.hosts [--pages N] [--hosts N] [--connections N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import redis.asyncio as redis

from bench.harness import machine, table
from bench.namespaces import HUB, Host, missing, open_hosts
from bench.web import page_body
from core.keys import Keys
from core.store import embedded

DELAY_SECONDS = 0.1
WEBS = 16
PORT = 8080
FETCHER = [sys.executable, "-m", "workers.canonical_fetcher"]


@dataclass
class SlowWeb:
    """A web whose every page takes a while; it remembers who asked for what, and when."""

    addresses: list[str]
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    """When, by which address, for which page."""

    def url(self, number: int) -> str:
        return f"http://{self.addresses[number % len(self.addresses)]}:{PORT}/page/{number}"

    def counts(self) -> Counter[str]:
        """How often each page was asked for."""
        return Counter(page for _, _, page in self.asked)

    @property
    def pages_per_second(self) -> float:
        """While all hosts were at work: from when the last began until the first was done."""
        by_host: dict[str, list[float]] = {}
        for moment, host, _ in self.asked:
            by_host.setdefault(host, []).append(moment)
        begin, end = max(map(min, by_host.values())), min(map(max, by_host.values()))
        return sum(begin < moment <= end for moment, _, _ in self.asked) / (end - begin)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for address in self.addresses:
                server = await asyncio.start_server(self._answer, address, PORT)
                await stack.enter_async_context(server)
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                status, body = b"404 Not Found", b""
                if path.startswith("/page/"):
                    self.asked.append((time.monotonic(), writer.get_extra_info("peername")[0], path))
                    await asyncio.sleep(DELAY_SECONDS)
                    status, body = b"200 OK", page_body(int(path.rpartition("/")[2]))
                kind = b"Content-Type: text/html\r\n"
                writer.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, kind, len(body), body))
                await writer.drain()
        writer.close()


@contextlib.contextmanager
def shared_redis(folder: Path) -> Iterator[str]:
    """A server that all hosts reach; its URL."""
    password = secrets.token_hex(16)
    port = embedded.free_port(0)
    server = embedded.start(folder, port, password, options={"bind": "0.0.0.0", "protected-mode": "no"})
    try:
        yield f"redis://:{password}@{HUB}:{port}/0"
    finally:
        server.stop()


def environment(url: str, folder: Path, connections: int) -> dict[str, str]:
    """What a worker on a host is told."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "REDIS_URL": url,
        "PERSISTENT_STORAGE_PATH": str(folder),
        "FEEDS_FILE": str(folder / "feeds.toml"),
        "FETCH_ALLOWED_HOSTS": "10.77.0.0/16",
        "FETCH_HOST_GAP_SECONDS": "0",
        "FETCH_CONCURRENCY": str(connections),
        "EMBEDDER": "none",
        "LOG_LEVEL": "INFO",
    }


async def fetch_all(hosts: list[Host], web: SlowWeb, url: str, pages: int, connections: int, folder: Path) -> float:
    """Let these hosts fetch so many new pages together; pages per second."""
    keys, web.asked = Keys(), []
    async with redis.Redis.from_url(url, decode_responses=True) as client:
        await client.flushall()
        await client.sadd(keys.category_links("news"), *map(web.url, range(pages)))
        running = []
        for host in hosts:
            own = folder / host.name
            own.mkdir(exist_ok=True)
            running.append(host.start(FETCHER, environment(url, own, connections), own / "log"))
        codes = [await asyncio.to_thread(process.wait) for process in running]
        stored = await client.zcard(keys.article_index)
    assert codes == [0] * len(hosts), (folder, codes)
    assert stored == pages, (stored, pages)
    assert set(web.counts().values()) == {1}, "a page was fetched twice"
    shares = Counter(host for _, host, _ in web.asked)
    print(f"{len(hosts)} hosts: {web.pages_per_second:.1f} pages/s, by host {sorted(shares.values())}", flush=True)
    return web.pages_per_second


async def compare(arguments: argparse.Namespace, folder: Path) -> None:
    with open_hosts(arguments.hosts, WEBS) as (hosts, addresses), shared_redis(folder / "redis") as url:
        web = SlowWeb(addresses)
        rates: dict[int, list[float]] = {1: [], arguments.hosts: []}
        async with web.serving():
            for _ in range(arguments.times):  # in turns: the machine has other things to do
                for count, measured in rates.items():
                    pages = arguments.pages * count
                    measured.append(await fetch_all(hosts[:count], web, url, pages, arguments.connections, folder))
    best = {count: max(measured) for count, measured in rates.items()}
    rows = [[str(count), f"{rate:.1f}", f"{rate / best[1]:.2f}x"] for count, rate in best.items()]
    print(machine())
    print(table(["hosts", "pages/s", "of one host"], rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=200, help="for each host")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--connections", type=int, default=1, help="of each host")
    parser.add_argument("--times", type=int, default=2)
    arguments = parser.parse_args()
    if reason := missing():
        print(f"Not measured: {reason}.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(arguments, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
