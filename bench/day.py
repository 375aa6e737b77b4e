"""A day of traffic, compressed: polls, changed feeds, new articles, refreshes, embedding; `./scripts/bench day`

First what each of them costs (`bench/results/units.json`): every kind of work at two sizes, the difference is what one
more costs, the rest is the start of the processes. Then a day in the proportions of `capacity.Traffic`, in four parts,
by the real processes with real pages on loopback. Then the prediction of `bench/capacity.py` from these costs beside
what was measured; the goal is a difference of at most 25 %. Costs and day are of one run, so that a busy machine makes
both larger.

It ends after --minutes: a day that is not over by then is compared as far as whole parts of it went.

    python -m bench.day [--feeds N] [--minutes N] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import redis

from bench import polling, registry
from bench.capacity import UNITS, Traffic, Unit, predicted_seconds, save_day, save_units
from bench.growth_steps import KEYS, OutOfTime, Place
from bench.harness import Spent, machine, serving, spending, table
from bench.web import OLD_ETAG
from core.ids import feed_id
from core.store import embedded

LINKS = 5
"""New links of a feed that has changed."""
PARTS = 4
HOSTS = 100
MOST_TURNS = 20
"""How often timer and workers are started for what waits; what waits longer than that waits for a later time."""
FEW_WALLS = 2
"""So many of a small sample may be walls or empty, else a tenth."""
Work = Callable[[Place, int], int]


def polls(place: Place, count: int) -> int:
    """So many feeds are due and answer 304."""
    asyncio.run(polling.fill(place.settings, place.feed_urls(count)))
    place.start("workers.ingestor", "--once")
    return count


def changed_feeds(place: Place, count: int, first: int = 0) -> int:
    """So many feeds are due and have new links."""
    urls = place.feed_urls(first + count, LINKS)[first:]
    asyncio.run(polling.fill(place.settings, urls))
    with place.client.pipeline(transaction=False) as pipe:
        for url in urls:
            pipe.hset(KEYS.feed(feed_id(url)), "etag", OLD_ETAG)
        pipe.execute()
    place.start("workers.ingestor", "--once")
    return count


def articles(place: Place, count: int) -> int:
    """So many new links become articles."""
    hosts = list(place.ports.items())
    named = (hosts[n % len(hosts)] for n in range(count))
    place.client.sadd(KEYS.category_links("bench"), *(f"http://{h}:{p}/page/{n}" for n, (h, p) in enumerate(named)))
    place.start("workers.canonical_fetcher")
    stored = int(place.client.zcard(KEYS.article_index))
    assert count - stored <= max(FEW_WALLS, count // 10), f"{stored} of {count} articles"
    return stored


def refreshes(place: Place, count: int) -> int:
    """So many pages are due and answer 304."""
    host, port = next(iter(place.ports.items()))
    registry.fill(place.client, f"http://{host}:{port}/", count)
    for _ in range(MOST_TURNS):
        if not place.client.zcount(KEYS.due(registry.SID), "-inf", 1e9):
            break
        place.start("workers.timer", "--once")
        place.start("workers", "refresh", "--burst")
    return count - int(place.client.zcount(KEYS.due(registry.SID), "-inf", 1e9))


def embeddings(place: Place) -> int:
    """What waits becomes chunks and vectors; returns how many."""
    for _ in range(MOST_TURNS):
        if not place.client.zcard(KEYS.embed_due):
            break
        place.start("workers.timer", "--once")
        place.start("workers", "embed", "--burst")
    return int(place.client.hget(KEYS.embed_stats, "written") or 0)


# ── what one costs ──


def unit_of(samples: list[tuple[int, Spent, int]]) -> Unit:
    """What one more costs, of a small and a large sample: work, what it took, bytes that Redis grew by."""
    (few, small, small_bytes), (many, large, large_bytes) = samples
    more = many - few
    cpu = (large.cpu_seconds - small.cpu_seconds) / more
    server = (large.server_cpu_seconds - small.server_cpu_seconds) / more
    start = max(small.cpu_seconds + small.server_cpu_seconds - few * (cpu + server), 0.0)
    return Unit(cpu, server, max(large_bytes - small_bytes, 0) / more, start)


class Day:
    """The web and a server of Redis, emptied for each measurement."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def measure(self, work: Callable[[], int]) -> tuple[int, Spent, int]:
        before = int(self._place.client.info("memory")["used_memory"])
        with spending(self._place.client) as spent:
            done = work()
        return done, spent, int(self._place.client.info("memory")["used_memory"]) - before

    def unit(self, work: Work, few: int, many: int) -> Unit:
        samples = []
        for count in (few, many):
            self._place.client.flushall()
            done, spent, _ = self.measure(lambda count=count: work(self._place, count))  # type: ignore[misc]
            samples.append((done, spent, int(self._place.client.info("memory")["used_memory"])))
        return unit_of(samples)

    def embedding_unit(self, few: int, many: int) -> tuple[Unit, float]:
        """What a chunk costs, and how many chunks an article has."""
        samples, stored = [], 0
        for count in (few, many):
            self._place.client.flushall()
            stored = articles(self._place, count)
            samples.append(self.measure(lambda: embeddings(self._place)))
        return unit_of(samples), samples[-1][0] / stored

    def units(self, scale: float) -> tuple[dict[str, Unit], float]:
        sizes = {polls: (500, 2_000), changed_feeds: (50, 300), articles: (40, 200), refreshes: (500, 2_000)}
        found = {}
        for work, (few, many) in sizes.items():
            found[work.__name__] = self.unit(work, int(few * scale), int(many * scale))
            print(f"{work.__name__}: {found[work.__name__]}", flush=True)
        found["chunks"], per_article = self.embedding_unit(int(8 * scale) + 1, int(80 * scale))
        print(f"chunks: {found['chunks']}, {per_article:.1f} of an article", flush=True)
        return found, per_article

    def live(self, traffic: Traffic) -> tuple[dict[str, int], float, int]:
        """The parts of a day, as many as there is time for; what was done, the CPU of everybody, how many parts."""
        done, total = dict.fromkeys(UNITS, 0), 0.0
        for part in range(PARTS):
            try:
                counts, spent = self._part(traffic, part)
            except OutOfTime:
                return done, total, part
            done = {name: done[name] + counts[name] for name in UNITS}
            total += spent
        return done, total, PARTS

    def _part(self, traffic: Traffic, part: int) -> tuple[dict[str, int], float]:
        place, changed = self._place, round(traffic.changed_feeds / PARTS)
        place.client.flushall()
        steps: dict[str, Callable[[], int]] = {
            "polls": lambda: polls(place, round(traffic.polls / PARTS)),
            "changed_feeds": lambda: changed_feeds(place, changed, part * changed),
            "articles": lambda: _fetched(place),
            "chunks": lambda: embeddings(place),
            "refreshes": lambda: refreshes(place, round(traffic.refreshes / PARTS)),
        }
        counts, total = {}, 0.0
        for name, work in steps.items():
            counts[name], spent, _ = self.measure(work)
            total += spent.cpu_seconds + spent.server_cpu_seconds
        return counts, total


