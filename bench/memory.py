"""Does the canonical fetcher's memory stay flat? The same run with few and with many articles.

python -m bench.memory [--few 1000] [--many 50000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

import redis

from bench.harness import Figures, addresses, measured, serving
from core.keys import Keys
from core.store import embedded

HOSTS = 50
SENTENCE = "The river rose a hand overnight and fell again by noon, the warden of the lower lock said on story {n}. "


async def serve() -> None:
    """A small article for any path."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1]
                if path == b"/robots.txt":
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                text = SENTENCE.format(n=path.decode()) * 6
                body = f"<html lang=en><title>{path.decode()}</title><article>{f'<p>{text}</p>' * 8}".encode()
                kind = b"Content-Type: text/html; charset=utf-8\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (kind, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, addresses(HOSTS), 0, backlog=1024)
    print(json.dumps({sock.getsockname()[0]: sock.getsockname()[1] for sock in server.sockets}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def fetched(ports: dict[str, int], count: int, folder: Path, url: str) -> tuple[Figures, float]:
    """The figures of one run over that many new links, and the bytes in Redis per article."""
    hosts = list(ports.items())
    links = [f"http://{hosts[n % HOSTS][0]}:{hosts[n % HOSTS][1]}/{n}" for n in range(count)]
    with redis.Redis.from_url(url) as client:
        client.flushall()
        empty = client.info("memory")["used_memory"]
        for start in range(0, count, 5_000):
            client.sadd(Keys().category_links("bench"), *links[start : start + 5_000])
        took = measured(
            "workers.canonical_fetcher",
            REDIS_URL=url,
            PERSISTENT_STORAGE_PATH=str(folder),
            FETCH_ALLOWED_HOSTS="127.0.0.0/8",
            FETCH_HOST_GAP_SECONDS="0",
            MAIN_TEXT="false",
            LOG_LEVEL="WARNING",
            CANONICAL_BUDGET_SECONDS="3600",
        )
        assert client.zcard(Keys().article_index) == count, client.hgetall(Keys().canonical_last_run)
        return took, (client.info("memory")["used_memory"] - empty) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=50_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = embedded.start(folder / "redis", embedded.free_port(0))
        with serving("bench.memory", "--serve") as ports:
            print(f"{'articles':>10}{'peak MB':>9}{'per CPU-s':>11}{'bytes each in Redis':>21}")
            for count in (given.few, given.many):
                took, size = fetched(ports, count, folder, server.url)
                print(f"{count:10,}{took.peak_mb:9.0f}{count / took.cpu_seconds:11.0f}{size:21,.0f}")
        server.stop()


if __name__ == "__main__":
    main()
