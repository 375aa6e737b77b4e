"""Nothing new among a million known links: what a run of the canonical fetcher costs us and the server.

Beside it, in the same run, the obvious way: SMEMBERS of both sets and a difference of Python sets.

    python -m bench.noop [--links N] [--categories N]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

import redis

from bench.harness import Figures, measured
from core import ids
from core.keys import Keys
from core.store import embedded

KEYS = Keys()


def fill(client: redis.Redis, links: int, categories: int) -> None:
    """Link sets with stamps, every link attempted."""
    now = time.time() - 86_400  # seen yesterday, as nearly all links of a large store
    for start in range(0, links, 10_000):
        pipe = client.pipeline(transaction=False)
        for category in range(categories):
            numbers = range(start + category, min(start + 10_000, links), categories)
            urls = [f"https://www.example{n % 1000}.org/news/2026/11/some-story-{n}.html" for n in numbers]
            if urls:
                pipe.sadd(KEYS.category_links(f"c{category}"), *urls)
                pipe.zadd(KEYS.category_links_seen(f"c{category}"), dict.fromkeys(urls, now))
                uids = [ids.article_uid(url) for url in urls]
                pipe.sadd(KEYS.attempted, *uids)
                pipe.zadd(KEYS.attempted_at, dict.fromkeys(uids, now))
        pipe.execute()
    client.sadd(KEYS.categories, *(f"c{n}" for n in range(categories)))


def longest_ping(url: str, stop: threading.Event, worst: list[float]) -> None:
    """What somebody else on the server feels meanwhile."""
    with redis.Redis.from_url(url) as client:
        while not stop.is_set():
            began = time.perf_counter()
            client.ping()
            worst[0] = max(worst[0], time.perf_counter() - began)
            time.sleep(0.001)


def watched(url: str, *command: str, **environment: str) -> tuple[Figures, float]:
    """A process's figures, and the longest PING while it ran, in milliseconds."""
    stop, worst = threading.Event(), [0.0]
    watcher = threading.Thread(target=longest_ping, args=(url, stop, worst))
    watcher.start()
    try:
        return measured(*command, REDIS_URL=url, **environment), worst[0] * 1000
    finally:
        stop.set()
        watcher.join()


def naive(url: str) -> None:
    """Read both sets whole."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        attempted = client.smembers(KEYS.attempted)
        links = {
            link for name in client.smembers(KEYS.categories) for link in client.smembers(KEYS.category_links(name))
        }
        print(len([link for link in links if ids.article_uid(link) not in attempted]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--categories", type=int, default=4)
    parser.add_argument("--naive", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.naive:
        naive(given.naive)
        return
    with tempfile.TemporaryDirectory() as folder:
        server = embedded.start(Path(folder) / "redis", embedded.free_port(0))
        try:
            compare(server.url, folder, given.links, given.categories)
        finally:
            server.stop()


def compare(url: str, folder: str, links: int, categories: int) -> None:
    with redis.Redis.from_url(url) as client:
        fill(client, links, categories)
    ours = watched(url, "workers.canonical_fetcher", PERSISTENT_STORAGE_PATH=folder, LOG_LEVEL="WARNING")
    theirs = watched(url, "bench.noop", "--naive", url)
    with redis.Redis.from_url(url, decode_responses=True) as client:
        seen = client.hgetall(KEYS.canonical_last_run)
    assert (seen["known"], seen["new"]) == (str(links), "0"), json.dumps(seen)
    print(f"\n{links:,} known links in {categories} categories, nothing new")
    print(f"{'':24}{'peak MB':>9}{'CPU s':>8}{'wall s':>8}{'longest PING ms':>17}")
    for name, (took, stall) in (("canonical fetcher", ours), ("SMEMBERS of both", theirs)):
        print(f"{name:24}{took.peak_mb:9.0f}{took.cpu_seconds:8.1f}{took.wall_seconds:8.1f}{stall:17.1f}")
    print(f"stall: {ours[1] / theirs[1]:.2f} of the SMEMBERS way; memory: {ours[0].peak_mb / theirs[0].peak_mb:.2f}")


if __name__ == "__main__":
    main()