def _fetched(place: Place) -> int:
    place.start("workers.canonical_fetcher")
    return int(place.client.zcard(KEYS.article_index))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench day", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--feeds", type=int, default=60, help="a day of so many feeds")
    parser.add_argument("--minutes", type=float, help="the longest it may take; 12, or 3 with --quick")
    parser.add_argument(
        "--quick", action="store_true", help="a day of 20 feeds, and smaller samples; nothing is written"
    )
    given = parser.parse_args()
    ends_at = time.monotonic() + 60 * (given.minutes or (3 if given.quick else 12))
    with tempfile.TemporaryDirectory() as name, serving("bench.web", "--hosts", str(HOSTS), "--real") as ports:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            with redis.Redis.from_url(server.url, decode_responses=True) as client:
                place = Place(server.url, Path(name), client, ports, most_work=10**9, ends_at=ends_at)
                compare(Day(place), 20 if given.quick else given.feeds, 0.2 if given.quick else 1.0, not given.quick)
        except OutOfTime:
            sys.exit("The time was over before the costs were known. --minutes gives more.")
        finally:
            server.stop()


def compare(day: Day, feeds: int, scale: float, is_kept: bool) -> None:
    units, per_article = day.units(scale)
    if is_kept:
        save_units(units, per_article, machine())
    traffic = Traffic.of(feeds, LINKS)
    done, measured, parts = day.live(traffic)
    if not parts:
        raise OutOfTime
    predicted = predicted_seconds(units, done, parts)
    rows = [
        [name, f"{done[name]:,}", f"{1000 * units[name].cpu:.2f}", f"{1000 * units[name].server:.2f}"] for name in UNITS
    ]
    print(f"\nA day of {feeds} feeds, {parts} of {PARTS} parts\n")
    print(table(["work", "done", "ms each", "ms of Redis"], rows))
    difference = f"{predicted / measured - 1:+.0%} (goal: within 25 %)"
    print(f"\npredicted {predicted:.0f} CPU s, measured {measured:.0f}: {difference}")
    if is_kept:
        figures = {"predicted": round(predicted, 1), "measured": round(measured, 1)}
        save_day({"feeds": feeds, "parts": f"{parts} of {PARTS}", "done": done, **figures})


if __name__ == "__main__":
    main()
