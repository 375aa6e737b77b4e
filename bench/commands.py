"""How long does a command take that a person types? CPU seconds of whole processes, cold; the median of turns.

A search is asked twice: in a store where nothing is embedded, and beside 1,000 embedded chunks, where the question has
to be embedded too. The first turn writes bytecode and the search replica, and is not counted.

python -m bench.commands [--turns N]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import redis

from bench import store_search
from bench.harness import ROOT, spending, table
from bench.noop import fill
from bench.search import DIMENSION, made_up
from core.keys import Keys
from core.search.io.embedders import open_embedder
from core.secret_text import SecretStr
from core.settings import Settings
from core.store import connect, embedded

GOAL = 0.35
CHUNKS = 1_000
COMMANDS = {
    "freshet status": ("scripts.status",),
    "freshet search": ("scripts.search", "the river rose"),
    "freshet why": ("scripts.why", "https://www.example1.org/news/2026/11/some-story-1.html"),
}
EMBEDDED = {"freshet search, 1,000 chunks": ("scripts.search", "the river rose")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as name:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            with redis.Redis.from_url(server.url) as client:
                fill(client, 1_000, categories=4)
                environment = {"REDIS_URL": server.url, "PERSISTENT_STORAGE_PATH": name, "LOG_LEVEL": "ERROR"}
                taken = compare(client, environment, COMMANDS, turns)
                asyncio.run(embed(server.url))
                taken |= compare(client, environment, EMBEDDED, turns)
        finally:
            server.stop()
    rows = [[name, f"{statistics.median(cpu):.2f}", f"{min(cpu):.2f}", f"{GOAL}"] for name, cpu in taken.items()]
    print(table(["command", "CPU s", "least", "goal"], rows))


def compare(
    client: redis.Redis, environment: dict[str, str], commands: dict[str, tuple[str, ...]], turns: int
) -> dict[str, list[float]]:
    """All commands in turn, again and again."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(1 + turns):
        for name, words in commands.items():
            command = [sys.executable, "-m", *words]
            with spending(client) as spent:
                # An answer such as "nothing was found" ends with 1, and costs the same.
                subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
            if turn:
                taken[name].append(spent.cpu_seconds)
    return taken


async def embed(url: str) -> None:
    """Pages with made-up vectors, as the local model's embed worker leaves them."""
    settings = Settings(redis_url=SecretStr(url))
    embedder, raw = open_embedder(settings), connect.open_raw(settings)
    matrix = np.random.default_rng(3).normal(size=(CHUNKS, DIMENSION)).astype("<f4")
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    texts = [f"The river rose. {text}" for text in made_up(CHUNKS, random.Random(11))]
    await store_search.fill(raw, Keys(), texts, matrix, embedder.space)
    await embedder.close()
    await raw.aclose()


if __name__ == "__main__":
    main()
