"""From Redis to an answer: how quickly is the replica built, and what does a question cost through the whole product?

Redis is filled with pages of ten chunks with random vectors, as embed workers leave them. The replica is lost and built
anew; then the same questions go to the searcher (words, vectors, joined, checked against Redis, texts read) and to a
bare tantivy index and numpy matrix over the same data, in turns. The model is left out on both sides.
Figures: at least 5,000 chunks per second, at most 10 ms of CPU added per question.

    python -m bench.store_search [--chunks N] [--queries N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

# Before NumPy: threads of BLAS go on spinning after the bare engines' turn, at the cost of whoever is next.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from numpy.typing import NDArray
from redis.asyncio import Redis

from bench.search import CHUNKS_PER_PAGE, DIMENSION, Query, bare_numpy, bare_tantivy, made_up, questions, resident
from core.keys import Keys
from core.models import VectorSpace
from core.runtime import python_version
from core.search import models
from core.search.io.searcher import Searcher, open_searcher
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded

PAGES_AT_ONCE = 200
WARM_UP = 10
SPACE = VectorSpace("bench", DIMENSION, "1")
LEAST_CHUNKS_PER_SECOND = 5_000
MOST_ADDED_MS = 10.0


class GivenVectors:
    """An embedder whose vectors are there already: a question is the number of its vector."""

    space = SPACE
    languages = None
    """All: a question that is made of a sentence in another language is compared by meaning as well."""
    companion = None
    counts_english = True
    prefix_tokens = 24
    clear_similarity = 0.0
    most_tokens = 230

    def __init__(self, vectors: Sequence[bytes]) -> None:
        self.vectors = iter(vectors)

    async def prepare(self) -> None: ...

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [next(self.vectors) for _ in texts]

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    async def close(self) -> None: ...


async def fill(
    raw: Redis, keys: Keys, texts: list[str], matrix: NDArray[np.float32], space: VectorSpace = SPACE
) -> None:
    """Pages, records and chunks, as they are after a swap."""
    await raw.hset(keys.version, "space", space.name)
    pipe = raw.pipeline(transaction=False)
    for number, start in enumerate(range(0, len(texts), CHUNKS_PER_PAGE)):
        item_id, url = f"url_{number:026d}", f"https://h{number % 50}.example/{number}"
        record = {"id": item_id, "type": "url", "sources": "docs.site", "fetchUrl": url, "normalizedSource": url}
        pipe.hset(keys.item(item_id), mapping={**record, "status": "Indexed", "contentHash": "v1", "indexedHash": "v1"})
        pipe.sadd(keys.status("Indexed"), item_id)
        text = {"id": item_id, "url": url, "title": texts[start][:60], "language": "en", "content_hash": "v1"}
        pipe.hset(keys.document(item_id), mapping={**text, "content_hash": f"v{number}", "live": f"v{number}"})
        for place, n in enumerate(range(start, min(start + CHUNKS_PER_PAGE, len(texts)))):
            fields = {
                "item": item_id,
                "text": texts[n],
                "headings": '["Section"]',
                "text_hash": str(n),
                "space": space.name,
            }
            pipe.hset(keys.chunk(f"c_{n}"), mapping=fields)
            pipe.set(keys.vector(f"c_{n}"), matrix[n].tobytes())
            pipe.zadd(keys.chunks(item_id), {f"c_{n}": place})
        if number % PAGES_AT_ONCE == PAGES_AT_ONCE - 1:
            await pipe.execute()
    await pipe.execute()


async def measure(settings: Settings, folder: Path, count: int, queries: int) -> None:
    dice = random.Random(11)
    texts = made_up(count, dice)
    matrix = np.random.default_rng(3).normal(size=(count, DIMENSION)).astype("<f4")
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    client, raw, keys = connect.open_store(settings), connect.open_raw(settings), Keys.of(settings)
    await fill(raw, keys, texts, matrix)
    asked = questions(texts, queries + WARM_UP, dice)
    given = GivenVectors([vector.astype("<f4").tobytes() for _, vector in asked])
    mock.patch("core.search.io.searcher.open_embedder", return_value=given).start()  # for this process
    async with open_searcher(settings, client, keys) as searcher:
        wall, cpu = time.monotonic(), time.process_time()
        await searcher.follower.catch_up()
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        print(
            f"replica from Redis: {count:,} chunks in {wall:.1f} s, {count / wall:,.0f} per second "
            f"(figure: ≥ {LEAST_CHUNKS_PER_SECOND:,}), {count / cpu:,.0f} per CPU second; memory {resident()}"
        )
        tantivy_alone, _ = bare_tantivy(folder / "bare", texts)
        numpy_alone = bare_numpy(matrix)
        ours: list[float] = []
        bare: list[float] = []
        for query in asked:
            start = time.process_time()
            tantivy_alone(query)
            numpy_alone(query)
            bare.append(1000 * (time.process_time() - start))
            ours.append(await asked_ours(searcher, query))
    mean, bare_mean = statistics.fmean(ours[WARM_UP:]), statistics.fmean(bare[WARM_UP:])
    print(f"a question: {mean:.1f} ms of CPU, bare engines {bare_mean:.1f} ms")
    print(f"added: {mean - bare_mean:.1f} ms (figure: ≤ {MOST_ADDED_MS:g})")
    await client.aclose()
    await raw.aclose()


async def asked_ours(searcher: Searcher, query: Query) -> float:
    """CPU milliseconds of one question through the product."""
    start = time.process_time()
    found = await searcher.search(models.Query(query[0]), time.time())
    assert found.results
    assert found.by == "words and meaning", found.by
    return 1000 * (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    given = parser.parse_args()
    python_version.require()  # as every process of ours: garbage is looked for less often
    with tempfile.TemporaryDirectory() as name:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            where = {"redis_url": SecretStr(server.url), "persistent_storage_path": Path(name), "log_level": "WARNING"}
            asyncio.run(measure(Settings(**where), Path(name), given.chunks, given.queries))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
