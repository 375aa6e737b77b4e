"""What is made larger and larger: feeds, links, items and chunks, each with the work that grows with it.

A kind of growth is a generator: it fills an empty store with so many, and yields the name of a step and a function that
does it. The caller measures the function; it returns its output, which must be the same every time. Everything is made
from numbers, so that two runs have the same data.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from unittest import mock

import numpy as np
import redis
from numpy.typing import NDArray

from bench import api_store, noop, polling, registry, store_search
from bench.harness import ROOT
from bench.search import CHUNKS_PER_PAGE, DIMENSION, made_up
from core.feeds.io.ingest_cycle import run_cycle
from core.keys import Keys
from core.models import Chunk, Ref
from core.pages.text_cleaning import content_hash
from core.registry.io.registrar import Listing, Registrar
from core.registry.record import Item
from core.runtime.context import open_context
from core.search import models
from core.search.io.chunk_store import ChunkStore
from core.search.io.searcher import Searcher, open_searcher
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect
from core.store.leases import Leases

KEYS = Keys()
LINKS_PER_FEED = 100
REFS_AT_ONCE = 500
PAGES_AT_ONCE = 50
QUESTIONS = 20
FAR_AWAY = 4e9

# KEYS[1] a schedule · ARGV[1] a time. Nothing in it is due before then.
_POSTPONE = """
local rows = redis.call('ZRANGE', KEYS[1], 0, -1)
for i = 1, #rows, 1000 do
  local words = {}
  for j = i, math.min(i + 999, #rows) do words[#words + 1] = ARGV[1]; words[#words + 1] = rows[j] end
  redis.call('ZADD', KEYS[1], unpack(words))
end
return #rows
"""

T = TypeVar("T")
Step = tuple[str, Callable[[], object]]


class OutOfTime(Exception):
    """The time that was given is over."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step runs: an embedded server that may be emptied, a folder, and the web on loopback."""

    url: str
    folder: Path
    client: redis.Redis
    ports: dict[str, int]
    most_work: int
    """Beyond this size only what a run costs that finds nothing to do, and what is quick enough: a million polls or
    visits take the better part of an hour."""
    ends_at: float = math.inf
    """By the monotonic clock; no process runs longer."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            "REDIS_URL": self.url,
            "PERSISTENT_STORAGE_PATH": str(self.folder),
            "FEEDS_FILE": str(self.folder / "none.toml"),
            "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
            "FETCH_HOST_GAP_SECONDS": "0",
            "CANONICAL_BUDGET_SECONDS": "3600",
            "LOG_LEVEL": "ERROR",
        }

    @property
    def settings(self) -> Settings:
        named = {name.lower(): value for name, value in self.environment.items() if name != "REDIS_URL"}
        return Settings(redis_url=SecretStr(self.url), **(named | {"fetch_allowed_hosts": ("127.0.0.0/8",)}))

    def start(self, *command: str) -> None:
        """Run `python -m command` to its end, as a user would; OutOfTime if it has none in time."""
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise OutOfTime
        words, environment = [sys.executable, "-m", *command], os.environ | self.environment
        timeout = None if math.isinf(left) else left
        try:
            subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=sys.stderr, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise OutOfTime from None

    def feed_urls(self, count: int, links: int = 1) -> list[str]:
        hosts = list(self.ports.items())
        named = (hosts[n % len(hosts)] for n in range(count))
        return [f"http://{host}:{port}/feed/{n}?links={links}" for n, (host, port) in enumerate(named)]


# ── feeds ──


def feeds(place: Place, size: int) -> Iterator[Step]:
    """So many feeds that answer 304: a poll of all of them; a cycle of the ingestor in which none is due."""
    asyncio.run(polling.fill(place.settings, place.feed_urls(size)))
    if size <= place.most_work:
        yield "poll", lambda: _polled(place)
    place.client.eval(_POSTPONE, 1, KEYS.feeds_due, FAR_AWAY)
    with asyncio.Runner() as runner, _opened(runner, open_context(place.settings, once=True)) as context:
        runner.run(run_cycle(context, stays=False))  # the first of a process reads all subscriptions
        yield "no-op cycle", lambda: runner.run(run_cycle(context, stays=False)).counts["polled"]


def _polled(place: Place) -> object:
    place.start("workers.ingestor", "--once")
    seen = place.client.hgetall(KEYS.ingest_last_run)
    # About one poll in a hundred is unconditional, by chance, so that how many were unchanged differs from run to run.
    return seen["polled"], place.client.zcount(KEYS.feeds_due, time.time(), "inf")


# ── links ──


def links(place: Place, size: int) -> Iterator[Step]:
    """So many links: feeds with new ones are polled; the canonical fetcher finds nothing new among known ones."""
    if size <= place.most_work * 10:
        urls = place.feed_urls(size // LINKS_PER_FEED, LINKS_PER_FEED)
        for start in range(0, len(urls), 1000):
            place.client.sadd(KEYS.feeds("bench"), *urls[start : start + 1000])
        place.client.sadd(KEYS.categories, "bench")
        yield "ingest", lambda: _ingested(place)
        place.client.flushall()
    noop.fill(place.client, size, categories=4)
    place.start("workers.canonical_fetcher")  # the first run writes down what it has seen
    yield "no-op run", lambda: _found_nothing(place)


def _ingested(place: Place) -> object:
    place.start("workers.ingestor", "--once")
    return place.client.scard(KEYS.category_links("bench")), place.client.zcard(KEYS.category_links_seen("bench"))


def _found_nothing(place: Place) -> object:
    place.start("workers.canonical_fetcher")
    seen = place.client.hgetall(KEYS.canonical_last_run)
    return seen["known"], seen["new"]


# ── items ──


def items(place: Place, size: int) -> Iterator[Step]:
    """So many pages: registered, refreshed by timer and worker (all answer 304), and a timer for which none is due."""
    yield "register", lambda: asyncio.run(_registered(place.settings, size))
    place.client.flushall()
    if size <= place.most_work:
        host, port = next(iter(place.ports.items()))
        registry.fill(place.client, f"http://{host}:{port}/", size)
        yield "refresh", lambda: _refreshed(place)
        place.client.flushall()
    api_store.fill(place.url, KEYS, size)
    place.client.eval(_POSTPONE, 1, KEYS.due("docs.site"), FAR_AWAY)
    yield "no-op tick", lambda: place.start("workers.timer", "--once")


async def _registered(settings: Settings, size: int) -> object:
    async with connect.open_store(settings) as client:
        registrar, listing = Registrar(client, KEYS, "host"), Listing("bench.site", most=10**8)
        for start in range(0, size, REFS_AT_ONCE):
            refs = [Ref(f"https://h{n % 500}.example/{n}") for n in range(start, min(start + REFS_AT_ONCE, size))]
            await registrar.register(refs, listing, 1.7e9)
        return await client.zcard(KEYS.refs("bench.site")), await client.zcard(KEYS.due("bench.site"))


def _refreshed(place: Place) -> object:
    while place.client.zcount(KEYS.due(registry.SID), "-inf", 1e9):
        place.start("workers.timer", "--once")
        place.start("workers", "refresh", "--burst")
    return place.client.hget(KEYS.refresh_stats, "unchanged")


# ── chunks ──


def chunks(place: Place, size: int) -> Iterator[Step]:
    """So many chunks with made-up vectors: written as an embed worker does, followed by the replica, asked for."""
    dice, generator = random.Random(11), np.random.default_rng(3)
    texts = made_up(size, dice)
    matrix = generator.standard_normal((size, DIMENSION), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    yield "write", lambda: asyncio.run(_written(place.settings, texts, matrix))
    place.client.flushall()
    asked = [(texts[n][:80], matrix[n].tobytes()) for n in dice.sample(range(size), QUESTIONS)]
    given = store_search.GivenVectors([vector for _, vector in asked])
    with asyncio.Runner() as runner, mock.patch("core.search.io.searcher.open_embedder", return_value=given):
        runner.run(_filled(place.settings, texts, matrix))
        with _opened(runner, _searcher(place)) as searcher:
            yield "follow", lambda: _followed(runner, searcher)
            searcher.follower.replica.finish_graph()
            yield "no-op follow", lambda: runner.run(searcher.follower.catch_up())
            yield f"{QUESTIONS} questions", lambda: runner.run(_answers(searcher, asked))


async def _written(settings: Settings, texts: list[str], matrix: NDArray[np.float32]) -> object:
    client, raw = connect.open_store(settings), connect.open_raw(settings)
    store, leases, per_turn = ChunkStore(client, raw, KEYS), Leases(client, KEYS), PAGES_AT_ONCE * CHUNKS_PER_PAGE
    for start in range(0, len(texts), per_turn):
        numbers = range(start, min(start + per_turn, len(texts)))
        made = {n: Chunk(f"c_{n}", texts[n], ("Section",), text_hash=content_hash(texts[n])) for n in numbers}
        pages: dict[str, list[Chunk]] = {}
        for n, chunk in made.items():
            pages.setdefault(f"url_{n // CHUNKS_PER_PAGE:026d}", []).append(chunk)
        vectors = {chunk.id: (store_search.SPACE.name, matrix[n].tobytes()) for n, chunk in made.items()}
        await store.write(pages, vectors)
        for item_id, page in pages.items():
            await leases.run(store.swap(Item(item_id, content_hash="v1"), page, {}, 1.7e9))
    stored = await client.hget(KEYS.embed_stats, "chunks")
    await client.aclose()
    await raw.aclose()
    return stored


async def _filled(settings: Settings, texts: list[str], matrix: NDArray[np.float32]) -> None:
    raw = connect.open_raw(settings)
    await store_search.fill(raw, KEYS, texts, matrix)
    await raw.aclose()


@contextlib.asynccontextmanager
async def _searcher(place: Place) -> AsyncIterator[Searcher]:
    client = connect.open_store(place.settings)
    async with open_searcher(place.settings, client, KEYS) as searcher:
        yield searcher
    await client.aclose()


def _followed(runner: asyncio.Runner, searcher: Searcher) -> object:
    runner.run(searcher.follower.catch_up())
    return runner.run(searcher.follower.replica.count())


async def _answers(searcher: Searcher, asked: list[tuple[str, bytes]]) -> object:
    """The first result of each question."""
    found = [await searcher.search(models.Query(text), 1.7e9) for text, _ in asked]
    return [(one.results[0].page.url, len(one.results)) for one in found]


@contextlib.contextmanager
def _opened(runner: asyncio.Runner, opening: contextlib.AbstractAsyncContextManager[T]) -> Iterator[T]:
    """What an asynchronous context manager gives, kept open on a loop between two steps."""
    opened = runner.run(opening.__aenter__())
    try:
        yield opened
    finally:
        runner.run(opening.__aexit__(None, None, None))


KINDS: dict[str, Callable[[Place, int], Iterator[Step]]] = {
    "feeds": feeds,
    "links": links,
    "items": items,
    "chunks": chunks,
}
