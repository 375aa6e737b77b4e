"""Measure processes: CPU and wall seconds, memory; serve pages from another process on many loopback addresses."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

ROOT = Path(__file__).resolve().parents[1]

# A fresh interpreter, so that RUSAGE_CHILDREN holds this one command and its own children.
_PROBE = (
    "import json,resource,subprocess,sys,time;b=time.monotonic();"
    "subprocess.run(json.loads(sys.argv[1]),check=True,stdout=sys.stderr);"
    "u=resource.getrusage(resource.RUSAGE_CHILDREN);"
    "print(json.dumps([u.ru_utime+u.ru_stime,time.monotonic()-b,u.ru_maxrss/1024]))"
)

# With compiled modules on disk, as people have them: without, every process would compile its own again.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


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
        env=_ENVIRONMENT | environment,
        check=True,
        stdout=subprocess.PIPE,
    )
    return Figures(*json.loads(done.stdout.splitlines()[-1]))


@dataclass(slots=True)
class Spent:
    """What a piece of work took: CPU of this process and of its children that ended, CPU of Redis, wall time."""

    cpu_seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


@contextlib.contextmanager
def spending(client: redis.Redis) -> Iterator[Spent]:
    """Measure a block, in this process or in processes that it starts and waits for."""
    spent = Spent()
    own, server, wall = own_cpu_seconds(), server_cpu_seconds(client), time.monotonic()
    yield spent
    spent.wall_seconds = time.monotonic() - wall
    spent.cpu_seconds, spent.server_cpu_seconds = own_cpu_seconds() - own, server_cpu_seconds(client) - server


def own_cpu_seconds() -> float:
    """CPU seconds of this process and of its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def server_cpu_seconds(client: redis.Redis) -> float:
    """CPU seconds of the Redis server so far."""
    used = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def machine() -> str:
    """The machine that figures belong to."""
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpu = model[1] if model else platform.machine()
    software = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GB, {software}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown has it, in columns that line up on a terminal: words to the left, figures to the right."""
    lines = [heads, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    is_text = [place == 0 or not any(re.match(r"[\d.]", row[place]) for row in rows) for place in range(len(heads))]
    columns = list(zip(widths, is_text, strict=True))
    rule = ["-" * width if text else "-" * (width - 1) + ":" for width, text in columns]
    shown = [
        [f"{cell:{'<' if text else '>'}{width}}" for cell, (width, text) in zip(line, columns, strict=True)]
        for line in (heads, rule, *rows)
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def write_part(page: str, name: str, text: str) -> None:
    """Put a text between `<!-- name -->` and the next `<!-- end -->` of a page in docs/."""
    path = ROOT / "docs" / page
    head, tail = re.escape(f"<!-- {name} -->"), re.escape("<!-- end -->")
    found = re.sub(f"(?s)({head}\n).*?({tail})", lambda match: f"{match[1]}{text}\n{match[2]}", path.read_text())
    path.write_text(found)


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
