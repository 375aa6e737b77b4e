"""What does search cost beside its bare engines? `python -m bench.search [--chunks N] [--queries N]`

Chunks are sentences of the article corpora and of Cranfield, shuffled; vectors are random. The replica is built once;
then the same queries go to it, and to a bare tantivy index and a bare numpy matrix over the same data, in turns.
Figures: at most 10 ms of CPU added per query, and 5,000 chunks per second into the replica, vectors included.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# One thread, as everything else here: threads of BLAS go on spinning after their work, at the cost of whoever is next.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import tantivy
from numpy.typing import NDArray

from core.models import Chunk
from core.search.io import replica_graph
from core.search.io.replica import Replica
from core.search.io.replica_state import Checkpoint
from core.search.models import Filters, IndexedPage, IndexQuery

DATA = Path(__file__).parents[2] / "shared" / "data"
DIMENSION = 384
CHUNK_CHARS = 850
CHUNKS_PER_PAGE = 10
PAGES_PER_COMMIT = 1_000
DEPTH = 100
CANDIDATES = 400
SHOWN = 30
"""What the searcher ranks, and how many texts it then reads."""
SMALL_CHANGES = 30
MOST_ADDED_MS = 10.0
LEAST_CHUNKS_PER_SECOND = 5_000
DAY = 86_400.0

Query = tuple[str, NDArray[np.float32]]
Ask = Callable[[Query], object]


def sentences() -> list[str]:
    """Real sentences; without the data made-up ones."""
    texts = [
        page["text"]
        for path in sorted((DATA / "articles").glob("corpus-*.json.gz"))
        for page in json.loads(gzip.decompress(path.read_bytes()))["pages"].values()
        if "text" in page
    ]
    cranfield = DATA / "retrieval" / "cranfield" / "corpus.jsonl"
    if cranfield.exists():
        texts += [json.loads(line)["text"] for line in cranfield.read_text().splitlines()]
    found = [part for text in texts for part in re.split(r"(?<=[.!?])\s+", text) if 20 < len(part) < 400]
    return found or [f"word{n % 977} made up sentence number {n} of word{n % 89}." for n in range(20_000)]


def made_up(count: int, dice: random.Random) -> list[str]:
    """Chunks of the usual length."""
    pool, texts = sentences(), []
    for _ in range(count):
        parts: list[str] = []
        while sum(map(len, parts)) < CHUNK_CHARS:
            parts.append(dice.choice(pool))
        texts.append(" ".join(parts))
    return texts


def page(number: int, title: str) -> IndexedPage:
    """A page of one of twenty categories and of a day."""
    return IndexedPage(
        f"url_{number:026d}",
        "v1",
        url=f"https://h{number % 50}.example/{number}",
        title=title,
        language="en",
        host=f"h{number % 50}.example",
        categories=(f"c{number % 20}",),
        published_ts=1.7e9 + number * DAY,
    )


async def build(folder: Path, texts: list[str], matrix: NDArray[np.float32]) -> tuple[float, float]:
    """Fill a replica; wall and CPU seconds."""
    wall, cpu = time.monotonic(), time.process_time()
    replica = Replica(folder, DIMENSION)
    assert replica.try_write_lock()
    for number, start in enumerate(range(0, len(texts), CHUNKS_PER_PAGE)):
        numbers = range(start, min(start + CHUNKS_PER_PAGE, len(texts)))
        chunks = [Chunk(f"chunk_{n:020d}", texts[n], ("Section",)) for n in numbers]
        vectors = {f"chunk_{n:020d}": matrix[n].tobytes() for n in numbers}
        await replica.upsert(page(number, texts[start][:60]), chunks, vectors)
        if number % PAGES_PER_COMMIT == PAGES_PER_COMMIT - 1:
            await replica.commit(Checkpoint(str(number)))
    await replica.commit(Checkpoint("end"))
    replica.stop_writing()
    seconds = time.monotonic() - wall, time.process_time() - cpu
    replica.finish_graph()
    if len(texts) > replica_graph.HNSW_ABOVE:
        print(f"graph: {time.monotonic() - wall - seconds[0]:.1f} s more until it was built")
    replica.close()
    return seconds


async def small_changes(folder: Path, texts: list[str]) -> None:
    """One page that changes again and again: take the lock, write, commit, give it back."""
    replica = Replica(folder, DIMENSION)
    taken: list[float] = []
    for number in range(SMALL_CHANGES + 1):
        chunks = [Chunk(f"small_{number}_{n}", text) for n, text in enumerate(texts[:CHUNKS_PER_PAGE])]
        wall = time.perf_counter()
        assert replica.try_write_lock()
        await replica.upsert(IndexedPage("url_small", f"v{number}"), chunks, {})
        await replica.keep_only("url_small", f"v{number}")
        await replica.commit(Checkpoint(str(number)))
        replica.stop_writing()
        taken.append(1000 * (time.perf_counter() - wall))
    first, *later = taken
    print(
        f"a change of one page: {statistics.median(later):.0f} ms, at most {max(later):.0f}; the first {first:.0f} ms"
    )
    replica.close()


def bare_tantivy(folder: Path, texts: list[str]) -> tuple[Ask, float]:
    """tantivy as its tutorial has it: one English field, parsed queries, the best hundred; and its CPU to build."""
    cpu = time.process_time()
    schema = tantivy.SchemaBuilder().add_text_field("text", stored=True, tokenizer_name="en_stem").build()
    folder.mkdir()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(64_000_000, num_threads=1)
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    cpu = time.process_time() - cpu
    searcher = index.searcher()
    return lambda query: searcher.search(index.parse_query(query[0], ["text"]), DEPTH, count=False).hits, cpu


def bare_numpy(matrix: NDArray[np.float32]) -> Ask:
    """Exact dot products and the best hundred."""

    def ask(query: Query) -> object:
        scores = matrix @ query[1]
        best = np.argpartition(scores, -DEPTH)[-DEPTH:]
        return best[np.argsort(-scores[best])]

    return ask


def measured(asks: dict[str, Ask], queries: list[Query]) -> dict[str, tuple[list[float], list[float]]]:
    """CPU and wall milliseconds of each query, the ways in turns so that noise hits all."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in asks}
    for query in queries:
        for name, ask in asks.items():
            wall, cpu = time.perf_counter(), time.process_time()
            ask(query)
            taken[name][0].append(1000 * (time.process_time() - cpu))
            taken[name][1].append(1000 * (time.perf_counter() - wall))
    return taken


