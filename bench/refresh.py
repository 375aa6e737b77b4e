"""Refresh of a documentation site: Freshet beside a bare aiohttp loop that sends the same requests, in one run.

A server in another process has a root, sections and pages with ETags, and counts what it is asked. CPU seconds count
the client and its children, start-up included on both sides.

    python -m bench.refresh [--pages N] [--changed PERCENT]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

import redis

from bench.harness import Figures, measured, serving
from core.keys import Keys
from core.store import embedded

PER_SECTION = 100
WORDS = "The gauge reads the height of the river every ten minutes and sends it down the valley to the office. "
SID = "bench.site"


# ── the site ──


class Site:
    """Root → sections → pages; version of a page changes its text and ETag."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.version: dict[int, int] = {}
        self.requests = 0
        self.sent = 0
        self.bodies = 0

    def body(self, path: str) -> tuple[str, str] | None:
        sections = range((self.pages + PER_SECTION - 1) // PER_SECTION)
        if path == "/":
            return "root", self._page("Home", "".join(f'<li><a href="/s{n}">Section {n}</a>' for n in sections))
        if path.startswith("/s") and path[2:].isdigit() and int(path[2:]) in sections:
            first = int(path[2:]) * PER_SECTION
            listed = range(first, min(first + PER_SECTION, self.pages))
            return path, self._page(path, "".join(f'<li><a href="/p{n}">Page {n}</a>' for n in listed))
        if path.startswith("/p") and path[2:].isdigit() and int(path[2:]) < self.pages:
            number = int(path[2:])
            version = self.version.get(number, 0)
            menu = f'<li><a href="/">Home</a><li><a href="/s{number // PER_SECTION}">Up</a>'
            return f"{number}-{version}", self._page(f"Page {number}", menu, f"Number {number}, version {version}. ")
        return None

    def _page(self, title: str, menu: str, text: str = "") -> str:
        body = f"<p>{text}{WORDS * 6}</p>" * 40
        return (
            f"<!doctype html><html lang=en><head><title>{title}</title></head><body><nav><ul>{menu}</ul></nav>"
            f"<main><h1>{title}</h1>{body}</main></body></html>"
        )

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                writer.write(self._reply(head))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _reply(self, head: bytes) -> bytes:
        path = head.split(b" ", 2)[1].decode()
        if path.startswith("/stats"):
            told = json.dumps({"requests": self.requests, "sent": self.sent, "bodies": self.bodies}).encode()
            self.requests = self.sent = self.bodies = 0
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told)
        if path.startswith("/change/"):
            for number in range(0, self.pages, int(path.rpartition("/")[2])):
                self.version[number] = self.version.get(number, 0) + 1
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        self.requests += 1
        reply = self._page_reply(path, head)
        self.sent += len(reply)
        return reply

    def _page_reply(self, path: str, head: bytes) -> bytes:
        found = self.body(path)
        if found is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        etag = f'"{found[0]}"'.encode()
        if b"if-none-match: " + etag in head.replace(b"If-None-Match", b"if-none-match"):
            return b"HTTP/1.1 304 Not Modified\r\nETag: %b\r\n\r\n" % etag
        self.bodies += 1
        body = found[1].encode()
        kind = b"Content-Type: text/html; charset=utf-8\r\n"
        return b"HTTP/1.1 200 OK\r\n%bETag: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, etag, len(body), body)


