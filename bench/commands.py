"""How long does a command take that a person types? CPU seconds of whole processes, cold; the median of turns.

python -m bench.commands [--turns N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import redis

from bench.harness import ROOT, spending, table
from bench.noop import fill
from core.store import embedded

GOAL = 0.35
COMMANDS = {
    "freshet status": ("scripts.status",),
    "freshet search": ("scripts.search", "the river rose"),
    "freshet why": ("scripts.why", "https://www.example1.org/news/2026/11/some-story-1.html"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as name:
        server = embedded.start(Path(name) / "redis", embedded.free_port(0))
        try:
            with redis.Redis.from_url(server.url) as client:
                fill(client, 1_000, categories=4)
                compare(client, {"REDIS_URL": server.url, "PERSISTENT_STORAGE_PATH": name, "LOG_LEVEL": "ERROR"}, turns)
        finally:
            server.stop()


def compare(client: redis.Redis, environment: dict[str, str], turns: int) -> None:
    """All commands in turn, again and again."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(turns):
        for name, words in COMMANDS.items():
            command = [sys.executable, "-m", *words]
            with spending(client) as spent:
                # An answer such as "nothing was found" ends with 1, and costs the same.
                subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
            taken[name].append(spent.cpu_seconds)
    rows = [[name, f"{statistics.median(cpu):.2f}", f"{GOAL}"] for name, cpu in taken.items()]
    print(table(["command", "CPU s", "goal"], rows))


if __name__ == "__main__":
    main()