def answered(replica: Replica, query: Query, filters: Filters, *, by_words: bool = False) -> object:
    """Rank as many as the searcher does, and read as many texts as it shows."""
    snapshot = replica.snapshot()
    assert snapshot
    hits = snapshot.search(IndexQuery(query[0], None if by_words else query[1].tobytes(), filters, CANDIDATES))
    return snapshot.texts(hits[:SHOWN])


def resident() -> str:
    """Memory of this process: its own, and files mapped into it."""
    status = Path("/proc/self/status").read_text()
    own, files = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1024 for name in ("RssAnon", "RssFile"))  # type: ignore[index]
    return f"{own:.0f} MB own, {files:.0f} MB of mapped files"


def read_alone(folder: Path) -> None:
    """A process that only searches: how long it takes to open, and its memory."""
    before = resident()
    wall = time.monotonic()
    replica = Replica(folder, DIMENSION)
    opened = time.monotonic() - wall
    vector = np.ones(DIMENSION, dtype="<f4") / np.sqrt(DIMENSION)
    snapshot = replica.snapshot()
    assert snapshot
    for word in ("flow", "people", "year"):
        snapshot.search(IndexQuery(word, vector.astype("<f4").tobytes(), Filters(), 10))
    print(f"reader: opened in {opened:.2f} s; memory {resident()} (before opening: {before})")


def questions(texts: list[str], count: int, dice: random.Random) -> list[Query]:
    """A few words of some chunk, and a vector."""
    generator = np.random.default_rng(7)
    found = []
    for _ in range(count):
        words = re.findall(r"[A-Za-z]{2,}", dice.choice(texts))
        vector = generator.normal(size=DIMENSION).astype("<f4")
        found.append((" ".join(dice.sample(words, dice.randint(3, 8))), vector / np.linalg.norm(vector)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--reader", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        read_alone(arguments.reader)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments.chunks, arguments.queries)


def run(folder: Path, count: int, queries: int) -> None:
    dice = random.Random(11)
    texts = made_up(count, dice)
    matrix = np.random.default_rng(3).normal(size=(count, DIMENSION)).astype("<f4")
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)

    wall, cpu = asyncio.run(build(folder / "replica", texts, matrix))
    tantivy_alone, bare_cpu = bare_tantivy(folder / "bare", texts)
    size = sum(path.stat().st_size for path in (folder / "replica").rglob("*") if path.is_file()) / 1e6
    print(
        f"build: {count:,} chunks in {wall:.1f} s, {count / wall:,.0f} per second "
        f"(figure: ≥ {LEAST_CHUNKS_PER_SECOND:,}), "
        f"{count / cpu:,.0f} per CPU second (bare tantivy {count / bare_cpu:,.0f}); {size:.0f} MB on disk"
    )

    replica = Replica(folder / "replica", DIMENSION)
    one, month = Filters(categories=("c7",)), Filters(since_ts=1.7e9 + (count // CHUNKS_PER_PAGE - 30) * DAY)
    asks: dict[str, Ask] = {
        "bare tantivy": tantivy_alone,
        "bare numpy": bare_numpy(matrix),
        "ours": lambda q: answered(replica, q, Filters()),
        "ours, words alone": lambda q: answered(replica, q, Filters(), by_words=True),
        "ours, one category of 20": lambda q: answered(replica, q, one),
        "ours, the last 30 pages": lambda q: answered(replica, q, month),
    }
    asked = questions(texts, queries + 10, dice)
    measured(asks, asked[:10])
    taken = measured(asks, asked[10:])
    for name, (cpu_ms, wall_ms) in taken.items():
        print(
            f"{name:26} CPU mean {statistics.fmean(cpu_ms):6.2f} p50 {statistics.median(cpu_ms):6.2f} ms, "
            f"wall p50 {statistics.median(wall_ms):6.2f} p95 {statistics.quantiles(wall_ms, n=20)[-1]:6.2f} ms"
        )
    mean = {name: statistics.fmean(cpu_ms) for name, (cpu_ms, _) in taken.items()}
    added = mean["ours"] - mean["bare tantivy"] - mean["bare numpy"]
    print(f"added per query: {added:.2f} ms of CPU (figure: ≤ {MOST_ADDED_MS:g})")
    replica.close()
    asyncio.run(small_changes(folder / "replica", texts))
    subprocess.run([sys.executable, "-m", "bench.search", "--reader", str(folder / "replica")], check=True)


if __name__ == "__main__":
    main()