async def serve(pages: int) -> None:
    server = await asyncio.start_server(Site(pages).answer, "127.0.0.1", 0, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


# ── the contestants ──


class Track:
    """One site and one Redis server."""

    def __init__(self, port: int, folder: Path, redis_url: str) -> None:
        self.root = f"http://127.0.0.1:{port}/"
        self.folder = folder
        self.environment = {
            "REDIS_URL": redis_url,
            "PERSISTENT_STORAGE_PATH": str(folder),
            "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
            "FETCH_HOST_GAP_SECONDS": "0",
            "LOG_LEVEL": "WARNING",
        }
        self.client = redis.Redis.from_url(redis_url, decode_responses=True)

    def run(self, *command: str) -> Figures:
        return measured(*command, **self.environment)

    def stats(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.root}stats") as answer:
            return json.load(answer)

    def change_every(self, step: int) -> None:
        urllib.request.urlopen(f"{self.root}change/{step}").close()

    def add(self, pages: int) -> None:
        source = {"id": "site", "url": self.root, "scope": "host", "max_pages": 2 * pages + 1000}
        path = self.folder / "domain.json"
        path.write_text(json.dumps({"id": "bench", "web_sources": [source]}))
        self.run("scripts.domain", "add", str(path))

    def crawl(self) -> Figures:
        return self.run("scripts.domain", "crawl", "bench")

    def by_jobs(self) -> Figures:
        """The way it goes every day: the timer picks, RQ workers visit."""
        keys = Keys()
        for item_id in self.client.zrange(keys.refs(SID), 0, -1):
            self.client.zadd(keys.due(SID), {item_id: 0})
        timer = self.run("workers.timer", "--once")
        worker = self.run("workers", "refresh", "--burst")
        return Figures(timer.cpu_seconds + worker.cpu_seconds, timer.wall_seconds + worker.wall_seconds, worker.peak_mb)

    def bare(self) -> Figures:
        keys, asked = Keys(), []
        for item_id in self.client.zrange(keys.refs(SID), 0, -1):
            asked.append(self.client.hmget(keys.item(item_id), ["fetchUrl", "httpEtag"]))
        listed = self.folder / "asked.json"
        listed.write_text(json.dumps(asked))
        return self.run("bench.bare_loop", str(listed))


def told(name: str, took: Figures, stats: dict[str, int], pages: int) -> None:
    each, size = 1000 * took.cpu_seconds / pages, stats["sent"] / max(stats["requests"], 1)
    print(
        f"{name:30}{took.cpu_seconds:8.2f} CPU-s{each:8.2f} ms each{took.peak_mb:7.0f} MB"
        f"{stats['requests']:9} requests{stats['bodies']:7} bodies{size:8.0f} B each"
    )


def compare(track: Track, pages: int, changed: float) -> None:
    total = pages + (pages + PER_SECTION - 1) // PER_SECTION + 1
    track.add(pages)
    first = track.crawl()
    told("first crawl", first, track.stats(), total)
    again, stats = track.crawl(), track.stats()
    told("again, nothing changed", again, stats, total)
    if stats["bodies"]:  # the version of the extractor changed between the two, as when the code is updated meanwhile
        sys.exit("The pages were sent whole, so this was no refresh by 304: start again.")
    bare_loop = track.bare()
    told("bare aiohttp loop", bare_loop, track.stats(), total)
    jobs = track.by_jobs()
    stats = track.stats()
    told("by timer and RQ worker", jobs, stats, total)
    if stats["bodies"]:
        sys.exit("The jobs were sent whole pages, so this was no refresh by 304: start again.")
    print(
        f"a refresh without changes costs {again.cpu_seconds / bare_loop.cpu_seconds:.2f}x the bare loop "
        f"(by jobs {jobs.cpu_seconds / bare_loop.cpu_seconds:.2f}x), the first crawl "
        f"{first.cpu_seconds / again.cpu_seconds:.1f}x a refresh"
    )
    if changed:
        step = round(100 / changed)
        track.change_every(step)
        some = track.crawl()
        stats = track.stats()
        told(f"{changed:g} % changed", some, stats, total)
        last = track.client.hgetall(Keys().run(track.client.zrange(Keys().runs, -1, -1)[0]))
        print(f"changed {last['changed']}, unchanged {last['unchanged']}, bodies sent {stats['bodies']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--changed", type=float, default=2.0)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(given.serve))
    else:
        with tempfile.TemporaryDirectory() as name, serving("bench.refresh", "--serve", str(given.pages)) as ports:
            server = embedded.start(Path(name) / "redis", embedded.free_port(0))
            try:
                compare(Track(ports["port"], Path(name), server.url), given.pages, given.changed)
            finally:
                server.stop()


if __name__ == "__main__":
    main()
