"""Links to stored articles: Freshet beside Scrapy and beside a sequential loop, in one run.

Real pages (the article corpus beside the checkout; made-up ones without it) are served gzipped from another
process on many loopback addresses. CPU seconds count the process and its children, from their start to their end, not
the servers. Contestants take turns; the figures are medians. Each must have stored all pages, with the same fields and
much the same words.

    python -m bench.articles [--pages N] [--hosts N] [--delay SECONDS] [--repetitions N] [--sequential N]
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import redis

from bench.harness import ROOT, Figures, addresses, measured, serving
from core.keys import Keys
from core.store import embedded

FIELDS = ("title", "clean_text", "abstract", "image", "author", "language", "canonical_url", "content_hash", "url")
"""What every contestant stores, beside the time of publication, which each has under its own name."""
SAME_WORDS = 0.8
"""Of a page's text at the median: how many of our words the other text has too."""
CORPUS = ROOT.parent / "shared" / "data" / "articles" / "corpus-aeb.json.gz"


def bodies() -> list[bytes]:
    """Pages as publishers served them."""
    if CORPUS.is_file():
        pages = json.loads(gzip.decompress(CORPUS.read_bytes()))["pages"].values()
        return [page["html"].encode() for page in pages]
    paragraph = (
        "<p>" + "The river rose a hand's breadth overnight and fell again by noon, the warden said. " * 6 + "</p>"
    )
    return [f"<html lang=en><head><title>River</title></head><body><article>{paragraph * 12}</article></body>".encode()]


