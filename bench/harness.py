"""Measure processes: CPU and wall seconds, memory; serve pages from another process on many loopback addresses."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# A fresh interpreter, so that RUSAGE_CHILDREN holds this one command and its own children.
_PROBE = (
    "import json,resource,subprocess,sys,time;b=time.monotonic();"
    "subprocess.run(json.loads(sys.argv[1]),check=True,stdout=sys.stderr);"
    "u=resource.getrusage(resource.RUSAGE_CHILDREN);"
    "print(json.dumps([u.ru_utime+u.ru_stime,time.monotonic()-b,u.ru_maxrss/1024]))"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a process took."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    """Of its largest process."""


def measured(*command: str, **environment: str) -> Figures:
    """Run `python -m command` to its end."""
    words = json.dumps([sys.executable, "-m", *command])
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, words],
        cwd=ROOT,
        env=os.environ | environment,
        check=True,
        stdout=subprocess.PIPE,
    )
    return Figures(*json.loads(done.stdout.splitlines()[-1]))


def addresses(count: int) -> list[str]:
    """That many loopback addresses, each its own host to the gate."""
    return [f"127.1.{i // 250}.{i % 250 + 1}" for i in range(count)]


@contextlib.contextmanager
def serving(*command: str) -> Iterator[dict[str, int]]:
    """A server in its own process, `python -m command`; gives host → port; it ends at the end of its input."""
    server = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout
    try:
        yield json.loads(server.stdout.readline())
    finally:
        server.communicate("\n")
