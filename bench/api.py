"""What does HTTP add? Search by the API beside the same query in process; health, metrics and state of a large store;
and what 200 listeners to the event stream cost those who write the events.

Everything is real: `workers.web` in a process of its own, the embedded server, the canonical fetcher on pages from
loopback. Figures: search p95 ≤ 2x the in-process query; /health and /metrics < 5 ms of CPU each with a million items;
the overview of the dashboard ≤ 20 ms of the API and the server together, and ≤ 300 kB with all files that it loads;
the state of a knowledge base ≤ 10 kB and < 5 ms with a million pages; 200 listeners cost ingest ≤ 5 %.

    python -m bench.api [--quick | --full] [search | large | stream]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp
import numpy as np

from bench import articles, store_search
from bench.api_store import api, cpu_seconds, fill, server_cpu_seconds
from bench.harness import ROOT, serving
from bench.search import DIMENSION, made_up, questions
from core.keys import Keys
from core.runs import state_json
from core.runs.io.state_store import KbStateStore
from core.search.io.searcher import open_searcher
from core.search.models import Query
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded


class Sizes(NamedTuple):
    """How large each part is."""

    chunks: int
    queries: int
    items: int
    requests: int
    pages: int
    rounds: int


WARM_UP = 20
LISTENERS = 200
SIZES = {
    "quick": Sizes(5_000, 60, 20_000, 100, 60, 1),
    "usual": Sizes(20_000, 200, 100_000, 300, 150, 3),
    "full": Sizes(100_000, 400, 1_000_000, 300, 300, 5),
}
MOST_RATIO = 2.0
MOST_CPU_MS = 5.0
MOST_VIEW_MS = 20.0
MOST_VIEW_BYTES = 300_000
MOST_STATE_BYTES = 10_240
MOST_STREAM_PERCENT = 5.0


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


# ── search ──


async def search(settings: Settings, url: str, chunks: int, queries: int) -> None:
    """The same queries in this process and over HTTP, in turns; words only, so that no model hides the difference."""
    dice = random.Random(11)
    texts = made_up(chunks, dice)
    matrix = np.zeros((chunks, DIMENSION), "<f4")
    matrix[:, 0] = 1.0
    client, raw, keys = connect.open_store(settings), connect.open_raw(settings), Keys.of(settings)
    await store_search.fill(raw, keys, texts, matrix)
    asked = [text for text, _ in questions(texts, queries + WARM_UP, dice)]
    ours: list[float] = []
    theirs: list[float] = []
    async with open_searcher(settings, client, keys) as searcher, aiohttp.ClientSession() as session:
        for text in asked:
            start = time.perf_counter()
            found = await searcher.search(Query(text), time.time())
            ours.append(1000 * (time.perf_counter() - start))
            start = time.perf_counter()
            async with session.get(f"{url}/api/Search", params={"q": text}) as reply:
                answer = await reply.json()
            theirs.append(1000 * (time.perf_counter() - start))
            assert [one["id"] for one in answer["results"]] == [one.page.item_id for one in found.results]
    await client.aclose()
    await raw.aclose()
    inside, outside = (percentile(values[WARM_UP:], 0.95) for values in (ours, theirs))
    middle = [statistics.median(values[WARM_UP:]) for values in (ours, theirs)]
    print(
        f"search over {chunks:,} chunks: p95 {outside:.1f} ms by HTTP, {inside:.1f} ms in process, "
        f"{outside / inside:.2f}x (figure: ≤ {MOST_RATIO:g}x); median {middle[1]:.1f} and {middle[0]:.1f} ms"
    )


# ── a large store ──


async def watch(settings: Settings, url: str, process: subprocess.Popen[bytes], items: int, requests: int) -> None:
    """CPU milliseconds of the API and of the server for one request; and the state of a knowledge base."""
    async with aiohttp.ClientSession() as session:
        for path in ("/health", "/metrics", "/api/SearchStatus", "/"):
            await ask(session, url + path)
            before = cpu_seconds(process), server_cpu_seconds(connect.url_of(settings))
            size = 0
            for _ in range(requests):
                size = await ask(session, url + path)
            after = cpu_seconds(process), server_cpu_seconds(connect.url_of(settings))
            own, server = (1000 * (late - early) / requests for late, early in zip(after, before, strict=True))
            figure = f"{MOST_VIEW_MS:g} ms together" if path == "/" else f"{MOST_CPU_MS:g} ms"
            print(
                f"{path} of {items:,} items: {own:.2f} ms of CPU, and {server:.2f} ms of the server's; {size:,} bytes "
                f"(figure: < {figure})"
            )
        weight = await page_weight(session, url)
        print(f"/ with all files that it loads: {weight:,} bytes (figure: ≤ {MOST_VIEW_BYTES:,})")
    client, keys = connect.open_store(settings), Keys.of(settings)
    store = KbStateStore(client, keys)
    await store.save("docs", time.time())
    cpu, wall, size = time.process_time(), time.perf_counter(), 0
    for _ in range(requests):
        size = len(state_json.to_json(await store.require("docs", time.time())).encode())
    cpu, wall = (1000 * took / requests for took in (time.process_time() - cpu, time.perf_counter() - wall))
    await client.aclose()
    print(
        f"state with {items:,} pages: {size:,} bytes (figure: ≤ {MOST_STATE_BYTES:,}), {wall:.2f} ms, "
        f"{cpu:.2f} ms of CPU (figure: < {MOST_CPU_MS:g})"
    )


async def ask(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as reply:
        assert reply.status in (200, 503), reply.status
        return len(await reply.read())


async def page_weight(session: aiohttp.ClientSession, url: str) -> int:
    """The overview and every file that it names."""
    async with session.get(f"{url}/") as reply:
        html = await reply.text()
    files = sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', html)))
    return len(html.encode()) + sum([await ask(session, f"{url}{path}") for path in files])


# ── listeners ──


async def listen(url: str, count: int) -> None:
    """Listen to all events until standard input ends; say how many came."""
    events = 0

    async def one(session: aiohttp.ClientSession) -> None:
        nonlocal events
        async with session.get(f"{url}/stream", timeout=aiohttp.ClientTimeout(None)) as reply:
            async for line in reply.content:
                events += line.startswith(b"id:")

    connector = aiohttp.TCPConnector(limit=count)
    async with aiohttp.ClientSession(connector=connector) as session:
        tasks = [asyncio.create_task(one(session)) for _ in range(count)]
        await asyncio.sleep(1.0)
        print("listening", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(events, flush=True)


def ingest(folder: Path, redis_url: str, url: str, pages: int, rounds: int) -> None:
    """The canonical fetcher on the same pages, alone and with listeners, in turns."""
    alone: list[float] = []
    heard: list[float] = []
    rates: dict[str, list[float]] = {"alone": [], "heard": []}
    events = 0
    with serving("bench.articles", "--hosts", "50", "--serve", "0") as ports:
        track = articles.Track(ports, pages, folder, redis_url)
        track.freshet(main_text=True)  # both servers warm
        for _ in range(rounds):
            took, articles_stored = track.freshet(main_text=True)
            stored = len(articles_stored)
            alone.append(1000 * took.cpu_seconds / stored)
            rates["alone"].append(stored / took.wall_seconds)
            command = [sys.executable, "-m", "bench.api", "--listen", url]
            clients = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert clients.stdout
            clients.stdout.readline()
            took, articles_stored = track.freshet(main_text=True)
            stored = len(articles_stored)
            heard.append(1000 * took.cpu_seconds / stored)
            rates["heard"].append(stored / took.wall_seconds)
            events += int(clients.communicate("\n")[0])
    one, other = min(alone), min(heard)  # of the rounds that other programs disturbed least
    print(
        f"ingest: {one:.2f} ms of CPU per article alone, {other:.2f} ms with {LISTENERS} listeners, "
        f"{100 * (other / one - 1):+.1f} % (figure: ≤ {MOST_STREAM_PERCENT:g} %); by the clock "
        f"{max(rates['alone']):.0f} and {max(rates['heard']):.0f} articles per second; "
        f"{events / (rounds * LISTENERS):.0f} events to each listener of {pages} articles"
    )


# ── all of it ──


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", nargs="?", choices=["search", "large", "stream"])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", help="20,000 items, 5,000 chunks")
    size.add_argument(
        "--full", dest="size", action="store_const", const="full", help="a million items, 100,000 chunks, more rounds"
    )
    parser.add_argument("--listen", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.listen:
        asyncio.run(listen(given.listen, LISTENERS))
        return
    for part in [given.part] if given.part else ["search", "large", "stream"]:
        with tempfile.TemporaryDirectory() as name:
            run(part, Path(name), SIZES[given.size or "usual"])


def run(part: str, folder: Path, sizes: Sizes) -> None:
    """One part on an empty store."""
    server = embedded.start(folder / "redis", embedded.free_port(0))
    port = embedded.free_port(0)
    url, more = f"http://127.0.0.1:{port}", {"persistent_storage_path": folder, "embedder": "none"}
    settings = Settings(redis_url=SecretStr(server.url), log_level="WARNING", **more)
    try:
        if part == "large":
            fill(server.url, Keys(), sizes.items)
        with api(server.url, folder, port) as process:
            if part == "search":
                asyncio.run(search(settings, url, sizes.chunks, sizes.queries))
            elif part == "large":
                asyncio.run(watch(settings, url, process, sizes.items, sizes.requests))
            else:
                ingest(folder, server.url, url, sizes.pages, sizes.rounds)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