async def serve(hosts: list[str], delay: float) -> None:
    """Page n is body n of the corpus with its number in each paragraph, so that no two are the same text."""
    plain = bodies()
    packed: dict[int, bytes] = {}

    def page(number: int) -> bytes:
        if number not in packed:
            body = plain[number % len(plain)].replace(b"</p>", b" (copy %d)</p>" % number)
            packed[number] = gzip.compress(body, 1)
        return packed[number]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1]
                if path == b"/robots.txt":
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                await asyncio.sleep(delay)
                body = page(int(path.rpartition(b"/")[2]))
                kind = b"Content-Type: text/html; charset=utf-8\r\nContent-Encoding: gzip\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (kind, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, hosts, 0, backlog=1024)
    print(json.dumps({sock.getsockname()[0]: sock.getsockname()[1] for sock in server.sockets}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


Stored = Mapping[str, Mapping[str, str]]


class Track:
    """One server of pages and one Redis server, emptied for each contestant."""

    def __init__(self, ports: dict[str, int], pages: int, folder: Path, redis_url: str) -> None:
        hosts = list(ports.items())
        self.urls = [f"http://{hosts[n % len(hosts)][0]}:{hosts[n % len(hosts)][1]}/{n}" for n in range(pages)]
        self.folder = folder
        self.redis_url = redis_url
        self.listed = folder / "urls.json"
        self.listed.write_text(json.dumps(self.urls))

    def freshet(self, *, main_text: bool) -> tuple[Figures, Stored]:
        """The real canonical fetcher, on a link set that somebody filled."""
        with redis.Redis.from_url(self.redis_url, decode_responses=True) as client:
            client.flushall()
            client.sadd(Keys().category_links("bench"), *self.urls)
            took = measured(
                "workers.canonical_fetcher",
                REDIS_URL=self.redis_url,
                PERSISTENT_STORAGE_PATH=str(self.folder),
                FETCH_ALLOWED_HOSTS="127.0.0.0/8",
                FETCH_HOST_GAP_SECONDS="0",
                MAIN_TEXT=str(main_text).lower(),
                LOG_LEVEL="WARNING",
            )
            return took, stored(client, Keys().article)

    def peer(self, who: str, *, main_text: bool) -> tuple[Figures, Stored]:
        """Another way to do the same."""
        with redis.Redis.from_url(self.redis_url, decode_responses=True) as client:
            client.flushall()
            extra = ["--main-text"] if main_text else []
            took = measured("bench.peers", who, str(self.listed), self.redis_url, *extra)
            return took, stored(client, "peer:article:{}".format)


def stored(client: redis.Redis, key: Callable[[str], str]) -> Stored:
    """What was stored, by address."""
    names = list(client.scan_iter(match=key("*"), count=1000))
    articles = (client.hgetall(name) for name in names)
    return {fields["url"]: fields for fields in articles}


def check_equal(ours: Stored, peers: Stored, wanted: int) -> None:
    """Stop where one of them did less: pages, fields or words."""
    assert len(peers) == wanted, f"the peer stored {len(peers)} of {wanted} pages"
    assert len(ours) >= 0.97 * wanted, f"we stored {len(ours)} of {wanted} pages"  # some are walls or empty
    for fields in (*ours.values(), *peers.values()):
        assert set(FIELDS) <= set(fields), set(FIELDS) - set(fields)
    both = ours.keys() & peers.keys()
    words = {url: (set(ours[url]["clean_text"].split()), set(peers[url]["clean_text"].split())) for url in both}
    shares = [len(mine & theirs) / len(mine) for mine, theirs in words.values() if mine and theirs]
    assert statistics.median(shares) >= SAME_WORDS, f"only {statistics.median(shares):.2f} of our words are theirs"


def medians(rounds: list[tuple[Figures, Stored]]) -> tuple[Figures, int]:
    took = [figures for figures, _ in rounds]
    cpu, wall, peak = ((one.cpu_seconds for one in took), (one.wall_seconds for one in took), (o.peak_mb for o in took))
    return Figures(*map(statistics.median, (cpu, wall, peak))), len(rounds[0][1])


def print_ratios(title: str, ours: tuple[Figures, int], peer: tuple[Figures, int], name: str) -> None:
    print(f"\n{title}")
    print(f"{'':34}{'stored':>8}{'per CPU-s':>11}{'per s':>9}{'peak MB':>9}")
    for who, (took, stored) in (("freshet", ours), (name, peer)):
        rate, pace = stored / took.cpu_seconds, stored / took.wall_seconds
        print(f"{who:34}{stored:8}{rate:11.1f}{pace:9.1f}{took.peak_mb:9.0f}")
    cpu = (ours[1] / ours[0].cpu_seconds) / (peer[1] / peer[0].cpu_seconds)
    wall = (ours[1] / ours[0].wall_seconds) / (peer[1] / peer[0].wall_seconds)
    print(f"freshet is {cpu:.2f}x per CPU second, {wall:.2f}x by the clock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--delay", type=float, default=0.1)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--sequential", type=int, default=150, help="pages of the sequential loop, which is slow")
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(addresses(given.hosts), given.serve))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = embedded.start(folder / "redis", embedded.free_port(0))
        try:
            compare(given, folder, server.url)
        finally:
            server.stop()


def compare(given: argparse.Namespace, folder: Path, redis_url: str) -> None:
    """All pairs; within a pair the two take turns."""
    web, pages = ("bench.articles", "--hosts", str(given.hosts), "--serve"), given.pages
    with serving(*web, "0") as ports:
        track = Track(ports, pages, folder, redis_url)
        track.freshet(main_text=True)  # both servers warm
        for main_text, peer in ((True, "Scrapy + trafilatura"), (False, "Scrapy + BeautifulSoup")):
            ours, theirs = [], []
            for _ in range(given.repetitions):
                ours.append(track.freshet(main_text=main_text))
                theirs.append(track.peer("scrapy", main_text=main_text))
            check_equal(ours[0][1], theirs[0][1], pages)
            title = f"{pages} real pages, {'main text' if main_text else 'all text'}, median of {given.repetitions}"
            print_ratios(title, medians(ours), medians(theirs), peer)
    with serving(*web, str(given.delay)) as ports:
        for main_text in (True, False):
            title = f"{pages} real pages, server delay {given.delay:g} s, {'main text' if main_text else 'all text'}"
            # The loop takes minutes and its pace does not depend on how many pages there are.
            sequential = Track(ports, given.sequential, folder, redis_url).peer("sequential", main_text=main_text)
            ours = Track(ports, pages, folder, redis_url).freshet(main_text=main_text)
            print_ratios(title, medians([ours]), medians([sequential]), "a sequential loop")


if __name__ == "__main__":
    main()
